#!/usr/bin/env python3
"""Live jobs that stand still, each with its culprit known, and what `busbar triage` says of them.

    scripts/triage/run_triage.py BUILD [--place local|hosts|slurm|kube] [--only NAME,...] [--repeat 3] [--healthy 60]
                                 [--cost 20] [--python /usr/bin/python3] [--mpich-python PYTHON] [--jax-python PYTHON]

--place: all ranks on this machine (busbar triage --local), or one on each of four virtual hosts, which are looked at by
an ssh-like exec (--hosts), by steps of a virtual Slurm (--slurm), or by a stand-in for kubectl (--kube). Runs itself
in the sandbox of scripts/vcluster.

Needs torch and mpi4py in that Python (Debian: python3-torch, python3-mpi4py) and py-spy in a folder of root's; for jobs
of MPICH a Python whose mpi4py was built with it. Prints a line per run and the totals; exit code 1 if a culprit was
wrong or a healthy job blamed. --healthy N: N runs of the healthy and the slow jobs in turn. --cost N: N pairs of
times with and without triage in one job, and the ratio of their median step times (20 pairs: 5 minutes); exit code 1 if
it is not in 0.98 to 1.02."""

import argparse
import collections
import contextlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import live_places
from live_job import Job

# Name: program, fault, rank that has it, verdicts that are right, ranks to blame, whether it steps on, whether it runs
# over MPICH, places in which it can run.
Live = collections.namedtuple("Live", "program fault on verdicts blamed goes_on mpich places",
                              defaults=((), False, False, tuple(live_places.PLACES)))
