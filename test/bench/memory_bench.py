#!/usr/bin/env python3
"""Would show: a suite that needs so much memory itself that users cannot run the sizes which their machine holds.

Peak resident set of a rank of the suite beside that of a bare MPI program that makes the same calls on the same two
buffers, both seen from outside, by the process that started the rank. `memory_bench.py BUILDDIR`."""

import os
import pathlib
import re
import subprocess
import sys

NRANKS = 2
SIZES = [1 << 20, 64 << 20]
LIMIT_MIB = 64
MPIRUN = os.environ.get("BUSBAR_MPIRUN", "mpirun")
SUFFIX = os.environ.get("BUSBAR_NAME_SUFFIX", "")


def watch(command):
    """Runs the command as one rank, and adds its peak [KiB] to its output."""
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    print(f"<peak {usage.ru_maxrss} KiB>", flush=True)
    return os.waitstatus_to_exitcode(status)


def peak_mib(command):
    """The largest peak over the ranks."""
    watched = [MPIRUN, "-n", str(NRANKS), sys.executable, __file__, "--watch", *map(str, command)]
    done = subprocess.run(["timeout", "-k", "5", "120", *watched], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    # mpirun may put the ranks' words on one line.
    peaks = [int(kib) for kib in re.findall(r"<peak (\d+) KiB>", done.stdout)]
    if done.returncode != 0 or len(peaks) != NRANKS:
        sys.exit(f"{' '.join(watched)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return max(peaks) / 1024


def main(build):
    # Root and few cores are no reason to refuse a benchmark of the suite itself.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    print(f"peak resident set of a rank [MiB], {NRANKS} ranks; goal: less than {LIMIT_MIB} MiB of the suite's own")
    print(f"{'collective':<12} {'size':>8} {'suite':>8} {'bare MPI':>8} {'own':>8}")
    for collective in ("all_reduce", "all_gather"):
        for nbytes in SIZES:
            ours = peak_mib([build / f"{collective}_perf{SUFFIX}", "--backend", "mpi", "-b", nbytes, "-e", nbytes])
            bare = peak_mib([build / "test/bare_collective_bench", collective, nbytes])
            print(f"{collective:<12} {nbytes >> 20:>4} MiB {ours:>8.1f} {bare:>8.1f} {ours - bare:>8.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        sys.exit(watch(sys.argv[2:]))
    main(pathlib.Path(sys.argv[1]).resolve())
