#!/usr/bin/env python3
"""Records what frozen_test.py reads: results of every kind, by the programs of a build, on virtual hosts.

    python3 test/frozen/record_inputs.py build NEW_FOLDER

Into a new folder, whose files then take the place of those in test/frozen/recorded. Takes about five minutes and
virtual hosts (scripts/vcluster). Hosts are called node0 to node3; moments become those of 2026-07-04, and what else
tells of the machine is replaced (`neutral`).
"""

import datetime
import glob
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
VCLUSTER = os.path.join(SOURCE, "scripts", "vcluster", "vcluster")
RUN = "/run/vcluster"
FIRST_MOMENT = datetime.datetime(2026, 7, 4, 10, 0, 0)
STAMP = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d:\d\d)")

CELLS = """defaults:
  rel-ci: 20%
  cell-time: 0.3
  placement: out
  criteria: {wrong: 0}
"""
PLAN = f"""schema: 1
title: a recorded acceptance
stages: [per-host, whole]
locate-on-fail: false
{CELLS}cells:
  - {{name: inside, collective: all_reduce, stages: per-host, sizes: 64K}}
  - {{name: one, collective: all_reduce, stages: whole, sizes: [8, 64K], criteria: {{latency: 1s}}}}
  - {{name: two, collective: broadcast, stages: whole, sizes: 64K, placement: both}}
"""
BOUNDS_PLAN = f"""schema: 1
title: bounds of every kind
max-time: 30
stages: [per-host, whole]
locate-on-fail: false
{CELLS}cells:
  - {{name: inside, collective: all_reduce, stages: per-host, sizes: 64K, criteria: {{host-spread: 1%, time-spread: 1%}}}}
  - {{name: slow, collective: all_reduce, stages: whole, sizes: [8, 64K], criteria: {{busbw: 1000, latency: {{warn: 1us, fail: 1s}}}}}}
  - {{name: shares, collective: all_gather, stages: whole, sizes: 64K, criteria: {{busbw: expected, ceiling: {{fail: 50%, of: 100}},
     rank-spread: 1%, dips: 0%, counters: ignore}}}}
  - {{name: gpus, collective: all_reduce, stages: whole, memory: gpu, sizes: 8G}}
"""
REPEATED_PLAN = f"""schema: 1
title: for hours
stages: [whole]
repeat-for: 5s
{CELLS}cells:
  - {{name: again, collective: all_reduce, sizes: 64K, criteria: {{drift: 1%, dips: 5%, latency: 1ms}}}}
"""
PAIRS_PLAN = """schema: 1
title: pairs and nodes
stages: [doctor, pairs, whole]
max-time: 40
defaults:
  rel-ci: 20%
  cell-time: 0.3
  placement: out
  criteria: {wrong: 0, counters: unmoved}
cells:
  - {name: all-reduce, collective: all_reduce, stages: whole, sizes: 64K}
"""