REMOTE = ("hosts", "slurm", "kube")
NO_SLURM = ("local", "hosts", "kube")
STILL = ("OK", "SLOW_NOT_HUNG")  # of a job that is slow, both are right
LIVE = {
    "healthy": Live("train.py", "healthy", -1, ("OK",), goes_on=True),
    "slow_steps": Live("train.py", "slow_steps", 2, STILL, (2,), goes_on=True),
    "checkpoint": Live("train.py", "checkpoint", 0, ("SLOW_NOT_HUNG",), (0,)),
    "evaluation": Live("train.py", "evaluation", 0, ("SLOW_NOT_HUNG",), (0,)),
    "compiling": Live("train.py", "compiling", 3, ("SLOW_NOT_HUNG",), (3,)),
    "idle": Live("serve.py", "idle", -1, ("OK",)),
    "idle_followers": Live("serve.py", "idle_followers", -1, ("OK", "UNKNOWN")),
    "mpi_healthy": Live("solve.py", "healthy", -1, ("OK",), goes_on=True),
    "mpich_healthy": Live("solve.py", "healthy", -1, ("OK",), goes_on=True, mpich=True),
    "perf_healthy": Live("all_reduce_perf", "healthy", -1, ("OK",)),
    "skip": Live("train.py", "skip", 2, ("RANK_LAGGING",), (2,)),
    "thread": Live("train.py", "exception_in_thread", 1, ("RANK_LAGGING",), (1,)),
    "store_kill": Live("train.py", "store_kill", 3, ("PROCESS_DEAD", "INIT_NOT_JOINED"), (3,)),
    "out_of_memory": Live("train.py", "out_of_memory", 2, ("PROCESS_DEAD", "RESOURCE"), (2,)),
    "stop": Live("train.py", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "debugger": Live("train.py", "debugger", 3, ("PROCESS_STOPPED",), (3,)),
    "dead_worker": Live("train.py", "dead_worker", 2, ("RANK_LAGGING",), (2,)),
    "stuck_worker": Live("train.py", "stuck_worker", 0, ("RANK_LAGGING",), (0,)),
    "debug_prompt": Live("train.py", "debug_prompt", 2, ("RANK_LAGGING",), (2,)),
    "blocked_files": Live("train.py", "blocked_files", 1, ("RANK_LAGGING",), (1,)),
    "order": Live("train.py", "order", 2, ("ORDER_MISMATCH", "RANK_LAGGING"), (2,)),
    "mpi_sizes": Live("solve.py", "sizes", 2, ("ARG_MISMATCH", "ORDER_MISMATCH", "RANK_LAGGING"), (2,)),
    "never_launched": Live("train.py", "healthy", 3, ("INIT_NOT_JOINED",), (3,)),
    "wrong_master": Live("train.py", "healthy", 2, ("INIT_NOT_JOINED", "INIT_STUCK"), (2,)),
    "partition": Live("train.py", "healthy", 2, ("HOST_UNREACHABLE",), (), goes_on=True, places=REMOTE),
    "mpi_skip": Live("solve.py", "skip", 2, ("RANK_LAGGING",), (2,)),
    "mpi_stop": Live("solve.py", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "mpich_skip": Live("solve.py", "skip", 2, ("RANK_LAGGING",), (2,), mpich=True),
    "mpich_stop": Live("solve.py", "stop", 1, ("PROCESS_STOPPED",), (1,), mpich=True),
    "jax_healthy": Live("fit.py", "healthy", -1, ("OK",), goes_on=True, places=NO_SLURM),
    "jax_skip": Live("fit.py", "skip", 2, ("RANK_LAGGING",), (2,), places=NO_SLURM),
    "jax_stop": Live("fit.py", "stop", 1, ("PROCESS_STOPPED",), (1,), places=NO_SLURM),
    "plain_mpi_skip": Live("plain.py", "skip", 2, ("RANK_LAGGING",), (2,)),
    "plain_kill": Live("plain.py", "kill", 3, ("PROCESS_DEAD",), (3,)),
    "plain_stop": Live("plain.py", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "perf_stop": Live("all_reduce_perf", "stop", 1, ("PROCESS_STOPPED",), (1,)),
    "perf_skip": Live("all_reduce_perf", "skip", 3, ("RANK_LAGGING", "ARG_MISMATCH"), (3,)),
}
HEALTHY = [name for name, live in LIVE.items() if set(live.verdicts) & set(STILL)]


def triage(job, place, options):
    out = os.path.join(job.folder, "evidence.json")
    match = "all_reduce_perf" if job.live.program == "all_reduce_perf" else job.folder
    words = [os.path.join(options.build, "busbar"), "triage", *place.triage(), "-J", out]
    if place.name == "slurm":
        words[:0] = [live_places.VCLUSTER, "exec", "node0"]
    else:
        words += ["--match", match]
    words += options.words.split()
    with contextlib.suppress(FileNotFoundError):
        os.remove(out)
    begun = time.monotonic()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=240, env=dict(os.environ, **place.environment))
    took = time.monotonic() - begun
    try:
        with open(out, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError):
        document = {"verdict": "none", "ranks": [], "hosts": []}
    return document, took, done.stdout


def run_one(name, place, options, number):
    live = LIVE[name]
    with tempfile.TemporaryDirectory(prefix="busbar_live_", dir=live_places.RUN) as folder:
        job = None
        try:
            job = Job(live, name, folder, place, options)
            job.settle()
            document, took, text = triage(job, place, options)
            evidence = os.path.join(folder, "evidence.json")
            if options.keep and os.path.exists(evidence):
                os.makedirs(options.keep, exist_ok=True)
                shutil.copy(evidence, os.path.join(options.keep, f"{place.name}.{name}.{number}.json"))
        except (OSError, subprocess.SubprocessError) as error:
            document, took, text = {"verdict": "not run", "ranks": [], "hosts": []}, 0, str(error)
        finally:
            if job:
                job.end()
    verdict, ranks, hosts = document["verdict"], document["ranks"], document["hosts"]
    right = verdict in live.verdicts and sorted(ranks) == sorted(live.blamed)
    if name == "partition":
        right = verdict in live.verdicts and hosts == [live_places.HOSTS[live.on]]
    if name in HEALTHY and verdict == "OK":
        right = "OK" in live.verdicts and not ranks
    wrong = bool(set(ranks) - set(live.blamed)) or (name in HEALTHY and verdict not in (*STILL, "UNKNOWN", "not run"))
    print(f"{place.name:6} {name:16} {'right' if right else 'WRONG' if wrong else 'missed':7} {verdict:16} ranks {ranks} "
          f"in {took:.0f} s{'' if right else ', want ' + '/'.join(live.verdicts) + f' {list(live.blamed)}'}", flush=True)
    if not right or options.show:
        print("    " + text.replace("\n", "\n    "), flush=True)
    return right, wrong


def cost(place, options):
    """Median step times of one job while it is looked at, over those in a time as long next to it, in turn by chance: what
    else the machine does comes and goes in both of a pair."""
    ratios, steps = [], {True: 0, False: 0}
    order = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="busbar_live_", dir=live_places.RUN) as folder:
        job = Job(LIVE["healthy"], "healthy", folder, place, options)
        try:
            job.settle()
            _, took, _ = triage(job, place, options)  # the first one reads programs from the disk
            for pair in range(options.cost):
                medians = {}
                for looked in order.sample([True, False], 2):
                    before = len(job.step_times())
                    if looked:
                        verdict, took, text = triage(job, place, options)
                        if verdict["verdict"] != "OK":
                            print(text, flush=True)
                    else:
                        time.sleep(took)
                    times = job.step_times()[before:]
                    medians[looked] = statistics.median(times)
                    steps[looked] += len(times)
                ratios.append(medians[True] / medians[False])
                print(f"pair {pair + 1}: {1e3 * medians[True]:.2f} ms a step with triage, {1e3 * medians[False]:.2f} ms "
                      f"without: {ratios[-1]:.3f}", flush=True)
        finally:
            job.end()
    ratio = statistics.median(ratios)
    low, high = (sorted(ratios)[round(share * (len(ratios) - 1))] for share in (0.25, 0.75))
    print(f"step time with triage over without, median of {len(ratios)} pairs: {ratio:.3f} (half of them {low:.3f} to "
          f"{high:.3f}); {steps[True]} steps with, {steps[False]} without")
    return 0 if 0.98 <= ratio <= 1.02 else 1


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--place", choices=live_places.PLACES, default="local")
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=0)
    parser.add_argument("--cost", type=int, default=0)
    parser.add_argument("--words", default="", help="more options of busbar triage: '--apart 1'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="", help="a folder for the evidence of each run")
    parser.add_argument("--record", action="store_true", help="dump PyTorch's Flight Recorder each second (2.11 or later)")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--nap", default="0", help="1: ranks of MPI on virtual hosts sleep while they wait (vcluster)")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--mpich-python", default="")
    parser.add_argument("--jax-python", default="")
    parser.add_argument("--mpirun", default=os.environ.get("BUSBAR_MPIRUN", "mpirun"))
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    return options


