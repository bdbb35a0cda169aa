#!/usr/bin/env python3
"""Would show: small messages that are slower in our table than in a program of the user's own.

`all_reduce_perf` of 8 bytes on 2 ranks beside a program that does nothing but MPI_Init and MPI_Allreduce in a loop: each
once per round, in random order, mean of 200000 calls over both ranks; ratios within rounds, so that what drifts is in
both. What was sent before decides in which of two states Open MPI's loop is (bare_collective_bench.cpp): the bare program
measures both, and its mean is what ours is held against. `loop_bench.py BUILDDIR [ROUNDS]`."""

import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/experiments"))
from experiment import median, paired_ratio, run_job  # noqa: E402  # pylint: disable=wrong-import-position

NRANKS = 2
CALLS = 200000
MPIRUN = os.environ.get("BUSBAR_MPIRUN", "mpirun")
SUFFIX = os.environ.get("BUSBAR_NAME_SUFFIX", "")


def bare_us(build):
    """In both states."""
    return tuple(map(float, run_job(MPIRUN, NRANKS, [str(build / "test/bare_collective_bench"), "loop",
                                                     str(CALLS)]).split()))


def ours_us(build, folder, level):
    report = os.path.join(folder, "run.json")
    run_job(MPIRUN, NRANKS, [str(build / f"all_reduce_perf{SUFFIX}"), "--backend", "mpi", "-b", "8", "-e", "8", "-n",
                             str(CALLS), "-w", "1000", "-c", "0", "--placement", "out", "--mpi-threads", level, "-J",
                             report])
    with open(report, encoding="utf-8") as file:
        time_us = 1e6 * json.load(file)["results"][0]["busbar"]["out_of_place"]["time_s"]
    os.remove(report)
    return time_us


def main(build, rounds):
    generator = random.Random(1)
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        ways = {"bare": lambda: bare_us(build)}
        for level in ("single", "funneled", "multiple"):
            ways[f"ours, {level}"] = lambda level=level: ours_us(build, folder, level)
        for _ in range(rounds):
            for way in generator.sample(sorted(ways), len(ways)):
                times.setdefault(way, []).append(ways[way]())
    pairs = times.pop("bare")
    mean = [(one + other) / 2 for one, other in pairs]
    times |= {"bare loop, the faster state": [min(pair) for pair in pairs],
              "bare loop, the slower state": [max(pair) for pair in pairs]}
    print(f"all_reduce of 8 B, {NRANKS} ranks, {rounds} rounds; goal: ours, single within 5 % of the bare loop\n")
    print("| loop | median [us] | over the mean of the bare loop's states [95 %] |\n|---|---|---|")
    for way in sorted(times):
        ratio, low, high = paired_ratio(times[way], mean)
        print(f"| {way} | {median(times[way]):.4f} | {ratio:.3f} [{low:.3f}, {high:.3f}] |")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 61)
