#!/usr/bin/env python3
"""Includes point one way (collectives <- kernels <- common <- driver <- programs), so that each layer can be understood, built and
tested without those above it; and each library's header appears only where that library is the subject."""

import pathlib
import re
import sys

LAYERS = ["collectives", "kernels", "common", "driver", "programs"]  # each may include itself and what stands to its left
OUTERMOST = ["plugins"]  # beside the programs

# Which files may include a library's header: regular expressions over paths below the root.
DOORS = {
    r"mpi\.h|common/mpi/mpi_handle\.h": r"src/common/(mpi|backends/mpi)/|test/(mpi|bench|faults)/",
    r"nccl(_.*)?\.h": r"src/common/backends/nccl/|src/plugins/|test/(gpu|fakes)/",
    r"cuda.*\.h": r"src/kernels/.*\.cuh?$|src/common/backends/nccl/|test/(gpu|fakes)/",
    r"nvtx3/.*": r"src/common/backends/nccl/|src/common/measure/",
    r"yaml-cpp/.*": r"src/(common/base|driver)/.*\.cpp$|test/",
    r"sqlite3\.h": r"src/driver/history/.*\.cpp$|test/",
    r"nlohmann/json_fwd\.hpp": r"src/common/record/json_values\.h$",
    r"nlohmann/(?!json_fwd).*": r"src/(common/(record|output|watch)|driver)/.*\.cpp$|test/",
    r"hwloc(/.*|\.h)": r"src/common/(machine|mpi)/.*\.cpp$|test/",
}
PURE_LAYER = "collectives"  # the standard library only


def layer_of(path):
    """Index of the layer that a path below src/ belongs to."""
    top = path.split("/")[0]
    return len(LAYERS) - 1 if top in OUTERMOST else LAYERS.index(top) if top in LAYERS else None


def complaints(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        project, header = match[1] == '"', match[2]
        where = f"{path}:{number}"
        if path.startswith("src/"):
            own, other = layer_of(path[4:]), layer_of(header)
            if project and other is None:
                yield f"{where}: write \"{header}\" relative to src/"
            elif project and own is not None and other > own:
                yield f"{where}: {LAYERS[own]} must not know {LAYERS[other]} (\"{header}\")"
            elif not project and own == LAYERS.index(PURE_LAYER) and re.search(r"[./]", header):
                yield f"{where}: {PURE_LAYER} uses the standard library only, not <{header}>"
        for pattern, allowed in DOORS.items():
            if re.fullmatch(pattern, header) and not re.match(allowed, path):
                yield f"{where}: {header} may only be included by files matching {allowed}"


def self_check():
    """Each rule is seen to fire: a rule that cannot is no rule."""
    assert list(complaints("src/kernels/x.h", '#include "common/base/error.h"'))
    assert list(complaints("src/collectives/x.h", "#include <fmt/format.h>"))
    assert list(complaints("src/common/measure/x.cpp", "#include <mpi.h>"))
    assert list(complaints("src/common/measure/x.cpp", '#include "x.h"'))
    assert not list(complaints("src/common/mpi/x.cpp", '#include <mpi.h>\n#include "kernels/host.h"\n#include <span>'))


def main():
    self_check()
    found = []
    for root in ("src", "test"):
        for path in sorted(pathlib.Path(root).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                found += complaints(path.as_posix(), path.read_text())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
