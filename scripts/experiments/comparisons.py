#!/usr/bin/env python3
"""Does `busbar compare`, started again, say the same again? At its default limits, five sizes of all_reduce over MPI.

    scripts/experiments/comparisons.py [build] [--kinds same,pair,launched,verified] [--launches 20] [--ranks 2,4]
                                       [--rows comparisons.jsonl] [--bind]

    same      the library's own choice against itself. Wanted: "different" at most once in 200 comparisons, at no size in
              more than 1 %; beside it the intervals that leave out 1 (wanted in at most 5 %), and how wide they are
    pair      ring against the library's own choice, recursive doubling beside them. Wanted: at least 90 % of the
              intervals cover the ratio that all launches have together (the geometric mean), 15 of 20 at each size;
              told of each state of the machine as well: launches before and after which 8 bytes between two cores took
              as long, to a factor of 1.25
    launched  the same with --launch: each comparison is eight launches of each
    verified  all algorithms, the winners written as a rules file, and new launches with and without it (--verify).
              Wanted: the gain that compare had printed, corrected for being the winner's, lies in the interval of these

Rows are kept in --rows, one launch to a line; an experiment that is started again goes on with what is missing. A launch
beside other work is disturbed by the rule of experiment.py, fixed beforehand, and made again."""

import json
import math
import os
import re
import sys
import tempfile

from experiment import (DISTURBED_WORDS, ENVIRONMENT, arguments, executable, library_version, machine, measure_rows,
                        median, observed_job, percent_of, read_rows, run_job, size_text, table, was_disturbed)

SIZES = (64, 1 << 10, 16 << 10, 128 << 10, 1 << 20)
BAND = 0.02
# `default` is the library's own choice, by the name that --vary takes for it.
VARY = {"same": "default", "pair": "recursive_doubling,ring", "launched": "recursive_doubling,ring", "verified": "all"}
GOOD = {"verified": (0, 7, 8)}  # what --verify may find
SAME_STATE = 1.25


def between_cores_us(args, folder):
    """How long 8 bytes take between two cores: a virtual machine may change it threefold within a minute."""
    report = os.path.join(folder, "pingpong.json")
    run_job(args.mpirun, 2, [executable(args.build, "pingpong_perf"), "--backend", "mpi", "-b", "8", "-e", "8", "-n",
                             "100000", "-c", "0", "--buffers", "reuse", "-J", report])
    with open(report, encoding="utf-8") as file:
        time_us = 1e6 * json.load(file)["results"][0]["busbar"]["out_of_place"]["time_s"]
    os.remove(report)
    return time_us


def launch(args, kind):
    what, nranks = kind
    with tempfile.TemporaryDirectory() as folder:
        before = {"between_cores_us": [between_cores_us(args, folder)]} if what == "pair" else {}
        report = os.path.join(folder, "compare.json")
        options = {"verified": ["--emit-ompi-rules", os.path.join(folder, "rules"), "--verify"],
                   "launched": ["--launch", f"{args.mpirun} -n {nranks}"]}.get(what, [])
        text, row = observed_job(args, 0 if what == "launched" else nranks,
                                 [executable(args.build, "busbar"), "compare", "all_reduce", "--backend", "mpi",
                                  "--sizes", ",".join(map(str, SIZES)), "--vary", "ompi.algorithm=" + VARY[what],
                                  "-J", report, *options], GOOD.get(what, (0,)))
        with open(report, encoding="utf-8") as file:
            sizes = json.load(file)["comparisons"][0]["sizes"]
        if before:
            before["between_cores_us"].append(between_cores_us(args, folder))
    cells = [cell_of(what, size, text) for size in sizes]
    return {"what": what, "ranks": nranks, **before, **row, "cells": cells}


def cell_of(what, size, text):
    cell = {"bytes": size["nbytes"], "rounds": size["rounds"]}
    if what != "verified":
        # Against the first, the library's own choice.
        second = size["variants"][-1]
        return {**cell, "difference": second["difference"], **second["ratio"]}
    default = size["variants"][0]
    return {**cell, "winner": size["winner"], "regret": size["regret"], "is_own": size["winner"] == default["variant"],
            "verified": verified(text, size["nbytes"])}


def verified(text, nbytes):
    """Interval of the time with the file over that without; None where the launches say none."""
    line = re.search(rf"(?m)^# all_reduce float sum at {size_text(nbytes)}: .* us with: (.*)$", text)
    number = r"([-+]?[0-9.]+)"
    if not line:
        return None
    if found := re.search(rf"pays: .*\({number}\.\.{number}\)", line[1]):
        return [1 - float(found[2]) / 100, 1 - float(found[1]) / 100]
    if found := re.search(rf"slower: .*\({number}\.\.{number}\)", line[1]):
        return [1 + float(found[1]) / 100, 1 + float(found[2]) / 100]
    if found := re.search(rf"time {number} to {number} %", line[1]):
        return [1 + float(found[1]) / 100, 1 + float(found[2]) / 100]
    return [1 - BAND, 1 + BAND]


