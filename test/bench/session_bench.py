#!/usr/bin/env python3
"""Would show: a watchdog that makes jobs start or end noticeably later.

The same program with and without it in turn, from main to the work and from the work to the end, seconds of rank 0.
`session_bench.py BUILDDIR`."""

import os
import pathlib
import statistics
import subprocess
import sys

ROUNDS = 41
MPIRUN = os.environ.get("BUSBAR_MPIRUN", "mpirun")


def once(program, nranks, how):
    """Seconds of the start and of the end."""
    done = subprocess.run(["timeout", "-k", "5", "60", MPIRUN, "-n", str(nranks), program, how], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {how} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return [float(word) for word in done.stdout.split()]


def words(values):
    low, middle, high = (1e3 * value for value in statistics.quantiles(values, n=4))
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def main(build):
    # Root and few cores are no reason to refuse a benchmark of the suite itself.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    program = str(build / "test/session_bench")
    print(f"medians [quartiles] of {ROUNDS} runs each, in turn [ms]\n")
    print("| ranks | | without watchdog | with it | ratio |\n|---|---|---|---|---|")
    for nranks in (2, 8):
        times = {"bare": [], "watched": []}
        for number in range(ROUNDS):
            for how in sorted(times, reverse=number % 2 == 1):
                times[how].append(once(program, nranks, how))
        for part, name in enumerate(("start", "end")):
            bare, watched = ([run[part] for run in times[how]] for how in ("bare", "watched"))
            ratio = statistics.median(watched) / statistics.median(bare)
            print(f"| {nranks} | {name} | {words(bare)} | {words(watched)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
