#!/usr/bin/env python3
"""Writes docs/messages.md: every rule of configs/rules/lines and every XID, by program, with what it means and what to do.
`messages_page.py --check` fails where the page is not what the rules say."""

import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "messages.md"
BEGINNING = """# Messages in logs: what they mean and what to do

What `busbar diagnose` knows of other programs' lines, by program. Written by `scripts/messages_page.py` from
`configs/rules`. `busbar diagnose --explain ID` prints one of them.

A site adds its own with `busbar diagnose --rules FILE`: a file of the same form (`configs/rules/lines/general.yaml`
describes the keys), with `schema: 1` and `rules`. A remedy may be any text there. Such rules add findings; they never call
a line harmless and never stand before a rule of this page.

Not here, because they are no messages of one line: NCCL's calls, PyTorch's watchdog, and stacks of `py-spy dump` and gdb's
`thread apply all bt` ([what is read](diagnose.md)).
"""


def listed(value):
    return value if isinstance(value, list) else [value]



def source(text):
    if text.startswith("http"):
        return f"<{text.split(' ')[0]}>"
    return f"`{text}`"


def entry(rule, remedies):
    """One rule, as lines of Markdown."""
    lines = ["", f"### {rule['id']}", ""]
    lines += [f"    {example}" for example in listed(rule["example"])]
    kind = "harmless" if "harmless" in rule else rule["kind"]
    means = rule.get("means", rule.get("harmless", ""))
    lines += ["", f"- Kind: {kind}" + (f". {means[0].upper()}{means[1:]}." if means else ".")]
    if "remedy" in rule:
        lines.append(f"- Next: {remedies[rule['remedy']]}.")
    if "versions" in rule:
        lines.append(f"- Versions: {rule['versions']}.")
    if "source" in rule:
        lines.append(f"- Source: {source(rule['source'])}.")
    return lines


def page():
    remedies = yaml.safe_load((ROOT / "configs/rules/remedies.yaml").read_text())["remedies"]
    files = sorted((ROOT / "configs/rules/lines").glob("*.yaml"))
    lines = BEGINNING.rstrip("\n").split("\n")
    for path in files:
        rules = yaml.safe_load(path.read_text())
        title = rules.get("program", "Any program")
        lines += ["", f"## {title}"]
        for rule in rules["rules"]:
            lines += entry(rule, remedies)
    lines += ["", "## XIDs of NVIDIA's driver", "", "| XID | means | next |", "| --- | --- | --- |"]
    xids = yaml.safe_load((ROOT / "configs/rules/xid.yaml").read_text())["xids"]
    for number, xid in sorted(xids.items()):
        means, remedy = (text.replace("|", "\\|") for text in (xid["meaning"], remedies[xid["remedy"]]))
        lines.append(f"| {number} | {means} | {remedy} |")
    return "\n".join(lines) + "\n"


def main():
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if not PAGE.exists() or PAGE.read_text() != wanted:
        print("docs/messages.md is not what configs/rules say: run scripts/messages_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