def names_of(options):
    names = options.only.split(",") if options.only else HEALTHY if options.healthy else list(LIVE)
    unknown = [name for name in names if name not in LIVE]
    if unknown:
        sys.exit(f"no such job: {', '.join(unknown)}; choose from {', '.join(LIVE)}")
    return [name for name in names
            if options.place in LIVE[name].places and (options.mpich_python or not LIVE[name].mpich)
            and (options.jax_python or LIVE[name].program != "fit.py")]


def main():
    options = read_options()
    names = names_of(options)
    if subprocess.run([options.python, "-c", "import torch, mpi4py"], stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"SKIPPED: {options.python} has no torch or no mpi4py (Debian: python3-torch python3-mpi4py)")
        return 0
    if "VC_SANDBOX" not in os.environ:
        os.environ["VC_LIMIT"] = "28800"
        os.execv(live_places.VCLUSTER, [live_places.VCLUSTER, "sandbox", sys.executable, *sys.argv])
    place = live_places.PLACES[options.place](options)
    if options.cost:
        return cost(place, options)
    if options.healthy:
        runs = list(enumerate(itertools.islice(itertools.cycle(names), options.healthy)))
    else:
        runs = [(number, name) for number in range(options.repeat) for name in names]
    results = [run_one(name, place, options, number) for number, name in runs]
    right, wrong = sum(r for r, _ in results), sum(w for _, w in results)
    print(f"{right} of {len(results)} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
