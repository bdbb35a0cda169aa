#!/usr/bin/env python3
"""A job of mpi4py that makes steps, and at the tenth does what --fault says on rank --on; run_triage.py starts it."""

import argparse
import os
import signal
import time

import numpy
from mpi4py import MPI

FAULT_AT = 10


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="healthy")
    parser.add_argument("--on", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    return parser.parse_args()


options = parsed()
comm = MPI.COMM_WORLD


def note(name):
    with open(os.path.join(options.folder, f"{name}.{comm.rank}"), "a", encoding="utf-8") as file:
        file.write(f"{time.monotonic()}\n")


def exchange(value):
    total = numpy.zeros(1)
    comm.Allreduce(numpy.array([value]), total)
    return float(total[0]) / comm.size


def distribute(count):
    """Open MPI sends long messages in pieces: a rank that expects more waits for pieces that nobody sends. MPICH notices."""
    comm.Bcast(numpy.zeros(count), root=0)


def work():
    matrix = numpy.eye(64)
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        matrix = numpy.tanh(matrix @ matrix)


def write_results():
    while True:
        time.sleep(1)


def main():
    value, step = float(comm.rank), 0
    while True:
        if step == FAULT_AT and options.fault != "healthy":
            note("fault")
            if comm.rank == options.on and options.fault == "skip":
                write_results()
            if comm.rank == options.on and options.fault == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            if options.fault == "sizes":
                distribute(1 << 22 if comm.rank == options.on else 1 << 12)
        value = exchange(value)
        note("step")
        work()
        step += 1


if __name__ == "__main__":
    main()
