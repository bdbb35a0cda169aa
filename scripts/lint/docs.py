#!/usr/bin/env python3
"""What readers of the manual follow must lead somewhere: links and anchors, the list of pages, options. An option that
was renamed stays in prose for years, because nothing compiles prose. The README stays short, or nobody reads it."""

import pathlib
import re
import sys

README_LINES = 250
# Options of other programs, which no source of ours declares.
FOREIGN = {
    "--host", "--hostfile", "--mca", "--oversubscribe", "--allow-run-as-root", "--map-by", "--bind-to",  # mpirun
    "--mpi", "--ntasks-per-node", "--overlap",                                          # srun
    "--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint", "--no-python", "--standalone",  # torchrun
    "--args",                                                                   # gdb
    "--collect-atstart", "--tool", "--toggle-collect",                          # valgrind
    "--enable-yield",                                                           # MPICH's configure
    "--list-tests",                                                             # Catch2
    "--nodeps",                                                                 # rpmbuild
    "--pid",                                                                    # py-spy
    "--build-arg", "--rm", "--shm-size", "--ulimit",                            # docker
    "--collector",                                                              # node-exporter
}
MESSAGES = "docs/messages.md"  # its options are those of the programs whose messages it explains
TABLE = "src/common/base/option_table.cpp"
# Whose options a subcommand takes beside the benchmarks', where that is not its own folder alone.
SUBCOMMANDS = {"doctor": "doctor formats", "locate": "locate formats", "accept": "accept formats"}
CODE = re.compile(r"```.*?^```|(?<=\n\n)(?: {4}[^\n]*\n|\n)+|``[^`]*``|`[^`]*`|<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")
OWN = re.compile(r'\{"([a-z][a-z-]*)", "(?:|\[=[A-Z]+\]|[A-Z][^"]*|[a-z]+(?:\|[a-z]+)+)",\s+"')
SCRIPT = re.compile(r'add_argument\(\s*"(--[\w-]+)"|^\s*(--[\w-]+)(?:=\*)?(?: \|.*|\|.*)?\)|== "(--[\w-]+)"',
                    re.MULTILINE)


def declared_options(sources):
    """Options of the benchmarks, of subcommands by their folders, of scripts and test programs, from {path: text}."""
    table = re.findall(r"Option\{(?:0|'.'), \"(\w[\w-]*)\"", sources[TABLE])
    own, scripts = {}, set()
    for path, text in sources.items():
        room = re.match(r"src/driver/(\w+)/", path)
        if room:
            for body in re.findall(r"^std::vector<OwnOption> \w+\(.*?^\}", text, re.DOTALL | re.MULTILINE):
                own.setdefault(room[1], set()).update("--" + name for name in OWN.findall(body))
        elif not path.startswith("src/") or path.startswith("src/programs/"):
            scripts.update(name for names in SCRIPT.findall(text) for name in names if name)
    return {"--" + name for name in table}, own, scripts


def option_complaints(where, text, options):
    """Every option exists; one behind `busbar NAME` in the same line is that subcommand's or the benchmarks'."""
    table, own, scripts = options
    for number, line in enumerate(text.split("\n"), 1):
        known = table | FOREIGN | scripts | set().union(*own.values())
        for name in OPTION.findall(line):
            if name not in known:
                yield f"{where}:{number}: there is no option {name}"
        command = re.search(r"\bbusbar (\w+)(( [^`\"|;#]*)?)", line)
        if command and command[1] in own:
            rooms = SUBCOMMANDS.get(command[1], command[1]).split()
            allowed = table.union(*(own[room] for room in rooms))
            for name in OPTION.findall(command[2].split(" -- ")[0]):
                if name in known and name not in allowed:
                    yield f"{where}:{number}: busbar {command[1]} has no option {name}"


def prose(text):
    return CODE.sub(lambda match: "\n" * match[0].count("\n"), text)


def anchors(text):
    """The headings' anchors as GitHub makes them; those for which mkdocs makes another are left out."""
    found = set()
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    for heading in headings:
        kept = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
        slug = kept.replace(" ", "-")
        if slug == re.sub(r"[-\s]+", "-", kept) and slug not in found:
            found.add(slug)
    return found


