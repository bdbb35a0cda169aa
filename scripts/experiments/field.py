#!/usr/bin/env python3
"""Does the interval of --stat hold on this machine what it says: this launch's median over the next minute?

    scripts/experiments/field.py [build] [--cells 1,2,5,20] [--launches 10] [--ranks 2] [--rows field.jsonl]

In each launch so many sizes of all_reduce are sampled in rotation, each until --stat's rule is satisfied; then all go on
in rotation for one shared minute, whose median is their truth (test/bench/field_bench.cpp). Cells of a launch share that
minute, so that launches are counted: how many had at least 90 % of their cells covered, and the mean share with an
interval over the launches. Wanted: 90 % of the cells whose span is six correlation times of the drift or more (`ci`
claims that).

Rows are kept in --rows, one launch to a line; an experiment that is started again goes on with what is missing. A launch
beside other work is disturbed by the rule of experiment.py, fixed beforehand, and made again."""

import os
import sys

from experiment import (DISTURBED_WORDS, arguments, bootstrap, library_version, machine, measure_rows, median,
                        observed_job, read_rows, table, was_disturbed)

SHARED_S = 60
FIELDS = ("bytes", "stop", "span_s", "correlation_time_s", "median_us", "low_us", "high_us", "truth_us")


def launch(args, kind):
    ncells, _ = kind
    text, row = observed_job(args, args.ranks,
                             [os.path.join(args.build, "test", "field_bench"), str(ncells), str(SHARED_S)])
    cells = []
    for line in text.splitlines():
        values = dict(zip(FIELDS, line.split()))
        cells.append({key: value if key == "stop" else None if value == "-" else float(value)
                      for key, value in values.items()})
    if len(cells) != ncells:
        sys.exit(f"{len(cells)} cells instead of {ncells}:\n{text}")
    return {"ncells": ncells, "ranks": args.ranks, **row, "cells": cells}


def is_covered(cell):
    return cell["low_us"] is not None and cell["low_us"] <= cell["truth_us"] <= cell["high_us"]


def share_over_launches(launches, wanted):
    """Mean over the launches of the share of their wanted cells that are covered, with its bootstrap interval."""
    shares = []
    for row in launches:
        cells = [cell for cell in row["cells"] if wanted(cell)]
        if cells:
            shares.append(sum(map(is_covered, cells)) / len(cells))
    if not shares:
        return "none"
    text = f"{100 * sum(shares) / len(shares):.0f} % of {len(shares)} launches"
    if len(shares) < 6 or len(set(shares)) < 2:
        return text
    low, high = bootstrap(len(shares), lambda chosen: sum(shares[i] for i in chosen) / len(chosen))
    return f"{text} [{100 * low:.0f}, {100 * high:.0f}]"


def line_of(ncells, launches):
    cells = [cell for row in launches for cell in row["cells"]]
    widths = [(cell["high_us"] - cell["low_us"]) / 2 / cell["median_us"] for cell in cells if cell["low_us"] is not None]
    stops = [cell["stop"] for cell in cells]
    mostly = sum(sum(map(is_covered, row["cells"])) >= 0.9 * len(row["cells"]) for row in launches)
    return [ncells, len(launches), f"{median([cell['span_s'] for cell in cells]):.1f} s",
            f"{median([cell['correlation_time_s'] for cell in cells]):.2f} s",
            " ".join(f"{name} {stops.count(name)}" for name in ("ci", "noisy", "time")),
            f"{100 * median(widths):.1f} %" if widths else "-", f"{mostly} of {len(launches)}",
            share_over_launches(launches, lambda _: True),
            share_over_launches(launches, lambda cell: cell["span_s"] >= 6 * cell["correlation_time_s"]),
            share_over_launches(launches, lambda cell: cell["stop"] == "ci")]


def main():
    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser = arguments(__doc__)
    parser.add_argument("--cells", default="1,2,5,20", type=numbers, help="numbers of cells, 1 to 20 (1,2,5,20)")
    parser.add_argument("--launches", type=int, default=10, help="undisturbed ones of each number of cells (10)")
    parser.add_argument("--ranks", type=int, default=2, help="(2)")
    parser.add_argument("--rows", default="field.jsonl", help="file of the rows, to go on with (field.jsonl)")
    args = parser.parse_args()
    rows = read_rows(args.rows, {"shared_s": SHARED_S, "library": library_version(args.mpirun)})
    print(machine())
    measure_rows(args, rows, [(n, args.ranks) for n in args.cells], lambda row: (row["ncells"], row["ranks"]), launch)
    kept = [row for row in rows if not was_disturbed(row) and row["ranks"] == args.ranks]
    print(f"\n{len(rows)} launches, {sum(map(was_disturbed, rows))} of them disturbed and left out: {DISTURBED_WORDS}\n")
    lines = [line_of(n, of) for n in args.cells if (of := [row for row in kept if row["ncells"] == n])]
    print(table(["cells", "launches", "median span", "median correlation time", "stopped", "median half width",
                 "launches with 90 % covered", "covered", "where six correlation times were seen",
                 "where it said ci"], lines))


if __name__ == "__main__":
    main()
