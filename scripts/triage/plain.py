#!/usr/bin/env python3
"""A job that needs neither torch nor mpi4py: its ranks meet in a barrier, over sockets of their own or, with --mpi, in
libmpi's. At the tenth step rank --on does what --fault says. run_triage.py starts it."""

import argparse
import ctypes
import os
import signal
import socket
import time

FAULT_AT = 10


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="healthy")
    parser.add_argument("--on", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mpi", action="store_true")
    return parser.parse_args()


def number(*names):
    return next(int(os.environ[name]) for name in names if name in os.environ)


class Sockets:
    """Rank 0 hears all, then answers all."""

    def __init__(self):
        self.rank, nranks = number("RANK"), number("WORLD_SIZE")
        place = (os.environ["MASTER_ADDR"], number("MASTER_PORT"))
        if self.rank == 0:
            with socket.create_server(place) as server:
                self.peers = [server.accept()[0] for _ in range(nranks - 1)]
        else:
            self.peers = [self.joined(place)]

    @staticmethod
    def joined(place):
        while True:
            try:
                return socket.create_connection(place)
            except ConnectionRefusedError:
                time.sleep(0.05)

    def hear(self):
        for peer in self.peers:
            while not peer.recv(1):  # its rank is gone, and this one waits on, as over a network that lost a host
                signal.pause()

    def say(self):
        for peer in self.peers:
            peer.send(b"1")

    def barrier(self):
        for step in (self.hear, self.say) if self.rank == 0 else (self.say, self.hear):
            step()


class Mpi:
    def __init__(self):
        names = ("libmpich.so.12", "libmpi.so.12") if "PMI_RANK" in os.environ else ("libmpi.so.40", "libmpi.so")
        self.library = next(filter(None, map(self.loaded, names)))
        self.library.MPI_Init(None, None)
        self.rank = number("OMPI_COMM_WORLD_RANK", "PMI_RANK")
        self.world = ctypes.c_int(0x44000000)  # of MPICH's ABI
        if hasattr(self.library, "ompi_mpi_comm_world"):
            self.world = ctypes.byref(ctypes.c_char.in_dll(self.library, "ompi_mpi_comm_world"))

    @staticmethod
    def loaded(name):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            return None

    def barrier(self):
        self.library.MPI_Barrier(self.world)


def write_results():
    while True:
        time.sleep(1)


def main():
    options = parsed()
    job = Mpi() if options.mpi else Sockets()

    def note(name):
        with open(os.path.join(options.folder, f"{name}.{job.rank}"), "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic()}\n")

    step = 0
    while True:
        if step == FAULT_AT:
            note("fault")
            if job.rank == options.on and options.fault == "skip":
                write_results()
            if job.rank == options.on and options.fault in ("stop", "kill"):
                os.kill(os.getpid(), signal.SIGSTOP if options.fault == "stop" else signal.SIGKILL)
        job.barrier()
        note("step")
        time.sleep(0.01)
        step += 1


if __name__ == "__main__":
    main()
