#!/usr/bin/env python3
"""pingpong_perf beside osu_latency, osu_bw and osu_bibw of OSU micro-benchmarks 7: the same messages in windows of the
same length, as often, over the same MPI on two ranks, from and to one buffer (`--buffers reuse`).

    scripts/experiments/pairs.py [build] --osu DIR [--rounds 10]

DIR of OSU holds osu_latency and its like (c/mpi/pt2pt/standard of its build). Both run once per round, pattern and half
of the sizes, in random order; ratios of the times of a message are taken within rounds, with the exact interval of
their median. OSU's bandwidths are turned into times of a message; both ways at once count twice, as it counts them."""

import json
import os
import random
import re
import sys
import tempfile

from experiment import arguments, executable, library_version, machine, median, paired_ratio, run_job, size_text, table

WINDOW = 64
FEWEST = 6  # rounds of which the median has an interval of 95 %
BAND = 0.05
# OSU's program, and what of it is a time; calls of small and of large messages: its own numbers.
PATTERNS = {"latency": ("osu_latency", (10000, 1000)), "oneway": ("osu_bw", (100, 20)), "both": ("osu_bibw", (100, 20))}
HALVES = ((8, 8 << 10), (16 << 10, 4 << 20))


def busbar(args, pattern, half, folder):
    (first, last), calls = HALVES[half], PATTERNS[pattern][1][half]
    report = os.path.join(folder, "run.json")
    window = [] if pattern == "latency" else ["--window", str(WINDOW)]
    run_job(args.mpirun, 2, [executable(args.build, "pingpong_perf"), "--backend", "mpi", "--pattern", pattern, *window,
                             "-b", str(first), "-e", str(last), "-f", "2", "-c", "0", "-n", str(calls), "-w",
                             str(calls // 10), "--buffers", "reuse", "-J", report])
    with open(report, encoding="utf-8") as file:
        rows = json.load(file)["results"]
    os.remove(report)
    return {row["size"]: 1e6 * row["busbar"]["out_of_place"]["time_s"] for row in rows}


def osu(args, pattern, half, _folder):
    (first, last), (program, calls) = HALVES[half], PATTERNS[pattern]
    window = [] if pattern == "latency" else ["-W", str(WINDOW)]
    text = run_job(args.mpirun, 2, [os.path.join(args.osu, program), "-m", f"{first}:{last}", "-i", str(calls[half]), "-x",
                                    str(calls[half] // 10), *window])
    found = {int(size): float(figure) for size, figure in re.findall(r"(?m)^(\d+)\s+([\d.]+)", text)}
    if pattern == "latency":
        return found
    ways = 2 if pattern == "both" else 1
    return {size: ways * size / figure for size, figure in found.items()}  # of 1e6 B/s


TOOLS = {"busbar": busbar, "OSU": osu}


def measure(args, folder):
    """(pattern, size) -> tool -> times over the rounds [us]"""
    cells = {}
    generator = random.Random(1)
    for number in range(args.rounds):
        units = [(pattern, half) for pattern in PATTERNS for half in range(len(HALVES))]
        for pattern, half in generator.sample(units, len(units)):
            for tool in generator.sample(sorted(TOOLS), len(TOOLS)):
                for size, time_us in TOOLS[tool](args, pattern, half, folder).items():
                    cells.setdefault((pattern, size), {}).setdefault(tool, []).append(time_us)
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return cells


def main():
    parser = arguments(__doc__)
    parser.add_argument("--osu", required=True, help="folder of osu_latency, osu_bw and osu_bibw")
    parser.add_argument("--rounds", type=int, default=10, help="launches of each (10)")
    args = parser.parse_args()
    if args.rounds < FEWEST:
        parser.error(f"--rounds: an interval needs {FEWEST} at least")
    print(machine())
    print(library_version(args.mpirun) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        cells = measure(args, folder)
    rows, outside = [], 0
    for (pattern, size), times in sorted(cells.items(), key=lambda item: (list(PATTERNS).index(item[0][0]), item[0][1])):
        ratio, low, high = paired_ratio(times["busbar"], times["OSU"])
        out = low > 1 + BAND or high < 1 - BAND
        outside += out
        rows.append([pattern, size_text(size), f"{median(times['busbar']):.2f}", f"{median(times['OSU']):.2f}",
                     f"{ratio:.3f} [{low:.3f}, {high:.3f}]{' OUTSIDE' if out else ''}"])
    print(table(["pattern", "size", "busbar [us]", "OSU [us]", "busbar over OSU [95 %]"], rows))
    print(f"\n{outside} of {len(rows)} cells lie wholly outside +-{BAND:.0%}.")


if __name__ == "__main__":
    main()
