#!/usr/bin/env python3
"""busbar beside OSU micro-benchmarks and Intel MPI Benchmarks, where they are at hand: the same work, the same
statistic, in the same seconds. What each says of a call, and how much it moves from launch to launch.

    scripts/experiments/peers.py [build] --osu DIR --imb DIR [--rounds 60] [--ranks 2,4] [--rows peers.jsonl]

DIR of OSU holds osu_allreduce and its like (7.x; osu_iallreduce there or in ../non_blocking), DIR of IMB holds
IMB-MPI1; what is missing is left out, and said.

The same work: one send and one receive buffer that every call takes, each call after an MPI_Barrier which is not timed,
the same MPI function on as many bytes, as often (1000 calls up to 8 KiB, 100 above, a tenth of that to warm up, as OSU
has them), MPI started by MPI_Init. Of busbar that is `-z 3 --buffers reuse`. The same statistic: mean over the calls,
then over the ranks. Of a nonblocking call (`--nonblocking`; iall_reduce and its like here) that is OSU's "Pure Comm.":
from its start to the end of MPI_Wait, nothing between. Barriers have no other barrier around them.

A row is one round of one collective, number of ranks and half of the sizes: every tool once, in random order, canaries
of computing and copying between them. Rows are kept in --rows, one JSON object to a line, and an experiment that is
started again goes on with those that are missing. A row counts unless a launch of it ran beside other work: that is
decided by ROW_IS_DISTURBED below, fixed before any was measured, from the row alone. More ranks than cores are bound to
cores in turn: where the kernel spreads them, which two share a core decides a launch's times (3.4 or 4.6 us for 8 B of
all_reduce on 4 ranks and 2 cores, of every tool), and it takes some milliseconds until they are spread at all.
Ratios are taken within rows; a cell's interval is exact, of the median ratio over its rows."""

import json
import math
import os
import random
import re
import sys
import tempfile
import time

from experiment import (DISTURBED_WORDS, Canaries, OtherWork, add_row, arguments, bootstrap, executable, is_disturbed,
                        library_version, machine, median, paired_ratio, read_rows, run_job, size_text, table)

# Ours; OSU's and IMB's, and whether their sizes are of one rank's chunk where ours are of all.
COLLECTIVES = {"all_reduce": (("osu_allreduce", False), ("Allreduce", False)),
               "all_gather": (("osu_allgather", True), ("Allgather", True)),
               "reduce_scatter": (("osu_reduce_scatter_block", False), ("Reduce_scatter_block", True)),
               "broadcast": (("osu_bcast", False), ("Bcast", False)),
               "reduce": (("osu_reduce", False), ("Reduce", False)),
               "alltoall": (("osu_alltoall", True), ("Alltoall", True))}
# Measured where --collectives names them: OSU's and IMB's blocks are equal, and so are ours here.
EQUAL_BLOCKS = {"all_gatherv": (("osu_allgatherv", True), ("Allgatherv", True)),
                "reduce_scatterv": (("osu_reduce_scatter", False), ("Reduce_scatter", False)),
                "gatherv": (("osu_gatherv", True), ("Gatherv", True)),
                "scatterv": (("osu_scatterv", True), ("Scatterv", True))}
# IMB-MPI1 has no nonblocking calls, and its barrier has no size.
NONBLOCKING = {"i" + name: ((osu.replace("osu_", "osu_i"), chunks), None)
               for name, ((osu, chunks), _) in {**COLLECTIVES, **EQUAL_BLOCKS}.items()}
BARRIERS = {"barrier": (("osu_barrier", False), None), "ibarrier": (("osu_ibarrier", False), None)}
ALL = {**COLLECTIVES, **EQUAL_BLOCKS, **NONBLOCKING, **BARRIERS}
CHUNKED = ("all_gather", "reduce_scatter", "alltoall", *EQUAL_BLOCKS)
# First and last size, calls: OSU's own numbers.
HALVES = {"small": (8, 8 << 10, 1000), "large": (16 << 10, 4 << 20, 100)}
PEERS = ("OSU", "IMB")
FEWEST = 6  # rows of which the median has an interval of 95 %
# At most one cell in ten may have its interval wholly outside.
BAND, WIDE_BAND, SHORT_US = 0.05, 0.10, 1.0


