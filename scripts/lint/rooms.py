#!/usr/bin/env python3
"""Arrows between rooms point one way, as src/rooms.txt has it, so that each room can be understood, built and tested
without those above it; and each library's header appears only where that library is the subject. Parsers of foreign texts are called in one place,
which keeps the limits of src/common/base/read_file.h."""

import pathlib
import re
import sys

# Which files may include a library's header: regular expressions over paths below the root.
DOORS = {
    r"mpi\.h|common/processes/mpi/library/.*": r"src/common/(processes|backends)/mpi/library/|test/(mpi|bench|faults|fakes)/",
    r"gloo/.*": r"src/common/backends/gloo/library/",
    r"nccl(_.*)?\.h": r"src/common/backends/nccl/cuda/|src/plugins/|test/(gpu|fakes|real_nccl)/",
    r"cuda.*\.h": r"src/kernels/.*\.cuh?$|src/common/backends/nccl/cuda/|test/(gpu|fakes|real_nccl|simt)/",
    r"nvtx3/.*": r"src/common/backends/nccl/cuda/|src/common/measure/",
    r"re2/.*": "src/driver/rules/|test/",
    r"archive(_entry)?\.h": r"src/driver/readers/input_file\.cpp$|test/",
    r"yaml-cpp/.*": r"src/common/base/yaml_tree\.cpp$|test/",
    r"boost/.*": r"src/common/statistics/distributions\.cpp$",  # it takes five seconds to compile
    r"sqlite3\.h": r"src/driver/history/.*\.cpp$|test/",
    r"openssl/.*": r"src/common/machine/hmac\.cpp$",
    r"nlohmann/json_fwd\.hpp": r"src/common/record/json_values\.h$",
    r"nlohmann/(?!json_fwd).*": r"src/(common/(record|output|evidence|watch)|driver/[a-z]+|programs/comm|look)/.*\.cpp$|src/common/record/json_fields\.h$|test/",
    r"common/record/json_fields\.h": r".*\.cpp$",  # it brings all of the library
    r"hwloc(/.*|\.h)": r"src/common/(machine|processes)/.*\.cpp$|test/",
}
# Calls, with the files of src/ that may make them.
GUARDED = {
    r"\b(nlohmann::)?([Jj]son|ordered_json|basic_json(<.*?>)?)::(parse|accept|sax_parse|from_[a-z]+)\b|\b_json\b":
        "src/common/record/json_values.cpp src/driver/workload/kineto_event.cpp",
    r"\bYAML::(Load|LoadFile|LoadAll|LoadAllFromFile|Parser)\b": "src/common/base/yaml_tree.cpp",
    # Foreign text in a message must not steer a terminal.
    r"fmt::print\(stderr, \"busbar|\bfputs\((fmt::format|write_warning)": "src/common/base/say.cpp",
}
PURE = "collectives"  # the standard library only
MAINS = "programs"    # the files of src/programs itself may include any room


def read_rooms(text):
    """Room to what it may include, aliases resolved, from the text of src/rooms.txt. A room that names one not yet
    above it is an error: that is how circles begin."""
    allowed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        room, _, others = line.partition(":")
        for other in others.split():
            if other not in allowed:
                raise SystemExit(f"src/rooms.txt:{number}: {room} names {other}, which no line above has")
            allowed.setdefault(room, set()).update({other} | (allowed[other] if other == "core" else set()))
        allowed.setdefault(room, set())
    return allowed


def room_of(path, rooms):
    """The room that a path below src/ belongs to: the longest that it begins with; None: none."""
    return max((room for room in rooms if path.startswith(room + "/")), key=len, default=None)


def complaints(path, text, rooms):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, door in GUARDED.items():
            call = re.search(pattern, line)
            if call and path.startswith("src/") and path not in door.split():
                yield f"{path}:{number}: {call[0]} goes around the limits that {door} keeps"
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        project, header = match[1] == '"', match[2]
        where = f"{path}:{number}"
        if path.startswith("src/"):
            own, other = room_of(path[4:], rooms), room_of(header, rooms)
            is_main = path.count("/") == 2 and path.startswith(f"src/{MAINS}/")
            if own is None and not is_main:
                yield f"{where}: {path} is in no room of src/rooms.txt"
            elif project and other is None:
                yield f"{where}: write \"{header}\" relative to src/"
            elif project and own not in (None, other) and other not in rooms[own]:
                yield f"{where}: {own} may not include {other} (\"{header}\"); see src/rooms.txt"
            elif not project and own == PURE and re.search(r"[./]", header):
                yield f"{where}: {PURE} uses the standard library only, not <{header}>"
        for pattern, allowed in DOORS.items():
            if re.fullmatch(pattern, header) and not re.match(allowed, path):
                yield f"{where}: {header} may only be included by files matching {allowed}"


def self_check(rooms):
    """Each rule is seen to fire: a rule that cannot is not a rule."""
    def fires(path, line):
        return list(complaints(path, line, rooms))
    assert fires("src/kernels/x.h", '#include "common/base/error.h"')
    assert fires("src/common/measure/x.cpp", '#include "driver/accept/x.h"')
    assert fires("src/driver/doctor/x.cpp", '#include "driver/accept/x.h"')
    assert fires("src/driver/x.cpp", '#include "common/base/error.h"')
    assert fires("src/collectives/x.h", "#include <fmt/format.h>")
    assert fires("src/common/measure/x.cpp", "#include <mpi.h>")
    assert fires("src/common/measure/x.cpp", '#include "x.h"')
    assert fires("src/driver/merge/x.cpp", "  const Json document = Json::parse(text, nullptr, false);")
    assert fires("src/common/record/x.cpp", "return nlohmann::ordered_json::accept(text);")
    assert fires("src/driver/accept/x.cpp", "  YAML::Parser parser(stream);")
    assert fires("src/driver/accept/x.cpp", 'fmt::print(stderr, "busbar: {}\\n", text);')
    assert not fires("src/common/record/json_values.cpp", "return Json::parse(text, see);")
    assert not fires("src/common/processes/mpi/library/x.cpp", '#include <mpi.h>\n#include "common/base/error.h"\n#include <span>')
    assert not fires("src/driver/accept/x.cpp", '#include "driver/locate/x.h"\n#include "kernels/host.h"')
    assert not fires("src/programs/x_main.cpp", '#include "programs/perf/perf.h"')
    try:
        read_rooms("a: b\nb: a\n")
    except SystemExit:
        return
    raise AssertionError("a circle of rooms was not seen")


def main():
    rooms = read_rooms(pathlib.Path("src/rooms.txt").read_text())
    self_check(rooms)
    found = []
    for root in ("src", "test"):
        for path in sorted(pathlib.Path(root).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                found += complaints(path.as_posix(), path.read_text(), rooms)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
