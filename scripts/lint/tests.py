#!/usr/bin/env python3
"""What a test may not be: hidden from whoever counts tests, without an end of its own, or a golden file that nobody
writes or that a script is said to read which does not exist."""

import pathlib
import re
import subprocess
import sys

FOLDERS = ("unit", "mpi", "e2e", "faults", "fuzz", "fakes", "gpu", "logs", "real_nccl")
HIDDEN = re.compile(r'TEST_CASE\(.*"\[[.!]|^\s*"\[[.!]')
ENDLESS = re.compile(r"\bwhile \((true|1)\)|\bfor \(;;\)|^\s*while (True|1):")
GOLDEN = re.compile(r'check_golden\("([^"]+)"')
SCRIPT = re.compile(r"\b(\w+\.(?:py|sh))\b")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return [pathlib.Path(line) for line in listed.splitlines() if pathlib.Path(line).exists()]


def main():
    sources = [path for folder in FOLDERS for path in tracked(f"test/{folder}/") if path.suffix in
               (".h", ".cpp", ".cu", ".py")]
    scripts = {path.name for path in tracked("*.py", "*.sh")}
    written, found = set(), []
    for path in sources:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path}:{number}: "
            written.update(GOLDEN.findall(line))
            if path.suffix != ".py" and HIDDEN.search(line):
                found.append(where + "a hidden case is not a test: make it a program or a script")
            if ENDLESS.search(line):
                found.append(where + "a loop without a bound hangs where what it waits for does not come")
            if path.suffix != ".py" and line.lstrip().startswith(("//", "TEST_CASE(")):
                found += [where + f"there is no {name}" for name in SCRIPT.findall(line) if name not in scripts]
    for path in tracked("test/unit/golden/"):
        if path.name not in written:
            found.append(f"{path}: no check_golden writes it")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
