#!/usr/bin/env python3
"""Live jobs that stand still, each with its culprit known, and what `busbar triage` says of them.

    scripts/triage/run_triage.py BUILD [--only NAME,...] [--repeat 3] [--cost 20] [--python /usr/bin/python3]

Needs torch and mpi4py in that Python (Debian: python3-torch, python3-mpi4py) and py-spy in a folder of root's. Prints a
line per run and the totals; exit code 1 if a culprit was wrong or a healthy job blamed. --cost N: N pairs of the same
job with and without triage, and the ratio of their median step times."""

import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NRANKS = 4
PATIENCE_S = 90
# Name: program, fault, rank that has it, verdicts that are right, ranks to blame.
Live = collections.namedtuple("Live", "program fault on verdicts blamed", defaults=((),))
LIVE = {
    "healthy": Live("train.py", "healthy", -1, ("OK",)),
    "skip": Live("train.py", "skip", 2, ("RANK_LAGGING",), (2,)),
    "thread": Live("train.py", "exception_in_thread", 1, ("RANK_LAGGING",), (1,)),
    "store_kill": Live("train.py", "store_kill", 3, ("PROCESS_DEAD", "INIT_NOT_JOINED"), (3,)),
    "stop": Live("train.py", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "debugger": Live("train.py", "debugger", 3, ("PROCESS_STOPPED",), (3,)),
    "dead_worker": Live("train.py", "dead_worker", 2, ("RANK_LAGGING",), (2,)),
    "stuck_worker": Live("train.py", "stuck_worker", 0, ("RANK_LAGGING",), (0,)),
    "debug_prompt": Live("train.py", "debug_prompt", 2, ("RANK_LAGGING",), (2,)),
    "order": Live("train.py", "order", 2, ("ORDER_MISMATCH", "RANK_LAGGING"), (2,)),
    "checkpoint": Live("train.py", "checkpoint", 0, ("SLOW_NOT_HUNG",), (0,)),
    "evaluation": Live("train.py", "evaluation", 0, ("SLOW_NOT_HUNG",), (0,)),
    "compiling": Live("train.py", "compiling", 3, ("SLOW_NOT_HUNG",), (3,)),
    "never_launched": Live("train.py", "healthy", 3, ("INIT_NOT_JOINED",), (3,)),
    "wrong_master": Live("train.py", "healthy", 2, ("INIT_NOT_JOINED", "INIT_STUCK"), (2,)),
    "mpi_healthy": Live("solve.py", "healthy", -1, ("OK",)),
    "mpi_skip": Live("solve.py", "skip", 2, ("RANK_LAGGING",), (2,)),
    "mpi_stop": Live("solve.py", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "perf_stop": Live("all_reduce_perf", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "perf_healthy": Live("all_reduce_perf", "healthy", -1, ("OK",)),
}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Full:
    """A port whose queue of connections is full: to connect to it stays in SYN_SENT."""

    def __init__(self):
        self.server = socket.socket()
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(0)
        self.port = self.server.getsockname()[1]
        self.clients = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", self.port))
            self.clients.append(client)


class Job:
    def __init__(self, live, name, folder, options):
        self.folder, self.live, self.name = folder, live, name
        self.processes = []
        self.full = None
        os.mkfifo(os.path.join(folder, "prompt"))
        self.prompt = os.open(os.path.join(folder, "prompt"), os.O_RDWR)  # so that opening it does not wait
        words = ["--fault", live.fault, "--on", str(live.on), "--folder", folder]
        launcher = [options.mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(NRANKS)]
        if live.program == "solve.py":
            self.start([*launcher, options.python, str(HERE / "solve.py"), *words])
        elif live.program == "all_reduce_perf":
            self.start([*launcher, os.path.join(options.build, "all_reduce_perf"), "--backend", "mpi", "-b", "64K", "-e",
                        "64K", "-N", "0", "-T", "600"])
        else:
            self.start_ranks(options.python, words)

    def start(self, words, **more):
        log = open(os.path.join(self.folder, "log"), "ab")  # pylint: disable=consider-using-with
        self.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,  # pylint: disable=consider-using-with
                                               start_new_session=True, **more))

    def start_ranks(self, python, words):
        port = free_port()
        for rank in range(NRANKS):
            if self.name == "never_launched" and rank == self.live.on:
                continue
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(NRANKS),
                               LOCAL_WORLD_SIZE=str(NRANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                               GLOO_SOCKET_IFNAME="lo")
            if self.name == "wrong_master" and rank == self.live.on:
                self.full = Full()
                environment["MASTER_PORT"] = str(self.full.port)
            self.start([python, str(HERE / "train.py"), *words], env=environment)

    def steps(self):
        return sum(len(pathlib.Path(one).read_text(encoding="utf-8").split())
                   for one in glob.glob(os.path.join(self.folder, "step.*")))

    def step_times(self):
        stamps = [float(word) for word in
                  pathlib.Path(self.folder, "step.0").read_text(encoding="utf-8").split()]
        return [b - a for a, b in zip(stamps, stamps[1:])]

    def pids(self):
        found = subprocess.run(["pgrep", "-f", self.folder], stdout=subprocess.PIPE, text=True, check=False).stdout
        return [int(word) for word in found.split()]

    def settle(self):
        """Waits until all ranks are where the fault holds them: no step for three seconds; or, healthy, that it steps."""
        end, still_since, last = time.monotonic() + PATIENCE_S, None, -1
        while time.monotonic() < end:
            time.sleep(0.5)
            steps = self.steps()
            if self.live.program == "all_reduce_perf":
                if time.monotonic() > end - PATIENCE_S + 8:
                    return
                continue
            if self.live.fault == "healthy" and self.name in ("healthy", "mpi_healthy"):
                if steps > 40:
                    return
                continue
            begun = steps >= 10 or self.name in ("never_launched", "wrong_master", "store_kill")
            if not begun or steps != last:
                last, still_since = steps, time.monotonic()
            elif time.monotonic() - still_since > (15 if steps == 0 else 4):
                return
        raise TimeoutError(f"{self.name} did not settle: {self.steps()} steps")

    def pid_of(self, rank):
        for pid in self.pids():
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word in words for word in (b"RANK=%d" % rank, b"OMPI_COMM_WORLD_RANK=%d" % rank)):
                return pid
        return 0

    def end(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()
        os.close(self.prompt)


class Tracer:
    """A process that holds another as a debugger does."""

    def __init__(self, pid):
        self.child = os.fork()
        if self.child == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
            attach = 16  # PTRACE_ATTACH
            libc.ptrace(attach, pid, None, None)
            os.waitpid(pid, 0x40000000)  # __WALL
            signal.pause()
            os._exit(0)

    def end(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def triage(job, options):
    out = os.path.join(job.folder, "evidence.json")
    words = [os.path.join(options.build, "busbar"), "triage", "--local", "-J", out]
    if job.live.program != "all_reduce_perf":
        words += ["--match", job.folder]
    else:
        words += ["--match", "all_reduce_perf"]
    begun = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=180)
    took = time.monotonic() - begun
    try:
        with open(out, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError):
        return "none", [], took, done.stdout
    return document["verdict"], document["ranks"], took, done.stdout


def run_one(name, options):
    live = LIVE[name]
    with tempfile.TemporaryDirectory(prefix="busbar_live_") as folder:
        job = Job(live, name, folder, options)
        tracer = None
        try:
            job.settle()
            if name == "debugger":
                tracer = Tracer(job.pid_of(live.on))
                time.sleep(1)
            if name == "perf_stop":
                pids = subprocess.run(["pgrep", "-f", "all_reduce_perf --backend mpi"], stdout=subprocess.PIPE, text=True,
                                      check=False).stdout.split()
                for pid in pids:
                    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    if b"OMPI_COMM_WORLD_RANK=%d" % live.on in words:
                        os.kill(int(pid), signal.SIGSTOP)
                time.sleep(12)
            verdict, ranks, took, text = triage(job, options)
            evidence = os.path.join(folder, "evidence.json")
            if options.keep and os.path.exists(evidence):
                os.makedirs(options.keep, exist_ok=True)
                shutil.copy(evidence, os.path.join(options.keep, f"{name}.json"))
        finally:
            if tracer:
                tracer.end()
            job.end()
    right = verdict in live.verdicts and sorted(ranks) == sorted(live.blamed)
    wrong = bool(set(ranks) - set(live.blamed))
    print(f"{name:16} {'right' if right else 'WRONG' if wrong else 'missed':7} {verdict:16} ranks {ranks} in {took:.0f} s"
          f"{'' if right else f', want ' + '/'.join(live.verdicts) + f' {list(live.blamed)}'}", flush=True)
    if not right or options.show:
        print("    " + text.replace("\n", "\n    "), flush=True)
    return right, wrong


def cost(options):
    """Median step times with a look in their middle, over those without."""
    ratios = []
    order = random.Random(options.seed)
    for _ in range(options.cost):
        medians = {}
        for looked in order.sample([True, False], 2):
            with tempfile.TemporaryDirectory(prefix="busbar_live_") as folder:
                job = Job(LIVE["healthy"], "healthy", folder, options)
                try:
                    job.settle()
                    before = len(job.step_times())
                    if looked:
                        triage(job, options)
                    else:
                        time.sleep(options.look_s)
                    medians[looked] = statistics.median(job.step_times()[before:])
                finally:
                    job.end()
        ratios.append(medians[False] / medians[True])
        print(f"step without triage over with: {ratios[-1]:.3f}", flush=True)
    print(f"median of {len(ratios)} pairs: {statistics.median(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--cost", type=int, default=0)
    parser.add_argument("--look-s", type=float, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="", help="a folder for the evidence of each run")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--mpirun", default=os.environ.get("BUSBAR_MPIRUN", "mpirun"))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(LIVE)
    unknown = [name for name in names if name not in LIVE]
    if unknown:
        sys.exit(f"no such job: {', '.join(unknown)}; choose from {', '.join(LIVE)}")
    if subprocess.run([options.python, "-c", "import torch, mpi4py"], stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"SKIPPED: {options.python} has no torch or no mpi4py (Debian: python3-torch python3-mpi4py)")
        return 0
    if options.cost:
        return cost(options)
    results = [run_one(name, options) for _ in range(options.repeat) for name in names]
    right, wrong = sum(r for r, _ in results), sum(w for _, w in results)
    print(f"{right} of {len(results)} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
