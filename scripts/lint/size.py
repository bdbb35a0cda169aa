#!/usr/bin/env python3
"""The house has a size, so that each feature pays for its lines: lines and files of src/ and test/ as clang-format lays
them out, and what a benchmark's mains reach through src/rooms.txt. `size.py --rooms` prints them per room."""

import pathlib
import subprocess
import sys

from rooms import read_rooms, room_of

BENCHMARK = "programs/perf"
# What must not be exceeded. Make these smaller when something goes; an issue may make them larger.
MOST = {"src lines": 84520, "src files": 497, "benchmark lines": 42230, "test lines": 80580}


def lines_of(path):
    return pathlib.Path(path).read_bytes().count(b"\n")


def reach(start, rooms):
    """`start` and every room that it includes, however indirectly."""
    seen, left = set(), [start]
    while left:
        room = left.pop()
        if room not in seen:
            seen.add(room)
            left += rooms.get(room, [])
    return seen


def measured(files, rooms):
    """Name of each limit: what stands."""
    src = [f for f in files if f.startswith("src/")]
    reached = reach(BENCHMARK, rooms)
    return {"src lines": sum(map(lines_of, src)), "src files": len(src),
            "benchmark lines": sum(lines_of(f) for f in src if room_of(f[4:], rooms) in reached),
            "test lines": sum(lines_of(f) for f in files if f.startswith("test/"))}


def self_check(rooms):
    assert reach("a", {"a": ["b"], "b": ["c"], "c": [], "d": ["a"]}) == {"a", "b", "c"}
    reached = reach(BENCHMARK, rooms)
    assert "common/measure" in reached and "driver/accept" not in reached, reached


def main():
    rooms = read_rooms(pathlib.Path("src/rooms.txt").read_text())
    self_check(rooms)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "test"], capture_output=True,
                            text=True, check=True).stdout.splitlines()
    files = [f for f in listed if pathlib.Path(f).is_file()]
    if "--rooms" in sys.argv:
        for room in rooms:
            inside = [f for f in files if f.startswith("src/") and room_of(f[4:], rooms) == room]
            print(f"{room:20} {len(inside):4} files {sum(map(lines_of, inside)):6} lines")
    found = measured(files, rooms)
    print("; ".join(f"{what}: {found[what]} of {most}" for what, most in MOST.items()))
    return 1 if any(found[what] > most for what, most in MOST.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
