#!/usr/bin/env python3
"""busbar beside OSU micro-benchmarks and Intel MPI Benchmarks, where they are at hand: what each says of the same
operations in the same minutes, and how much it moves from launch to launch.

    scripts/experiments/peers.py [build] --osu DIR --imb DIR [--rounds 12]

DIR of OSU holds osu_allreduce, osu_allgather and osu_bcast (7.x), DIR of IMB holds IMB-MPI1; what is missing is left
out, and said. Same cadence: each call after a barrier. Same statistic over ranks: their average; over calls OSU and IMB
report the mean. busbar is read three ways: `mean`, as theirs (its column `time`); `median`, the average over ranks of
each rank's median; `epochs`, its column `median` (last in to last out, median of the epochs' medians). One difference
stays: OSU and IMB repeat the call on the same buffer, which caches keep; busbar walks through 32 MiB of messages.

Every tool runs once per round and collective, in a random order. What the tools and sizes of a collective in a round
have in common is the machine's, and is divided out; the spread of a tool in a cell is the standard deviation of what
remains, of the logarithm, over the rounds; of a tool the median over its cells. Peers run with their own numbers of
calls, and once more with as many as take about busbar's time. A launch of any tool covers only its own seconds: nothing
here narrows the drift of the machine from launch to launch."""

import json
import math
import os
import random
import re
import sys
import tempfile
import time

from experiment import arguments, bootstrap, executable, machine, median, run_job, size_text, table

# Ours, OSU's, IMB's; and whether the peers' size is one rank's chunk where ours is the whole.
COLLECTIVES = (("all_reduce", "osu_allreduce", "Allreduce", False),
               ("all_gather", "osu_allgather", "Allgather", True),
               ("broadcast", "osu_bcast", "Bcast", False))
RANKS = 2
SMALLEST, LARGEST = 64 << 10, 4 << 20


def sizes():
    size = SMALLEST
    while size <= LARGEST:
        yield size
        size *= 2


def busbar(args, ours, folder):
    report = os.path.join(folder, f"{time.monotonic_ns()}.json")
    run_job(args.mpirun, RANKS, [executable(args.build, f"{ours}_perf"), "--backend", "mpi", "-b", str(SMALLEST), "-e",
                                 str(LARGEST), "-f", "2", "--placement", "out", "-c", "0", "--stat", "--cadence",
                                 "isolated", "--per-rank", "--rel-ci", "0.1%", "--max-time", str(args.seconds), "-J",
                                 report])
    with open(report, encoding="utf-8") as file:
        results = json.load(file)["results"]
    found = {"busbar mean": {}, "busbar median": {}, "busbar epochs": {}}
    for entry in results:
        cell = entry["busbar"]["out_of_place"]
        ranks = [rank["own_median_us"] for rank in cell["stats"]["ranks"]]
        found["busbar mean"][entry["size"]] = cell["time_us"]
        found["busbar median"][entry["size"]] = sum(ranks) / len(ranks)
        found["busbar epochs"][entry["size"]] = cell["stats"]["median_us"]
    return found


def osu(args, program, divide, calls, name):
    # osu_bcast of 7.x has no lower limit that suits all builds: smaller sizes are dropped when read.
    command = [os.path.join(args.osu, program), "-m", f"{SMALLEST // divide}:{LARGEST // divide}"]
    text = run_job(args.mpirun, RANKS, command + (["-i", str(calls)] if calls else []))
    rows = re.findall(r"(?m)^(\d+)\s+([\d.]+)", text)
    return {name: {int(size) * divide: float(avg) for size, avg in rows}}


