#!/usr/bin/env python3
"""Are two algorithms told apart, and the size found from which the other is faster, in one launch of seconds? Open
MPI's recursive doubling against its ring.

    scripts/experiments/crossover.py [build] [--ranks 2,4] [--launches 3]

Prints for each launch how long it took, the verdict at each size and where the faster of the two changes, all worked
out here from the rounds of the JSON; below it the crossovers that `busbar compare` names, which are those of the
leaders, Open MPI's own choice among them. That several launches agree is the proof."""

import json
import math
import os
import tempfile
import time

from experiment import arguments, executable, machine, run_job, size_text, table

PAIR = ("recursive_doubling", "ring")
BAND = 0.02
INTERIM_Z = 2.204  # of 2.75 %, the level of each of the two interim analyses (kLookLevel in statistics/paired.h)


def ratio_of(first, second):
    """Hodges-Lehmann estimate of second/first and its interval, over the rounds in which both ran."""
    logs = [math.log(b / a) for a, b in zip(first, second)]
    n = len(logs)
    walsh = sorted((logs[i] + logs[j]) / 2 for i in range(n) for j in range(i, n))
    k = max(0, math.floor(len(walsh) / 2 - INTERIM_Z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)))
    middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
    return math.exp(middle), math.exp(walsh[k]), math.exp(walsh[len(walsh) - 1 - k])


def compare(args, nranks, folder):
    report = os.path.join(folder, f"{time.monotonic_ns()}.json")
    before = time.monotonic()
    run_job(args.mpirun, nranks, [executable(args.build, "busbar"), "compare", "all_reduce", "--backend", "mpi", "-b",
                                  "64", "-e", "1M", "-f", "4", "--vary", "ompi.algorithm=" + ",".join(PAIR), "-J",
                                  report])
    wall_s = time.monotonic() - before
    with open(report, encoding="utf-8") as file:
        return wall_s, json.load(file)["comparisons"][0]


def print_launch(nranks, wall_s, comparison):
    print(f"\n{nranks} ranks, one launch, {wall_s:.1f} s:\n")
    rows, last = [], None
    crossings = []
    for size in comparison["sizes"]:
        cells = {cell["variant"]: cell for cell in size["variants"]}
        value, low, high = ratio_of(*(cells[name]["rounds_s"] for name in PAIR))
        faster = PAIR[1] if high < 1 - BAND else PAIR[0] if low > 1 + BAND else None
        name = size_text(size["nbytes"])
        if faster and last and faster != last[0]:
            crossings.append(f"{faster} passes {last[0]} between {last[1]} and {name}")
        last = (faster, name) if faster else last
        rows.append([name, size["rounds"], f"{value:.3f} [{low:.3f}, {high:.3f}]",
                     faster or "not told apart"])
    print(table(["size", "rounds", f"{PAIR[1]} / {PAIR[0]} [interval]", "faster of the two"], rows))
    print("\nof the two: " + ("; ".join(crossings) or "no crossover"))
    for found in comparison["crossovers"]:
        print(f"of the leaders: {found['above']} passes {found['below']} between {size_text(found['low_bytes'])} and "
              f"{size_text(found['high_bytes'])}")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--launches", type=int, default=3, help="of each (3)")
    args = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        for nranks in map(int, args.ranks.split(",")):
            for _ in range(args.launches):
                print_launch(nranks, *compare(args, nranks, folder))


if __name__ == "__main__":
    main()