def is_crowded(nranks):
    return nranks > len(os.sched_getaffinity(0))


def run_bound(args, nranks, command):
    bound = ("--map-by", "core", "--bind-to", "core:overload-allowed") if is_crowded(nranks) else ()
    return run_job(args.mpirun, nranks, command, options=bound)


def disturbed(row):
    """ROW_IS_DISTURBED."""
    return is_disturbed(row["other_work"].values(), row["canaries"])


def is_nonblocking(collective):
    return collective in NONBLOCKING or collective == "ibarrier"


def blocking(collective):
    """The name without which i there is before it."""
    return collective[1:] if is_nonblocking(collective) else collective


def sizes_of(collective, nranks, half):
    if collective in BARRIERS:
        yield 0
        return
    first, last, _ = HALVES[half]
    # busbar's chunks, as nccl-tests', are multiples of 16 B.
    size = max(first, 16 * nranks) if blocking(collective) in CHUNKED else first
    while size <= last:
        yield size
        size *= 2


def busbar(args, collective, nranks, half, folder):
    sizes, calls = list(sizes_of(collective, nranks, half)), HALVES[half][2]
    report = os.path.join(folder, "run.json")
    name = blocking(collective)
    equal = ["env", "NCCL_TESTS_ALLTOALLV_SPREAD=0"] if name in EQUAL_BLOCKS else []
    own = (["--nonblocking"] if is_nonblocking(collective) else []) + (["-z", "3"] if name != "barrier" else [])
    sweep = [] if name == "barrier" else ["-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", "2", "--buffers", "reuse"]
    run_bound(args, nranks, [*equal, executable(args.build, f"{name}_perf"), "--backend", "mpi", "--placement", "out",
                             "-c", "0", "-n", str(calls), "-w", str(calls // 10), *own, *sweep, "-J", report])
    with open(report, encoding="utf-8") as file:
        rows = json.load(file)["results"]
    os.remove(report)
    return {row["size"]: 1e6 * row["busbar"]["out_of_place"]["time_s"] for row in rows}


def osu(args, collective, nranks, half, _folder):
    (program, chunks), calls = ALL[collective][0], HALVES[half][2]
    divide = nranks if chunks else 1
    sizes = list(sizes_of(collective, nranks, half))
    folder = args.osu
    if is_nonblocking(collective) and not os.path.exists(os.path.join(folder, program)):
        folder = os.path.join(folder, "..", "non_blocking")
    sweep = [] if collective in BARRIERS else ["-m", f"{sizes[0] // divide}:{sizes[-1] // divide}", "-T", "mpi_float"]
    text = run_bound(args, nranks, [os.path.join(folder, program), "-i", str(calls), "-x", str(calls // 10), *sweep])
    # Size, of a nonblocking call what took all and what the computing, the time.
    size, before = (r"()" if collective in BARRIERS else r"(\d+)\s+"), r"[\d.]+\s+" * (2 * is_nonblocking(collective))
    return {int(size or 0) * divide: float(avg) for size, avg in re.findall(rf"(?m)^\s*{size}{before}([\d.]+)", text)}


def imb(args, collective, nranks, half, _folder):
    (benchmark, chunks), calls = ALL[collective][1], HALVES[half][2]
    divide = nranks if chunks else 1
    sizes = list(sizes_of(collective, nranks, half))
    lowest, highest = ((size // divide).bit_length() - 1 for size in (sizes[0], sizes[-1]))
    text = run_bound(args, nranks, [os.path.join(args.imb, "IMB-MPI1"), "-npmin", str(nranks), "-msglog",
                                    f"{lowest}:{highest}", "-sync", "on", "-iter", str(calls), "-iter_policy", "off",
                                    "-root_shift", "off", benchmark])
    rows = re.findall(r"(?m)^\s+(\d+)\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", text)
    return {int(size) * divide: float(avg) for size, avg in rows if int(size) > 0}


TOOLS = {"busbar": busbar, "OSU": osu, "IMB": imb}


def measure_row(args, tools, unit, order, folder):
    collective, nranks, half = unit
    row = {"collective": collective, "ranks": nranks, "half": half, "at": time.strftime("%Y-%m-%d %H:%M:%S"),
           "load": os.getloadavg()[0], "order": order, "times_us": {}, "walls_s": {}, "other_work": {},
           "canaries": [Canaries.measure()]}
    wanted = list(sizes_of(collective, nranks, half))
    for name in order:
        work, begin = OtherWork(), time.monotonic()
        found = tools[name](args, collective, nranks, half, folder)
        row["walls_s"][name] = time.monotonic() - begin
        row["other_work"][name] = work.since()
        if missing := [size for size in wanted if found.get(size, 0) <= 0]:
            sys.exit(f"{name} said nothing of {collective} at {missing}")
        row["times_us"][name] = {str(size): found[size] for size in wanted}
        row["canaries"].append(Canaries.measure())
    return row


def measure(args, tools, rows, path, folder):
    units = [(collective, nranks, half) for nranks in args.ranks for collective in args.collectives for half in HALVES
             if half == "small" or collective not in BARRIERS]
    # By number, so that a second sitting goes on with another order than the first began with.
    generator = random.Random(len(rows))
    attempts = 2 * args.rounds

    def of(unit, kept):
        return [row for row in rows if (row["collective"], row["ranks"], row["half"]) == unit and
                (not kept or not disturbed(row))]

    def missing():
        return [u for u in units if len(of(u, True)) < args.rounds and len(of(u, False)) < attempts]

    while (todo := missing()):
        for unit in generator.sample(todo, len(todo)):
            rows.append(measure_row(args, tools, unit, generator.sample(sorted(tools), len(tools)), folder))
            add_row(path, rows[-1])
        print(f"{len(rows)} rows, {sum(map(disturbed, rows))} disturbed; {len(missing())} of {len(units)} units to go",
              file=sys.stderr, flush=True)


def cells_of(rows):
    """(ranks, collective, size) -> tool -> the times over the rows [us]"""
    cells = {}
    for row in rows:
        for tool, times in row["times_us"].items():
            for size, time_us in times.items():
                cell = cells.setdefault((row["ranks"], row["collective"], int(size)), {})
                cell.setdefault(tool, []).append(time_us)
    return cells


def band_of(nranks, times):
    return WIDE_BAND if is_crowded(nranks) or min(map(median, times.values())) < SHORT_US else BAND


def print_ratios(cells):
    counts = {}
    rows = []
    for (nranks, collective, size), times in sorted(cells.items()):
        if len(times["busbar"]) < FEWEST:
            continue
        words = []
        for peer in PEERS:
            if peer not in times:
                words.append("-")
                continue
            ratio, low, high = paired_ratio(times["busbar"], times[peer])
            band = band_of(nranks, times)
            outside = low > 1 + band or high < 1 - band
            count = counts.setdefault((nranks, peer), [0, 0])
            count[0] += outside
            count[1] += 1
            words.append(f"{ratio:.3f} [{low:.3f}, {high:.3f}]{' OUTSIDE' if outside else ''}")
        rows.append([nranks, collective, size_text(size), f"{median(times['busbar']):.2f}"] + words)
    titles = ["ranks", "collective", "size", "busbar [us]"] + [f"busbar over {peer} [95 %]" for peer in PEERS]
    print(table(titles, rows))
    print(f"\nCells whose interval lies wholly outside +-{BAND:.0%} (+-{WIDE_BAND:.0%} with more ranks than cores, or "
          f"below {SHORT_US:g} us); wanted: at most one in ten:\n")
    print(table(["ranks", "peer", "outside"], [[nranks, peer, f"{out} of {all_} = {out / all_:.0%}"]
                                               for (nranks, peer), (out, all_) in sorted(counts.items())]))


def deviation(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def spreads(rows, tools):
    """Each tool's spread over these rows: the standard deviation of the logarithm over a unit's rows, median over its
    cells, what all tools and sizes have in common in a row divided out."""
    units = {}
    for row in rows:
        units.setdefault((row["collective"], row["ranks"], row["half"]), []).append(row)
    found = {tool: [] for tool in tools}
    for of_unit in units.values():
        logs = {(tool, size): [math.log(row["times_us"][tool][size]) for row in of_unit]
                for tool in tools for size in of_unit[0]["times_us"][tool]}
        centred = {cell: [value - sum(series) / len(series) for value in series] for cell, series in logs.items()}
        common = [sum(column) / len(column) for column in zip(*centred.values())]
        for (tool, _), series in centred.items():
            found[tool].append(deviation([value - factor for value, factor in zip(series, common)]))
    return {tool: median(values) for tool, values in found.items()}


def print_spreads(rows, tools):
    found = spreads(rows, tools)
    peers = [tool for tool in tools if tool != "busbar"]
    lines = []
    for tool in sorted(tools):
        ratio = "-"
        if peers and tool == "busbar":
            by_unit = {}
            for row in rows:
                by_unit.setdefault((row["collective"], row["ranks"], row["half"]), []).append(row)
            fewest = min(map(len, by_unit.values()))

            def to_best(chosen):
                drawn = spreads([of_unit[i] for of_unit in by_unit.values() for i in chosen], tools)
                return drawn["busbar"] / min(drawn[peer] for peer in peers)
            low, high = bootstrap(fewest, to_best, draws=300)
            ratio = f"{found['busbar'] / min(found[peer] for peer in peers):.2f} [{low:.2f}, {high:.2f}]"
        lines.append([tool, f"{median([row['walls_s'][tool] for row in rows]):.1f} s", f"{found[tool]:.1%}", ratio])
    print("\nSpread over the launches (standard deviation of the logarithm, common factor removed, median over "
          "cells):\n")
    print(table(["tool", "wall time of a launch", "spread", "of the best peer's [95 % bootstrap]"], lines))


def options():
    parser = arguments(__doc__)
    parser.add_argument("--osu", help="folder of osu_allreduce and its like")
    parser.add_argument("--imb", help="folder of IMB-MPI1")
    parser.add_argument("--rounds", type=int, default=60, help="undisturbed rows of each unit (60)")
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of ranks (2,4)")
    parser.add_argument("--collectives", default=list(COLLECTIVES), type=lambda text: text.split(","),
                        help="of " + ",".join(ALL) + "; the first six")
    parser.add_argument("--rows", default="peers.jsonl", help="file of the rows, to go on with (peers.jsonl)")
    args = parser.parse_args()
    if args.rounds < FEWEST:
        parser.error(f"--rounds: an interval needs {FEWEST} at least")
    if unknown := [name for name in args.collectives if name not in ALL]:
        parser.error(f"--collectives: {unknown[0]} is none of {','.join(ALL)}")
    if unknown := [name for name in args.collectives if args.imb and ALL[name][1] is None]:
        parser.error(f"--collectives: IMB-MPI1 has no {unknown[0]}: leave out --imb")
    for option, program in (("osu", "osu_allreduce"), ("imb", "IMB-MPI1")):
        folder = getattr(args, option)
        if folder is None or not os.path.exists(os.path.join(folder, program)):
            print(f"LEFT OUT: no {program} (--{option} {folder or 'was not given'})")
            setattr(args, option, None)
    return args


def main():
    args = options()
    tools = {"busbar": busbar, **({"OSU": osu} if args.osu else {}), **({"IMB": imb} if args.imb else {})}
    # More rounds, ranks and collectives may be asked for later; what was measured stays what it was.
    settings = {"tools": sorted(tools), "halves": HALVES, "library": library_version(args.mpirun)}
    settings = json.loads(json.dumps(settings))
    print(machine())
    rows = read_rows(args.rows, settings)
    with tempfile.TemporaryDirectory() as folder:
        measure(args, tools, rows, args.rows, folder)
    kept = [row for row in rows if not disturbed(row) and row["ranks"] in args.ranks and
            row["collective"] in args.collectives]
    print(f"\n{len(rows)} rows from {rows[0]['at']} to {rows[-1]['at']}, {sum(map(disturbed, rows))} of them disturbed "
          f"and left out: {DISTURBED_WORDS}\n")
    if len(tools) == 1:
        print("NEITHER PEER IS AT HAND (--osu DIR, --imb DIR): nothing was compared.")
        return
    if len(kept) < FEWEST:
        sys.exit("too few undisturbed rows")
    print_ratios(cells_of(kept))
    print_spreads(kept, sorted(tools))


if __name__ == "__main__":
    main()
