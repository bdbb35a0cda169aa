#!/usr/bin/env python3
"""Do the unit tests notice when the code is wrong? Mutants of universalmutator (PyPI) over the pure rooms: each is
compiled and the room's tests run (`make mutants`; an hour).

    scripts/mutants.py FOLDER [--rooms NAME,...] [--per-room 40] [--seed 1] [--cmake=OPTION]...

FOLDER gets a copy of the committed sources, a build of them, the mutants, and rows.jsonl, from which an interrupted run
goes on. A mutant that does not compile, or whose object is the same, does not count; one with which the tests fail,
crash or take ten times as long is killed. Equivalent ones count as survivors. The same seed draws the same mutants."""

import argparse
import difflib
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A room's files, and the tags of its tests.
ROOMS = {
    "statistics": ("src/common/statistics/*.cpp", "[statistics]"),
    "judges": ("src/driver/accept/judge_*.cpp src/driver/doctor/judge_*.cpp", "[accept],[judge],[doctor]"),
    "locate": ("src/driver/locate/conclude.cpp src/driver/locate/pairing.cpp src/driver/locate/score_pairs.cpp "
               "src/driver/locate/search.cpp src/driver/locate/slow_ranks.cpp", "[locate]"),
    "kernels": ("src/kernels/wrong_data_cause.cpp", "[kernels]"),
    "collectives": ("src/collectives/*.cpp", "[collectives],[alltoallv],[kernels]"),
}


def run(command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options)


MOST_MEMORY = 6 << 30  # a mutant may ask for memory without end


class Tree:
    """The copy that is mutated, and its build."""

    def __init__(self, folder, cmake):
        self.source, self.build = folder / "tree", folder / "build"
        for old in (self.source, folder / "mutants"):  # a file that has gone would be compiled, too
            shutil.rmtree(old, ignore_errors=True)
        self.source.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-m", "-C", str(self.source)], input=archive, check=True)
        run(["cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DBUSBAR_UNITY=OFF", "-DBUSBAR_CUDA=OFF", *cmake])
        if not self.made():
            sys.exit("the sources do not compile")

    def made(self):
        return subprocess.run(["cmake", "--build", str(self.build), "--target", "test_unit"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def object_hash(self, file):
        found = list(self.build.glob(f"CMakeFiles/*.dir/{file}.o"))
        return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest() if found else ""

    def read(self, file):
        return (self.source / file).read_text(encoding="utf-8")

    def write(self, file, text):
        (self.source / file).write_text(text, encoding="utf-8", errors="surrogateescape")

    def passes(self, tags, limit_s):
        try:
            return subprocess.run([str(self.build / "test/test_unit"), tags, "--abort"], cwd=self.build, timeout=limit_s,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  check=False, preexec_fn=lambda: resource.setrlimit(
                                      resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def mutator(folder):
    """The environment in which Python finds universalmutator."""
    there = folder / "universalmutator"
    if not there.exists():
        # Not what it says that it needs: a `typing` of its own breaks Python's.
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(there),
             "universalmutator==1.14.1", "tabulate"])
    return dict(os.environ, PYTHONPATH=str(there))


def mutants_of(folder, tree, files):
    """(file, the mutant's text) of all of universalmutator's for a room, without those of comments."""
    environment, found = mutator(folder), []
    for file in files:
        out = folder / "mutants" / file
        if not out.exists():
            out.mkdir(parents=True)
            run([sys.executable, "-m", "universalmutator.genmutants", str(tree.source / file), "cpp", "--noCheck",
                 "--mutantDir", str(out)], env=environment, cwd=out)
        original = tree.read(file)
        for path in sorted(out.glob("*.mutant.*")):
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            if not re.match(r"\s*(//|#include|$)", change_of(original, text)[0]):
                found.append((file, f"{file}/{path.name}", text))
    return found


def change_of(before, after):
    """The first line that differs, before and after."""
    for old, new in zip(before.split("\n"), after.split("\n")):
        if old != new:
            return old, new
    return "", ""


def judge(tree, room, file, text, limit_s):
    original = tree.read(file)
    usual = tree.object_hash(file)
    tree.write(file, text)
    try:
        if not tree.made():
            return "does not compile"
        if tree.object_hash(file) == usual:
            return "same object"
        return "survived" if tree.passes(ROOMS[room][1], limit_s) else "killed"
    finally:
        tree.write(file, original)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--per-room", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cmake", action="append", default=[])
    args = parser.parse_args()
    rooms = args.rooms.split(",")
    if unknown := set(rooms) - set(ROOMS):
        sys.exit(f"no such room: {', '.join(unknown)}; there are: {', '.join(ROOMS)}")
    folder = args.folder.resolve()
    if shutil.which("ninja") is None:
        sys.exit("ninja is missing: make deps")
    tree = Tree(folder, args.cmake)
    rows_file = folder / "rows.jsonl"
    rows = []
    if rows_file.exists():
        rows = [json.loads(line) for line in rows_file.read_text(encoding="utf-8").splitlines()]
    known = {(row["seed"], row["mutant"]): row for row in rows}
    for room in rooms:
        patterns, tags = ROOMS[room]
        files = sorted(str(path.relative_to(tree.source)) for pattern in patterns.split()
                       for path in tree.source.glob(pattern))
        begun = time.monotonic()
        if not tree.made() or not tree.passes(tags, 600):  # without the last mutant of the room before
            sys.exit(f"{room}: the tests fail without any mutant")
        limit_s = 10 + 10 * (time.monotonic() - begun)
        mutants = mutants_of(folder, tree, files)
        random.Random(args.seed).shuffle(mutants)
        counted = []
        for file, name, text in mutants:
            if len(counted) >= args.per_room:
                break
            row = known.get((args.seed, name))
            if row is None:
                old, new = change_of(tree.read(file), text)
                row = {"seed": args.seed, "room": room, "mutant": name, "file": file, "old": old.strip(),
                       "new": new.strip(), "outcome": judge(tree, room, file, text, limit_s)}
                with open(rows_file, "a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
            if row["outcome"] in ("killed", "survived"):
                counted.append(row)
        killed = sum(row["outcome"] == "killed" for row in counted)
        print(f"{room:12} {killed:3} of {len(counted):3} killed, of {len(mutants)} mutants of {len(files)} files",
              flush=True)
        for row in counted:
            if row["outcome"] == "survived":
                print("\n".join([f"  {row['file']}", *difflib.ndiff([row["old"]], [row["new"]])]), flush=True)


if __name__ == "__main__":
    main()