def imb(args, benchmark, divide, calls, name):
    lowest, highest = ((limit // divide).bit_length() - 1 for limit in (SMALLEST, LARGEST))
    command = [os.path.join(args.imb, "IMB-MPI1"), "-npmin", str(RANKS), "-msglog", f"{lowest}:{highest}",
               "-sync", "on"]
    if calls:
        command += ["-iter", str(calls), "-iter_policy", "off"]
    text = run_job(args.mpirun, RANKS, command + [benchmark])
    rows = re.findall(r"(?m)^\s+(\d+)\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", text)
    return {name: {int(size) * divide: float(avg) for size, avg in rows if int(size) > 0}}


def tools_of(args, collective, folder):
    ours, osu_name, imb_name, chunks = collective
    divide = RANKS if chunks else 1
    tools = [lambda: busbar(args, ours, folder)]
    for longer, mark in ((False, ""), (True, " long")):
        if args.osu and os.path.exists(os.path.join(args.osu, osu_name)):
            calls = args.osu_calls if longer else 0
            tools.append(lambda c=calls, m=mark: osu(args, osu_name, divide, c, "OSU" + m))
        if args.imb:
            calls = args.imb_calls if longer else 0
            tools.append(lambda c=calls, m=mark: imb(args, imb_name, divide, c, "IMB" + m))
    return tools


def measure(args, generator, folder):
    """times[tool][collective, size] = list over the rounds [us]; walls[tool] = [s]"""
    times, walls = {}, {}
    for number in range(1, args.rounds + 1):
        for collective in COLLECTIVES:
            tools = tools_of(args, collective, folder)
            generator.shuffle(tools)
            for tool in tools:
                before = time.monotonic()
                for name, cells in tool().items():
                    walls.setdefault(name, []).append(time.monotonic() - before)
                    missing = [size for size in sizes() if size not in cells]
                    if missing:
                        sys.exit(f"{name} said nothing of {collective[0]} at {missing}")
                    for size in sizes():
                        times.setdefault(name, {}).setdefault((collective[0], size), []).append(cells[size])
        print(f"round {number} of {args.rounds}", file=sys.stderr, flush=True)
    return times, walls


def deviation(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def program_of(name):
    """busbar's three readings are one launch, which must not weigh three times in what all have in common."""
    return "busbar" if name.startswith("busbar") else name


def spreads(times, rounds):
    """Each tool's spread over these rounds, the common factors of a collective's launches in a round divided out."""
    centred = {}
    for tool, cells in times.items():
        for cell, values in cells.items():
            logs = [math.log(values[r]) for r in rounds]
            mean = sum(logs) / len(logs)
            centred[tool, cell] = [value - mean for value in logs]
    factors = {}
    for collective, *_ in COLLECTIVES:
        programs = {}
        for (tool, cell), series in centred.items():
            if cell[0] == collective:
                programs.setdefault(program_of(tool), []).append(series)
        means = [[sum(column) / len(column) for column in zip(*group)] for group in programs.values()]
        factors[collective] = [sum(column) / len(column) for column in zip(*means)]
    return {tool: median([deviation([v - f for v, f in zip(centred[tool, cell], factors[cell[0]])]) for cell in cells])
            for tool, cells in times.items()}


def print_medians(times):
    names = sorted(times)
    rows = [[collective, size_text(size)] + [f"{median(times[name][collective, size]):.1f}" for name in names]
            for collective, *_ in COLLECTIVES for size in sizes()]
    print("Medians over the launches (us):\n")
    print(table(["collective", "size"] + names, rows))


def print_spreads(times, walls, rounds):
    everything = list(range(rounds))
    found = spreads(times, everything)
    peers = [name for name in times if not name.startswith("busbar")]
    rows = []
    for name in sorted(times):
        raw = median([deviation([math.log(v) for v in values]) for values in times[name].values()])
        ratio = "-"
        if peers and name not in peers:
            def to_best(chosen, name=name):
                drawn = spreads(times, chosen)
                return drawn[name] / min(drawn[peer] for peer in peers)
            low, high = bootstrap(rounds, to_best, draws=500)
            ratio = f"{found[name] / min(found[peer] for peer in peers):.2f} [{low:.2f}, {high:.2f}]"
        rows.append([name, f"{median(walls[name]):.1f} s", f"{100 * raw:.1f} %", f"{100 * found[name]:.1f} %", ratio])
    print("\nSpread over the launches (standard deviation of the logarithm, median over the cells):\n")
    print(table(["tool, statistic", "wall time of a launch", "as it is", "common factor removed",
                 "of the best peer's [95 % bootstrap]"], rows))
    if not peers:
        print("\nNEITHER PEER IS AT HAND (--osu DIR, --imb DIR): nothing was compared.")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--osu", help="folder of osu_allreduce, osu_allgather, osu_bcast")
    parser.add_argument("--imb", help="folder of IMB-MPI1")
    parser.add_argument("--rounds", type=int, default=12, help="launches of each tool and collective (12)")
    parser.add_argument("--seconds", type=float, default=0.75, help="--max-time of busbar (0.75)")
    parser.add_argument("--osu-calls", type=int, default=900, help="calls per size of OSU's long runs (900)")
    parser.add_argument("--imb-calls", type=int, default=600, help="calls per size of IMB's long runs (600)")
    parser.add_argument("--raw", help="write all times as JSON to this file")
    args = parser.parse_args()
    if args.rounds < 4:
        parser.error("--rounds: a spread needs 4 at least")
    for option, program in (("osu", "osu_allreduce"), ("imb", "IMB-MPI1")):
        folder = getattr(args, option)
        if folder is None or not os.path.exists(os.path.join(folder, program)):
            print(f"LEFT OUT: no {program} (--{option} {folder or 'was not given'})")
            setattr(args, option, None)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        times, walls = measure(args, random.Random(1), folder)
    if args.raw:
        with open(args.raw, "w", encoding="utf-8") as file:
            json.dump({tool: {f"{c} {s}": v for (c, s), v in cells.items()} for tool, cells in times.items()}, file)
    print_medians(times)
    print_spreads(times, walls, args.rounds)


if __name__ == "__main__":
    main()
