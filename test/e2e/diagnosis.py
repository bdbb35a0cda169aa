"""Runs `busbar diagnose --json` and looks up what it said: shared by the tests over synthetic and over real logs."""

import json
import os
import re
import subprocess
import tempfile

import suite


class Diagnosis:
    """One answer. `text`: everything said but the names of the files; `maxrss`: of the process [bytes]."""

    def __init__(self, code, out, err, maxrss):
        self.code, self.out, self.err, self.maxrss = code, out, err, maxrss
        try:
            self.json = json.loads(out)
        except ValueError:
            self.json = {}
        self.verdict = self.get("verdict", "")
        self.text = "\n".join(_texts({key: value for key, value in self.json.items() if key != "files"}))

    def get(self, key, default=None):
        return self.json.get(key, default)

    def claims(self):
        """What it says is the matter, without the tables that list every rank anyway."""
        return "\n".join([str(self.get("sentence", ""))] + self.get("evidence", []) + self.get("divergences", []))

    def says(self, words, text=None):
        """The words, or, for "rank 7", a list of ranks with it: "ranks 3,5-9"."""
        text = self.claims() if text is None else text
        rank = re.fullmatch(r"rank (\d+)", words)
        if not rank:
            return words.lower() in text.lower()
        return int(rank.group(1)) in named_ranks(text)

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out[:6000]}\n--- stderr\n{self.err[:2000]}"


def named_ranks(text):
    """The ranks that a text names: "rank 3", "ranks 0-2,5 and 7"."""
    found = set()
    for list_of_ranks in re.findall(r"\branks? (\d+(?:-\d+)?(?:(?:, ?| and )\d+(?:-\d+)?\b)*)", text):
        for part in re.findall(r"(\d+)(?:-(\d+))?", list_of_ranks):
            found.update(range(int(part[0]), int(part[1] or part[0]) + 1))
    return found


def _texts(value):
    """Every text and number in a JSON value, with the name that it has: "nranks 8"."""
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        yield f"{value['key']} {value['value']}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (dict, list)):
                yield from _texts(inner)
            else:
                yield f"{key} {inner}"
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def diagnose(paths, *options):
    """The answer about these files, and what the process used."""
    program = os.path.join(suite.BUILD, f"busbar{suite.SUFFIX}")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = ["timeout", "-k", "5", str(suite.LIMIT_S), program, "diagnose", "--json", *options, *paths]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err) as process:
            # Not process.wait(): only this tells the memory of this one child.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Diagnosis(process.returncode, out.read(), err.read(), usage.ru_maxrss * 1024)
