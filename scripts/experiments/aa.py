#!/usr/bin/env python3
"""How often does `busbar compare` find a difference where there is none? Compares Open MPI's own choice with itself, on
two communicators, again and again.

    scripts/experiments/aa.py [build] [--ranks 2,4] [--comparisons 200]

Wanted: the rule of compare (an interval outside the band of 2 %, looked at after 4 and 8 rounds of new communicators)
says different at most once in 200. Beside it what compare prints, which asks Holm too, as a launch has several sizes;
and how often the interval leaves out the ratio 1, wanted in at most 5 %."""

import json
import os
import tempfile

from experiment import arguments, executable, machine, median, percent_of, run_job, size_text, table

SIZES = (64, 1 << 10, 16 << 10, 128 << 10, 1 << 20)
BAND = 0.02
# The library's own choice, by the name that --vary takes for it.
SAME = "ompi.algorithm=default"


def compare(args, nranks, folder):
    """The cells of one launch: one comparison per size."""
    report = os.path.join(folder, "compare.json")
    if os.path.exists(report):
        os.unlink(report)
    run_job(args.mpirun, nranks, [executable(args.build, "busbar"), "compare", "all_reduce", "--backend", "mpi",
                                  "--sizes", ",".join(map(str, SIZES)), "--vary", SAME, "-J", report])
    with open(report, encoding="utf-8") as file:
        sizes = json.load(file)["comparisons"][0]["sizes"]
    return [(size["size_bytes"], size["rounds"], size["variants"][1]) for size in sizes]


def experiment(args, nranks):
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        while len(cells) < args.comparisons:
            cells += compare(args, nranks, folder)
            print(f"{nranks} ranks: {len(cells)} of {args.comparisons}", flush=True)
    return cells[: args.comparisons]


def row(nranks, what, cells):
    told = [cell["difference"] for _, _, cell in cells]
    beyond = sum(cell["ratio"]["low"] > 1 + BAND or cell["ratio"]["high"] < 1 - BAND for _, _, cell in cells)
    outside = sum(not cell["ratio"]["low"] <= 1 <= cell["ratio"]["high"] for _, _, cell in cells)
    widths = [(cell["ratio"]["high"] - cell["ratio"]["low"]) / 2 for _, _, cell in cells]
    return [nranks, what, len(cells), beyond,
            sum(word in ("faster", "slower") for word in told), told.count("equivalent"), told.count("undecided"),
            percent_of(outside, len(cells)),
            f"{median([cell['ratio']['value'] for _, _, cell in cells]):.4f}", f"{100 * median(widths):.1f} %",
            f"{median([rounds for _, rounds, _ in cells]):.0f}"]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (2,4)")
    parser.add_argument("--comparisons", type=int, default=200, help="of each number of ranks (200)")
    args = parser.parse_args()
    print(machine())
    rows = []
    for nranks in map(int, args.ranks.split(",")):
        cells = experiment(args, nranks)
        rows.append(row(nranks, "all", cells))
        by_size = ((size, [cell for cell in cells if cell[0] == size]) for size in SIZES)
        rows += [row(nranks, size_text(size), some) for size, some in by_size if some]
    print(table(["ranks", "size", "comparisons", "outside the band", "called different", "equivalent", "undecided",
                 "interval without 1 [95 %]", "median ratio", "median half width", "median rounds"], rows))


if __name__ == "__main__":
    main()
