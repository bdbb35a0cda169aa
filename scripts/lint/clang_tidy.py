#!/usr/bin/env python3
"""Bugs that compilers accept; .clang-tidy says which. Only src/: the tests' macros drown everything else. The files of a
room are read together, because the headers that they share take most of the time, and because a name that two of them
have in their unnamed namespaces breaks only those builds that compile the two together."""

import json
import os
import pathlib
import re
import subprocess
import sys

# A batch is "included" from these, so that .clang-tidy's HeaderFilterRegex shows what stands in it.
BATCH = "/Unity/unity_"


def read_alone_or_in_batches(commands):
    """The files to give to clang-tidy, and those of src/ that they cover."""
    batches = sorted({c["file"] for c in commands if BATCH in c["file"]})
    source = os.path.join(os.getcwd(), "src", "")
    inside = set()
    for batch in batches:
        inside.update(re.findall(r'#include "([^"]+)"', pathlib.Path(batch).read_text()))
    own = {c["file"] for c in commands if c["file"].startswith(source) and c["file"].endswith(".cpp")}
    return batches + sorted(own - inside), own | inside


def run(build, files):
    """(exit code, output) of clang-tidy over `files`, as many at a time as there are cores."""
    left = subprocess.run(["xargs", "-0", "-P", str(os.cpu_count()), "-n", "1", "clang-tidy", "--quiet", "-p", build],
                          input="\0".join(files), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return left.returncode, left.stdout


def show(output):
    """A finding in a header is repeated by every file that includes it."""
    seen, shown = set(), True
    for line in output.splitlines():
        if re.search(r"(error|warning): ", line):
            shown = line not in seen
            seen.add(line)
        if shown:
            print(line)


def main():
    build = sys.argv[1]
    commands = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    files, covered = read_alone_or_in_batches(commands)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src/*.cpp"], capture_output=True, text=True,
                            check=True).stdout.split()
    # A file that is not built here (the NCCL backend without CUDA) has no compile command and is left out.
    known = [f for f in listed if os.path.abspath(f) in covered]
    if len(known) < len(listed) / 2:
        print(f"only {len(known)} of {len(listed)} files have a compile command in {build}")
        return 1
    code, output = run(build, files)
    show(output)
    return code


if __name__ == "__main__":
    sys.exit(main())
