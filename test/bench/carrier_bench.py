#!/usr/bin/env python3
"""Would show: a carrier over TCP whose barrier, skew or start is far from that of an MPI over TCP.

The same program on one host in turn: over our sockets, over Open MPI's TCP (btl tcp), and over its shared memory. Medians
and quartiles over the rounds; ratios within rounds, sockets over Open MPI's TCP. `carrier_bench.py BUILDDIR [ROUNDS]`."""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

MPIRUN = os.environ.get("BUSBAR_MPIRUN", "mpirun")
RANKS = (2, 4, 8)
FORCED = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
# Name, unit, factor of each number that the program prints.
FIGURES = (("start, from the launcher's", "ms", 1e3), ("start, from main", "ms", 1e3), ("barrier", "us", 1e6),
           ("skew", "us", 1e6), ("skew, 95 %", "us", 1e6))


def run(processes):
    outs = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}):\n{out}{err}")
        outs.append(out)
    return [float(word) for word in outs[0].split()]


def start(command, **environment):
    return subprocess.Popen(command, env={**os.environ, **environment}, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def over_sockets(program, nranks):
    place = {"WORLD_SIZE": str(nranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 32000))}
    command = [program, f"{time.time():.6f}"]
    return run([start(command, RANK=str(rank), **place) for rank in range(nranks)])


def over_mpi(program, nranks, options):
    begun = f"{time.time():.6f}"
    return run([start([MPIRUN, *options, "-n", str(nranks), program, begun])])


def words(values, digits=1):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def main(build, rounds):
    # Root and few cores are no reason to refuse a benchmark of the suite itself.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    program = str(build / "test/carrier_bench")
    ways = {"sockets": lambda n: over_sockets(program, n), "tcp": lambda n: over_mpi(program, n, FORCED),
            "shared": lambda n: over_mpi(program, n, [])}
    print(f"medians [quartiles] of {rounds} rounds, in turn, load {os.getloadavg()[0]:.1f}\n")
    print("| ranks | | unit | sockets | Open MPI, TCP | Open MPI, shared memory | sockets / Open MPI's TCP |")
    print("|---|---|---|---|---|---|---|")
    for nranks in RANKS:
        found = {way: [] for way in ways}
        for number in range(rounds):
            for way in sorted(ways, key=lambda w, turn=number: (sorted(ways).index(w) + turn) % len(ways)):
                found[way].append(ways[way](nranks))
        for i, (name, unit, factor) in enumerate(FIGURES):
            columns = [words([factor * row[i] for row in found[way]]) for way in ("sockets", "tcp", "shared")]
            ratios = [own[i] / theirs[i] for own, theirs in zip(found["sockets"], found["tcp"])]
            print(f"| {nranks} | {name} | {unit} | {' | '.join(columns)} | {words(ratios, 2)} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 11)