def link_complaints(where, pages):
    """`pages`: path to text, of all pages. A page of docs/ links to pages of docs/ alone: mkdocs knows no others."""
    folder = pathlib.PurePosixPath(where).parent
    text = prose(pages[where])
    for match in LINK.finditer(text):
        target, line = match[1], f"{where}:{text.count(chr(10), 0, match.start()) + 1}"
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = where if not name else normal(folder / name)
        if path not in pages and not pathlib.Path(path).is_file():
            yield f"{line}: {target} leads nowhere"
        elif where.startswith("docs/") and not path.startswith("docs/"):
            yield f"{line}: {target} is not in docs/: write its name as code"
        elif anchor and anchor not in anchors(pages.get(path, "")):
            yield f"{line}: {target}: no heading there has that anchor, on GitHub and in mkdocs"


def normal(path):
    parts = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def nav_complaints(config, pages):
    listed = re.findall(r"^ +- .*?([\w/.-]+\.md)$", config, re.MULTILINE)
    there = {page.removeprefix("docs/") for page in pages if page.startswith("docs/")}
    for page in sorted(there - set(listed)):
        yield f"mkdocs.yml: docs/{page} is not in nav"
    for page in sorted(set(listed) - there):
        yield f"mkdocs.yml: nav has {page}, which is not in docs/"
    for page in sorted({page for page in listed if listed.count(page) > 1}):
        yield f"mkdocs.yml: nav has {page} twice"


def complaints(pages, config, options):
    for where, text in pages.items():
        yield from link_complaints(where, pages)
        if where != MESSAGES:
            yield from option_complaints(where, text, options)
    nlines = pages["README.md"].count("\n")
    if nlines > README_LINES:
        yield f"README.md: {nlines} lines, {README_LINES} at most: the manual is docs/"
    yield from nav_complaints(config, pages)


def self_check():
    """Each rule is seen to fire: a rule that cannot is not a rule."""
    sources = {TABLE: "Option{0, \"full-check\", \"N\"", "src/driver/locate/x.cpp":
               'std::vector<OwnOption> own(A& a) {\n  return {{"rail", "[=N]",\n  "help"}, {"x", "y", "z"}};\n}\n',
               "src/driver/formats/x.cpp": 'std::vector<OwnOption> own() {\n  return {{"junit", "FILE", "help"}};\n}\n',
               "src/driver/merge/x.cpp": 'std::vector<OwnOption> own() {\n  return {{"cost", "SECONDS", "help"}};\n}\n',
               "scripts/x.py": 'parser.add_argument("--only")', "scripts/x.sh": "case $1 in\n  --part)\n"}
    options = declared_options(sources)
    assert options == ({"--full-check"}, {"locate": {"--rail"}, "formats": {"--junit"}, "merge": {"--cost"}},
                       {"--only", "--part"})

    def says(text, config="nav:\n  - A: a.md\n", readme="x\n"):
        pages = {"README.md": readme, "docs/a.md": "# One `--rail` head\n## A: b\n" + text}
        return list(complaints(pages, config, options))
    assert not says("[x](#a-b) [y](a.md#a-b) [z](https://x.org) `[c](no.md)` --rail\n\n    [d](no.md)\n")
    assert not says("`busbar locate --rail=2 --junit F --full-check`, `--cost`, `--only`, mpirun --mca\n")
    assert says("[x](b.md)") and says("[x\ny](b.md)") and says("[x](../README.md)")
    assert says("\n    code\n\n[x](b.md)\n") and says("`code` [x](b.md) `code`") and says("```\ncode\n```\n[x](b.md)")
    assert says("[x](#b)") and says("[x](#one---rail-head)")  # mkdocs: one-rail-head
    assert says("--nothing") and says("busbar locate --cost 3") and says("busbar merge --rail")
    assert says("", readme="x\n" * 251) and not says("", readme="x\n" * 250)
    assert says("", config="nav:\n") and says("", config="nav:\n  - A: a.md\n  - B: b.md\n")
    assert says("", config="nav:\n  - A: a.md\n  - B: a.md\n")


def main():
    self_check()
    root = pathlib.Path(".")
    pages = {path.as_posix(): path.read_text(encoding="utf-8")
             for path in [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]}
    patterns = ("src/driver/**/*.cpp", "src/programs/**/*.cpp", "scripts/**/*.py", "scripts/**/*.sh", "test/**/*.py",
                "test/fuzz/*.h")
    sources = {path.as_posix(): path.read_text(encoding="utf-8")
               for path in [root / TABLE, *(path for pattern in patterns for path in root.glob(pattern))]}
    found = list(complaints(pages, (root / "mkdocs.yml").read_text(encoding="utf-8"), declared_options(sources)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