def run(command, folder, codes=(0,), env=None):
    """Inside the sandbox. Says what failed and goes on: a recording that lacks a file is seen at once."""
    done = subprocess.run(["timeout", "200", "bash", "-c", command], cwd=folder, env=dict(os.environ, **(env or {})),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    print(f"{'ok  ' if done.returncode in codes else 'CODE'} {done.returncode:3} {command}", flush=True)
    if done.returncode not in codes:
        print(done.stdout[-1500:], done.stderr[-3000:], flush=True)


def record_runs(folder):
    """-J of the benchmarks; PERF and MPIRUN are functions of the shell, see `record`."""
    ranks = "$MPIRUN -np 4"
    for name, what in {
            "run_plain": "all_reduce -b 8 -e 1M -f 32 -n 5",
            "run_iters": "all_gather -b 1K -e 64K -f 8 -n 8 -I 1 -K 2 -S 1 -M 1 -C 1 -a 3",
            "run_types": "reduce --sizes 4K -n 2 -d float,int32,bfloat16 -o sum,max,avg -r all",
            "run_no_in_place": "pingpong --sizes 1K,64K -n 3",
            "run_alltoallv": "alltoallv --sizes 1K,64K -n 3 --placement out",
            "run_algo": "all_reduce --sizes 1K,64K -n 3 --show-algo",
            "run_stat_1": "all_reduce --sizes 1K,64K --stat --max-time 2 --seed 7 --per-rank --skew --epochs 8",
            "run_stat_2": "all_reduce --sizes 1K,64K --stat --max-time 2 --seed 8 --per-rank --skew --epochs 8",
            "run_stat_3": "all_reduce --sizes 1K,64K --stat --max-time 2 --seed 9 --epochs 8",
            "run_stat_other": "broadcast --sizes 1K --stat --max-time 1 --seed 9 --epochs 8 --placement in",
    }.items():
        collective, options = what.split(" ", 1)
        extra = " --samples samples.csv" if name == "run_stat_other" else ""
        run(f"{ranks} $BUILD/{collective}_perf --backend mpi {options} -J {name}.json{extra} --csv {name}.csv "
            "--history history.db", folder)
    for kind in ("drop", "flip", "overrun"):
        run(f"{ranks} $BUILD/all_reduce_perf --backend mpi --sizes 64K -w 0 -n 1 --inject rank=1,op=2,kind={kind} "
            f"-J run_wrong_{kind}.json", folder, (7,))


def record_comparisons(folder):
    run("$MPIRUN -np 4 $BUILD/busbar compare all_reduce,all_gather --backend mpi --sizes 64,16K --max-time 8 --seed 5 "
        "--vary ompi.algorithm=2,4,5 -J compare.json --csv compare.csv --history history.db", folder)
    run("$MPIRUN -np 4 $BUILD/busbar compare all_reduce --backend mpi --sizes 64K --max-time 2 --seed 5 --inject "
        "rank=1,op=1,kind=flip --vary ompi.algorithm=ring -J compare_wrong.json", folder, (7,))
    run("$BUILD/busbar fingerprint all_reduce -b 64K --launch 'mpirun -n 4 --oversubscribe' -J fingerprint.json", folder)


def record_places(folder):
    locate = "$MPIRUN -np 4 $BUILD/busbar locate --backend mpi -b 512K --repetitions 5 --seed 7 --no-rank-probes --looks-apart 500ms"
    run(f"{locate} --history history.db", folder, (0, 7, 8))
    run("$MPIRUN -np 8 $BUILD/busbar locate --backend mpi --unit rank -b 4K --repetitions 5 --seed 7 --looks 1 -J locate_ranks.json",
        folder, (0, 7, 8))
    run(f"{VCLUSTER} rate node2 tx 50mbit", folder)
    run(f"{locate} --direction -J locate_slow.json --csv locate_slow.csv --junit locate_slow.xml --history history.db",
        folder, (7,))
    with open(os.path.join(folder, "pairs.yaml"), "w", encoding="utf-8") as file:
        file.write(PAIRS_PLAN)
    run("$MPIRUN -np 4 $BUILD/busbar accept pairs.yaml --backend mpi --seed 7 -J accept_slow.json --history history.db",
        folder, (7,))
    run(f"{VCLUSTER} rate node2 tx 500mbit", folder)


def record_acceptances(folder):
    for name, text in (("plan", PLAN), ("bounds", BOUNDS_PLAN), ("repeated", REPEATED_PLAN)):
        with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(text)
    accept = "$BUILD/busbar accept plan.yaml --backend mpi --seed 7 --history history.db"
    run(f"$MPIRUN -np 4 {accept} -J accept_good.json --junit accept_good.xml --markdown accept_good.md "
        "--prometheus accept_good.prom", folder, (0, 7, 8))
    for name in ("bounds", "repeated"):
        run(f"$MPIRUN -np 4 {accept.replace('plan', name)} -J accept_{name}.json", folder, (0, 7, 8))
    run(f"$MPIRUN -np 4 {accept} -J accept_wrong.json --inject rank=1,op=10,kind=drop", folder, (7,))
    run(f"{accept} --launch 'mpirun -n {{ranks}} --oversubscribe {{cmd}}' --ranks 2 -T 2 --inject "
        "rank=1,op=8,kind=stop -J accept_launched.json", folder, (7,))
    run(f"{accept} --launch 'mpirun -n {{ranks}} --oversubscribe {{cmd}}' --ranks 2 --resume accept_launched.json",
        folder, (0, 7, 8))
    run("rm hang-*.json", folder)
    run(f"{accept} --launch false -J accept_no_start.json", folder, (7,))


def record_doctors(folder):
    """Of recorded machines, so that nothing of this one is in them."""
    machines = os.path.join(SOURCE, "test", "doctor")
    port = "file /sys/class/infiniband/mlx5_3/ports/1/"
    for name, machine, more in (
            ("doctor_node0", "dgx_h100", f"host node0\nnow 1763700000.0\n{port}counters/link_downed 0\n"),
            ("doctor_node7", "dgx_h100", f"host node7\nnote nccl.loaded 2.27.3\n{port}state 1: DOWN\n"
                                         f"{port}phys_state 2: Polling\nlimit memlock 65536\n"),
            ("doctor_roce", "roce_a100", "host node8\n"), ("doctor_efa", "efa_p4d", "host node9\n"),
            ("doctor_container", "container", "host node10\n")):
        with open(os.path.join(machines, machine + ".txt"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(folder, "machine.txt"), "w", encoding="utf-8") as file:
            file.write(text + "\n" + more)
        history = "--history history.db" if name in ("doctor_node0", "doctor_node7") else ""
        run(f"$BUILD/busbar doctor --recorded machine.txt -J {name}.json {history}", folder, (0, 7))
    run("$BUILD/busbar doctor --merge doctor_node0.json doctor_node7.json doctor_container.json -J doctor_merged.json",
        folder, (7,))
    run("$BUILD/busbar merge run_stat_1.json run_stat_2.json run_stat_3.json -J merged.json", folder)
    os.remove(os.path.join(folder, "machine.txt"))


def record_hangs(folder):
    """A report of each kind that one job can make, and the flight records of a job that was killed."""
    for name, fault in (("stopped", "rank=3,op=42,kind=stop"), ("lagging", "rank=2,op=42,kind=skip"),
                        ("mismatch", "rank=1,op=42,kind=count")):
        before = set(glob.glob(os.path.join(folder, "hang-*.json")))
        run(f"$MPIRUN -np 4 $BUILD/all_reduce_perf --backend mpi --sizes 64K -n 100 -T 3 --inject {fault}", folder,
            (3, 4, 15, 1))
        for path in set(glob.glob(os.path.join(folder, "hang-*.json"))) - before:
            os.rename(path, os.path.join(folder, f"hang_{name}.json"))
    for path in records():
        os.remove(path)
    run("$MPIRUN -np 4 $BUILD/all_reduce_perf --backend mpi --sizes 64K -n 100 --inject rank=1,op=42,kind=kill; code=$?; "
        "mv hang-*.json hang_killed.json; exit $code", folder, (137,))
    os.makedirs(os.path.join(folder, "flights"), exist_ok=True)
    for path in records():
        shutil.copy(path, os.path.join(folder, "flights"))


def records():
    """The flight records that lie on all hosts."""
    found = []
    for host in range(4):
        with open(f"{RUN}/node{host}/holder", encoding="utf-8") as file:
            root = f"/proc/{file.read().strip()}/root"
        found += glob.glob(f"{root}/dev/shm/busbar.*")
    return found


def record(build, folder):
    """Inside the sandbox."""
    os.environ.update(BUILD=build, MPIRUN=f"{VCLUSTER} mpirun", OMPI_ALLOW_RUN_AS_ROOT="1",
                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", VC_SLOTS="2", OMPI_MCA_rmaps_base_oversubscribe="1")
    run(f"{VCLUSTER} up 4 500mbit", folder)
    os.environ["MPIRUN"] += " --map-by node"
    for part in (record_runs, record_comparisons, record_places, record_acceptances, record_doctors, record_hangs):
        part(folder)


def foreign(record):
    """A flight record of another start of another machine: ages then count from its last beat and not from now."""
    boot, started, check = 16, 40, 584  # offsets in FlightHead (flight_layout.h), the checksum is of all before it
    words = bytearray(record)
    struct.pack_into("<Q", words, boot, 1)
    struct.pack_into("<q", words, started, 1783159200)
    total = 1 + 0x9e3779b97f4a7c15  # seeded with the layout's version
    for at in range(0, check, 8):
        total = (total ^ struct.unpack_from("<Q", words, at)[0]) * 0xbf58476d1ce4e5b9 % 2**64
        total = (total ^ (total >> 27)) * 0x94d049bb133111eb % 2**64
        total ^= total >> 31
    struct.pack_into("<Q", words, check, total)
    return bytes(words)


class Neutral:
    """Takes this machine and this day out of texts."""

    def __init__(self, first, folder):
        self.shift, self.folder = FIRST_MOMENT - first, folder

    def text(self, text):
        text = STAMP.sub(self._moved, text)
        text = re.sub(r"\b(\d{10})(\.\d+)?\b", self._moved_s, text)
        # What a job is started with, paths of this machine among it.
        text = re.sub(r'\["(?:[A-Z]\w*=[^"]*"(?:, ?")?)+\]', '["NCCL_DEBUG=WARN"]', text)
        text = text.replace(self.folder, "/scratch").replace(SOURCE, "/opt/source")
        text = re.sub(r"(?:/[\w.+-]+)*/(busbar|\w+_perf)\b", r"/opt/busbar/\1", text)
        text = re.sub(r"/run/vcluster/\w+", "/scratch", text)
        text = text.replace(os.uname().release, "5.15.0-1058-generic")
        return text

    def _moved(self, match):
        moment = datetime.datetime.fromisoformat(f"{match[1]} {match[3]}")
        if abs((moment + self.shift - FIRST_MOMENT).total_seconds()) > 86400:
            return match[0]
        moment += self.shift
        return f"{moment:%Y-%m-%d}{match[2]}{moment:%H:%M:%S}"

    def _moved_s(self, match):
        moment = datetime.datetime.utcfromtimestamp(int(match[1])) + self.shift
        if abs((moment - FIRST_MOMENT).total_seconds()) > 86400:
            return match[0]
        return str(int((moment - datetime.datetime(1970, 1, 1)).total_seconds())) + (match[2] or "")


def keep(folder, into):
    """What was recorded, made neutral, and the history as SQL."""
    first = min(datetime.datetime.fromisoformat(f"{m[1]} {m[3]}") for path in glob.glob(os.path.join(folder, "run_*.json"))
                for m in STAMP.finditer(open(path, encoding="utf-8").read()))
    neutral = Neutral(first, folder)
    os.makedirs(into)
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        name = os.path.basename(path)
        if name.endswith((".json", ".yaml")) or name == "run_plain.csv":
            with open(path, encoding="utf-8") as file, open(os.path.join(into, name), "w", encoding="utf-8") as out:
                out.write(neutral.text(file.read()))
    os.makedirs(os.path.join(into, "flights"))
    for path in glob.glob(os.path.join(folder, "flights", "*")):
        with open(path, "rb") as file, open(os.path.join(into, "flights", os.path.basename(path)), "wb") as out:
            out.write(foreign(file.read()))
    database = sqlite3.connect(os.path.join(folder, "history.db"))
    pragmas = [f"PRAGMA {name} = {database.execute('PRAGMA ' + name).fetchone()[0]};"
               for name in ("application_id", "user_version")]
    with open(os.path.join(into, "history.sql"), "w", encoding="utf-8") as file:
        file.write("\n".join(pragmas + [neutral.text(line) for line in database.iterdump()]) + "\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--inside":
        record(sys.argv[2], sys.argv[3])
        return 0
    if len(sys.argv) != 3 or os.path.exists(sys.argv[2]):
        print(__doc__ + "\nusage: record_inputs.py BUILD NEW_FOLDER", file=sys.stderr)
        return 2
    folder = os.path.abspath(sys.argv[2]) + ".recording"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    subprocess.run([VCLUSTER, "sandbox", sys.executable, os.path.abspath(__file__), "--inside",
                    os.path.abspath(sys.argv[1]), folder], check=True, env=dict(os.environ, VC_LIMIT="900"))
    keep(folder, os.path.abspath(sys.argv[2]))
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
