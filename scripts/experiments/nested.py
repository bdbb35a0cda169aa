#!/usr/bin/env python3
"""Where does the spread between launches sit: in the communicator, in the buffers, in the minute, or in the launch?

    scripts/experiments/nested.py [build] [--launches 20] [--passes 20] [--ranks 2,4] [--rows nested.jsonl]

Each launch opens four communicators and four sets of buffers and visits all 16 pairs in each pass, every size of all_reduce
(test/bench/nested_bench.cpp). Of the logarithms of the batches' medians the balanced analysis of variance (communicators
crossed with buffers, crossed with passes; Searle, Casella & McCulloch, Variance Components, 4.7) gives what each adds:
standard deviations in percent, a negative estimate as 0. "pass" is what all pairs have in common in a pass: the machine's
drift within the launch; "launch" what launches differ by beyond what the others explain of a launch's mean, with drift
slower than a launch in it. "canaries" is the share of the variance of the passes' means, over all launches, that a line in
the logarithms of both canaries explains.

Rows are kept in --rows, one launch to a line; an experiment that is started again goes on with what is missing. A launch
beside other work is disturbed by the rule of experiment.py, fixed beforehand, and made again."""

import math
import os

from experiment import (DISTURBED_WORDS, arguments, library_version, machine, measure_rows, observed_job, read_rows,
                        size_text, table, was_disturbed)

OPEN = 4


def launch(args, nranks):
    text, row = observed_job(args, nranks, [os.path.join(args.build, "test", "nested_bench"), str(args.passes)])
    times, own = {}, {}
    for line in text.splitlines():
        at, comm, buffers, size, time_us, spin_us, copy_us = line.split()
        times.setdefault(size, {})[f"{at} {comm} {buffers}"] = float(time_us)
        own[at] = (float(spin_us), float(copy_us))
    return {"ranks": nranks, **row, "times_us": times, "pass_canaries_us": own}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def squares(values):
    values = list(values)
    middle = mean(values)
    return sum((value - middle) ** 2 for value in values)


class Launch:
    """The balanced table of one size in one launch, in logarithms: mean squares and means."""

    def __init__(self, times_us, passes):
        y = {tuple(map(int, key.split())): math.log(value) for key, value in times_us.items()}
        comms = buffers = range(OPEN)
        self.mean = mean(y.values())
        self.of_pass = [mean(y[p, c, b] for c in comms for b in buffers) for p in range(passes)]
        pair = {(c, b): mean(y[p, c, b] for p in range(passes)) for c in comms for b in buffers}
        of_comm = [mean(pair[c, b] for b in buffers) for c in comms]
        of_buffers = [mean(pair[c, b] for c in comms) for b in buffers]
        npairs = OPEN * OPEN
        rest = sum((value - pair[c, b] - self.of_pass[p] + self.mean) ** 2 for (p, c, b), value in y.items())
        self.rest = rest / ((npairs - 1) * (passes - 1))
        self.comm = OPEN * passes * squares(of_comm) / (OPEN - 1)
        self.buffers = OPEN * passes * squares(of_buffers) / (OPEN - 1)
        both = sum((pair[c, b] - of_comm[c] - of_buffers[b] + self.mean) ** 2 for c in comms for b in buffers)
        self.both = passes * both / (OPEN - 1) ** 2
        self.passes = npairs * squares(self.of_pass) / (passes - 1)


def explained(launches, canaries):
    """R^2 of the passes' means, less each launch's, on both canaries, less each launch's."""
    def centred(series):
        return [value - mean(values) for values in series for value in values]

    y = centred([launch.of_pass for launch in launches])
    x1, x2 = (centred([[math.log(pair[k]) for pair in of_launch] for of_launch in canaries]) for k in (0, 1))
    s11, s22, s12 = (sum(map(lambda p: p[0] * p[1], zip(*two))) for two in ((x1, x1), (x2, x2), (x1, x2)))
    s1y, s2y = (sum(a * b for a, b in zip(x, y)) for x in (x1, x2))
    determinant = s11 * s22 - s12 * s12
    if determinant <= 0:
        return 0.0
    b1, b2 = (s1y * s22 - s2y * s12) / determinant, (s2y * s11 - s1y * s12) / determinant
    return (b1 * s1y + b2 * s2y) / sum(value * value for value in y)


def line_of(rows, size, passes):
    launches = [Launch(row["times_us"][size], passes) for row in rows]
    canaries = [[row["pass_canaries_us"][str(p)] for p in range(passes)] for row in rows]
    rest, both = mean(one.rest for one in launches), mean(one.both for one in launches)
    npairs = OPEN * OPEN
    comm = max(0.0, (mean(one.comm for one in launches) - both) / (OPEN * passes))
    buffers = max(0.0, (mean(one.buffers for one in launches) - both) / (OPEN * passes))
    pair = max(0.0, (both - rest) / passes)
    drift = max(0.0, (mean(one.passes for one in launches) - rest) / npairs)
    between = squares(one.mean for one in launches) / (len(launches) - 1)
    inside = comm / OPEN + buffers / OPEN + pair / npairs + drift / passes + rest / (npairs * passes)
    parts = [max(0.0, between - inside), comm, buffers, pair, drift, rest]
    return [size_text(int(size)), len(launches)] + [f"{100 * math.sqrt(part):.1f}" for part in [between] + parts] + \
           [f"{100 * explained(launches, canaries):.0f} %"]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--launches", type=int, default=20, help="undisturbed ones of each number of ranks (20)")
    parser.add_argument("--passes", type=int, default=20, help="(20)")
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of ranks (2,4)")
    parser.add_argument("--rows", default="nested.jsonl", help="file of the rows, to go on with (nested.jsonl)")
    args = parser.parse_args()
    rows = read_rows(args.rows, {"passes": args.passes, "library": library_version(args.mpirun)})
    print(machine())
    measure_rows(args, rows, args.ranks, lambda row: row["ranks"], launch)
    print(f"\n{len(rows)} launches, {sum(map(was_disturbed, rows))} of them disturbed and left out: {DISTURBED_WORDS}")
    for nranks in args.ranks:
        kept = [row for row in rows if not was_disturbed(row) and row["ranks"] == nranks]
        if len(kept) < 2:
            continue
        print(f"\n{nranks} ranks; standard deviations in %:\n")
        print(table(["size", "launches", "of launches' means", "launch", "communicator", "buffers", "pair of both", "pass",
                     "batch", "canaries"], [line_of(kept, size, args.passes) for size in kept[0]["times_us"]]))


if __name__ == "__main__":
    main()
