#!/usr/bin/env python3
"""Texts keep to the style sheet of CONTRIBUTING: none of its words in comments, string literals, help, rules or docs
(words.yaml has them, with what to say instead and where each is right)."""

import pathlib
import re
import subprocess
import sys

import yaml

LIST = pathlib.Path(__file__).with_name("words.yaml")
CODE = (".h", ".cpp", ".cu", ".cuh")
PROSE = (".md", ".txt", ".yaml")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)
FENCE = re.compile(r"^```.*?^```|^(?: {4}|\t)[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def blanked(text):
    return re.sub(r"[^\n]", " ", text)


def prose_of_code(text):
    """Comments and string literals where they stand, spaces for the rest."""
    out, at = [], 0
    for match in TOKEN.finditer(text):
        out += [blanked(text[at:match.start()]), match[0] if match[0][0] != "'" else blanked(match[0])]
        at = match.end()
    return "".join(out) + blanked(text[at:])


def prose_of(path, text):
    if path.endswith(CODE):
        return prose_of_code(text)
    return FENCE.sub(lambda match: blanked(match[0]), text) if path.endswith(".md") else text


def complaints(path, text, words, allowed):
    prose = prose_of(path, text)
    for word in words:
        right = [match.span() for form in word.get("right", ()) for match in re.finditer(form, prose, re.I)]
        for match in re.finditer(word["word"], prose, re.I):
            if any(begin <= match.start() < end for begin, end in right):
                continue
            line = prose[prose.rfind("\n", 0, match.start()) + 1:].split("\n", 1)[0]
            if any(re.match(entry["file"], path) and re.search(entry["text"], line) for entry in allowed):
                continue
            number = prose.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: {match[0].strip()}: say {word['say']}"


def self_check():
    words = [{"word": r"\btold\b", "say": "reported", "right": [r"told apart"]}]

    def says(path, text, allowed=()):
        return len(list(complaints(path, text, words, allowed)))
    assert says("a.cpp", "int told; // what is told\n") == 1 and says("a.cpp", 'say("told");') == 1
    assert says("a.cpp", "x = '\"'; int told;") == 0 and says("a.cpp", "// told apart") == 0
    assert says("a.md", "told `told`\n\n    told\n```\ntold\n```\n") == 1
    assert says("a.md", "they told", [{"file": "a", "text": "they told"}]) == 0
    assert list(complaints("a.md", "x\nTold", words, ())) == ["a.md:2: Told: say reported"]


def main():
    self_check()
    sheet = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    places = [re.compile(place) for place in sheet["places"]]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True)
    found, used = [], set()
    for path in listed.stdout.splitlines():
        if not path.endswith(CODE + PROSE) or not any(place.match(path) for place in places):
            continue
        text = pathlib.Path(path).read_text(encoding="utf-8")
        used |= {i for i, entry in enumerate(sheet["allowed"])
                 if re.match(entry["file"], path) and re.search(entry["text"], text, re.MULTILINE)}
        found += complaints(path, text, sheet["words"], sheet["allowed"])
    found += [f"{LIST.name}: no line has {entry['text']!r} any more"
              for i, entry in enumerate(sheet["allowed"]) if i not in used]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