def line_of(nranks, name, cells, truths):
    """`truths`: the ratio that an interval should cover, of each cell."""
    told = [cell["difference"] for cell in cells]
    beyond = sum(cell["low"] > 1 + BAND or cell["high"] < 1 - BAND for cell in cells)
    covered = sum(cell["low"] <= truth <= cell["high"] for cell, truth in zip(cells, truths))
    return [nranks, name, len(cells), beyond, sum(word in ("faster", "slower") for word in told),
            told.count("equivalent"), told.count("undecided"), percent_of(covered, len(cells)),
            f"{median([cell['value'] for cell in cells]):.4f}",
            f"{100 * median([(cell['high'] - cell['low']) / 2 / cell['value'] for cell in cells]):.1f} %",
            f"{median([cell['rounds'] for cell in cells]):.0f}"]


def print_compared(what, rows):
    lines = []
    for nranks in sorted({row["ranks"] for row in rows}):
        every, truths = [], []
        by_size = []
        for nbytes in SIZES:
            cells = [cell for row in rows if row["ranks"] == nranks for cell in row["cells"] if cell["bytes"] == nbytes]
            pooled = math.exp(sum(math.log(cell["value"]) for cell in cells) / len(cells))
            truth = [1.0 if what == "same" else pooled] * len(cells)
            by_size.append(line_of(nranks, size_text(nbytes), cells, truth))
            every += cells
            truths += truth
        lines += [line_of(nranks, "all", every, truths), *by_size]
    print(table(["ranks", "size", "comparisons", "outside the band", "called different", "equivalent", "undecided",
                 "interval covers " + ("1" if what == "same" else "the pooled ratio"), "median ratio",
                 "median half width", "median rounds"], lines))


def states(rows):
    """Rows by what both canaries between two cores said; those between which it changed, and of before, in none."""
    steady = sorted((row for row in rows if "between_cores_us" in row
                     and max(row["between_cores_us"]) <= SAME_STATE * min(row["between_cores_us"])),
                    key=lambda row: row["between_cores_us"][0])
    groups = []
    for row in steady:
        if not groups or row["between_cores_us"][0] > SAME_STATE * groups[-1][-1]["between_cores_us"][0]:
            groups.append([])
        groups[-1].append(row)
    return groups


def print_verified(rows):
    lines = []
    for nranks in sorted({row["ranks"] for row in rows}):
        for nbytes in SIZES:
            cells = [cell for row in rows if row["ranks"] == nranks for cell in row["cells"]
                     if cell["bytes"] == nbytes and cell["regret"] is not None and not cell["is_own"]]
            seen = [cell for cell in cells if cell["verified"]]
            ratios = [1 / (1 + cell["regret"]) for cell in seen]
            agree = sum(cell["verified"][0] <= ratio <= cell["verified"][1] for cell, ratio in zip(seen, ratios))
            middles = [sum(cell["verified"]) / 2 for cell in seen]
            lines.append([nranks, size_text(nbytes), len(cells), f"{median(ratios):.3f}" if seen else "-",
                          f"{median(middles):.3f}" if seen else "-", percent_of(agree, len(seen))])
    print(table(["ranks", "size", "winners other than the library's choice", "time by it, as compare says",
                 "as the new launches say", "their interval covers it"], lines))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--kinds", default=",".join(VARY), help=f"({','.join(VARY)})")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--launches", type=int, default=20, help="undisturbed ones of each kind and number of ranks (20)")
    parser.add_argument("--rows", default="comparisons.jsonl", help="file of the rows (comparisons.jsonl)")
    parser.add_argument("--bind", action="store_true",
                        help="bind ranks to cores, several to one where there are more (Open MPI)")
    args = parser.parse_args()
    if args.bind:
        ENVIRONMENT.update(OMPI_MCA_rmaps_base_mapping_policy="core",
                           OMPI_MCA_hwloc_base_binding_policy="core:overload-allowed")
    kinds = args.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in VARY]:
        sys.exit(f"no such kind: {', '.join(unknown)}; there are: {', '.join(VARY)}")
    ranks = [int(word) for word in args.ranks.split(",")]
    rows = read_rows(args.rows, {"sizes": list(SIZES), "library": library_version(args.mpirun)})
    print(machine())
    measure_rows(args, rows, [(kind, nranks) for kind in kinds for nranks in ranks],
                 lambda row: (row["what"], row["ranks"]), launch)
    for kind in kinds:
        of = [row for row in rows if row["what"] == kind and row["ranks"] in ranks]
        kept = [row for row in of if not was_disturbed(row)]
        print(f"\n{kind}: {len(of)} launches, {len(of) - len(kept)} of them disturbed and left out: {DISTURBED_WORDS}\n")
        if kept:
            print_verified(kept) if kind == "verified" else print_compared(kind, kept)
        for group in states(kept):
            between_us = median([row["between_cores_us"][0] for row in group])
            print(f"\n{kind}, while 8 bytes between two cores took {between_us:.2f} us:\n")
            print_compared(kind, group)


if __name__ == "__main__":
    main()
