#!/usr/bin/env python3
"""Two types of one name in one namespace are one type to the linker, and no compiler says so: what one file's vector does
to its elements is then done to another's. A type that is for one file stands in its unnamed namespace."""
import collections
import pathlib
import re
import sys

TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;{]*)?\{")


def without_unnamed(text):
    """The text without what stands in unnamed namespaces, which begin and end at the first column."""
    return re.sub(r"^namespace \{\n.*?^\}  // namespace$", "", text, flags=re.MULTILINE | re.DOTALL)


def types_of(text):
    """Names of the types that are defined at the first column: those of the namespace itself."""
    return {match.group(1) for match in re.finditer(r"^" + TYPE.pattern, without_unnamed(text), re.MULTILINE)}


def main():
    places = collections.defaultdict(list)
    for folder in ("src", "test"):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            text = path.read_text()
            space = re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
            for name in types_of(text):
                places[(space.group(1) if space else "", name)].append(path)
    bad = {key: paths for key, paths in places.items() if len(paths) > 1}
    for (space, name), paths in sorted(bad.items()):
        where = ", ".join(map(str, paths))
        print(f"{space}::{name} is defined in {where}: rename one, or put it into an unnamed namespace")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
