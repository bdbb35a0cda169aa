"""What is made of recorded results: report, merge, history, doctor, acceptances judged again, comparisons."""

import glob
import os
import re
import sqlite3
import sys

import cases as frozen
from cases import Case

sys.path.insert(0, os.path.join(frozen.HERE, "..", "e2e"))
from launch_test import LAUNCHER  # noqa: E402  # pylint: disable=wrong-import-position

# Every kind of file that the judged commands write.
OUTPUTS = "--junit o.xml --csv o.csv --markdown o.md --prometheus o.prom"
# From when the recorded run began to now [s].
DAYS = re.compile(r"\bfor \d+ days\b")
ELAPSED = re.compile(r'(?<=[ ":])\d{7,9}(\.\d+)?(?=["\n,])')
LINKS = {"in": frozen.RECORDED, "doctors": "test/doctor"}


def names_of(pattern="*.json"):
    return [os.path.basename(path)[:-5] for path in sorted(glob.glob(os.path.join(frozen.RECORDED, pattern)))]


def reports():
    pages = {"launched": "accept_launched", "compare": "compare", "wrong_data": "run_wrong_drop run_wrong_overrun",
             "kinds": "run_algo run_alltoallv run_iters merged",
             "one_cluster": "accept_slow locate_slow doctor_container run_plain"}
    paths = {page: " ".join(f"in/{name}.json" for name in names.split()) for page, names in pages.items()}
    return [
        *[Case(f"report_{page}", [f"busbar report {paths[page]} -o r.html"], links=LINKS) for page in pages],
        Case("report_two_runs", ["busbar report in/run_stat_1.json in/run_stat_2.json -o r.html --title 'a <b> & c'"],
             links=LINKS),
        Case("report_names", ["busbar report in/run_plain.json -o - | head -1",
                              "busbar report in/run_plain.json in/run_plain.json --output=two.html; rm two.html",
                              "busbar report in/run_plain.json -o /nonexistent/r.html",
                              "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 busbar report in/run_plain.json"], links=LINKS),
        Case("report_of_others", [f"busbar report in/{name} -o r.html" for name in
                                  ("hang_stopped.json", "fingerprint.json", "run_plain.csv")], links=LINKS),
    ]


def merges():
    stat = "in/run_stat_1.json in/run_stat_2.json"
    return [Case("merge", [
        f"busbar merge {stat} --launch-cost 30s", f"busbar merge {stat} in/run_stat_3.json -J m.json",
        "busbar merge in/run_stat_1.json in/run_stat_1.json", "busbar merge in/run_stat_1.json in/run_plain.json",
        "busbar merge in/run_stat_1.json in/run_stat_other.json", "busbar merge in/run_stat_1.json in/accept_good.json",
        "busbar merge in/run_stat_1.json in/merged.json", "busbar merge in/compare.json in/run_stat_1.json",
        f"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 busbar merge {stat}"], links=LINKS)]


def known_history(scratch):
    """Runs of one cell on consecutive days, whose medians are known: nine alike, then one 20 % slower."""
    path = os.path.join(scratch, "known.db")
    with open(path, "wb") as file:
        file.write(frozen.history_database(scratch))
    database = sqlite3.connect(path)
    columns = [column[1] for column in database.execute("PRAGMA table_info(runs)")]
    cells = [column[1] for column in database.execute("PRAGMA table_info(cells)")]
    first = database.execute("SELECT min(id) FROM runs WHERE title LIKE '%all_reduce%'").fetchone()[0]
    one_cell = f"run = {first} AND nbytes = (SELECT max(nbytes) FROM cells WHERE run = {first}) AND in_place = 0"
    for day, median_us in enumerate([10.0, 10.1, 9.9, 10.1, 9.9, 10.0, 10.02, 9.95, 10.05, 12.0], 1):
        run = 100 + day
        chosen = ", ".join({"id": str(run), "time": f"'2026-08-{day:02} 10:00:00'"}.get(name, name) for name in columns)
        database.execute(f"INSERT INTO runs SELECT {chosen} FROM runs WHERE id = {first}")
        chosen = ", ".join({"run": str(run), "median_s": str(median_us * 1e-6)}.get(name, name) for name in cells)
        database.execute(f"INSERT INTO cells SELECT {chosen} FROM cells WHERE {one_cell}")
    database.commit()
    database.close()
    with open(path, "rb") as file:
        return file.read()


def histories(scratch):
    files = {"h.db": frozen.history_database(scratch), "k.db": known_history(scratch)}

    def history(name, *commands):
        return Case(f"history_{name}", [f"busbar history {command} --history {database}"
                                                 for database, command in commands], files=files)

    every = [("h.db", f"list{options}") for options in (
        "", " --last 3", " --kind perf --last 2 -J list.json")]
    shown = [("h.db", f"show {run}") for run in (1, 3, 7, 10, 12, 13, 16, "2026-01-01", "99", "last-99", "x", "0", "-1")]
    return [
        history("list", *every),
        history("show", *shown, ("h.db", "show last -J a.json")),
        history("trend", *[("h.db", f"trend{words}") for words in (
            " --kind compare", " all_reduce --placement in -b 64K", " alltoall -e 1K", " hypercube", " nonsense")]),
        history("trend_known", ("k.db", "trend all_reduce -b 1M"), ("k.db", "trend all_reduce --last 10 -J t.json")),
        history("compare", *[("h.db", f"compare {words}") for words in (
            "7 9", "1 1", "last", "9 --days 1", "7 8 -J c.json", "7 99", "14 15")]),
        history("compare_known", *[("k.db", f"compare {words}") for words in (
            "109", "110 --delta 50%", "110 --days 2", "last-1 last", "101", "110")]),
        Case("history_ascii", ["busbar history trend all_reduce --history k.db"], files=files,
             env={"LC_ALL": "C"}),
    ]


def doctors():
    nodes = "in/doctor_node0.json in/doctor_node7.json in/doctor_roce.json"
    return [
        Case("doctor_merge", [
            f"busbar doctor --merge {nodes}", f"busbar doctor --merge {nodes} --strict >/dev/null",
            "busbar doctor --merge in/doctor_merged.json | head -3",
            f"busbar doctor --merge {nodes} in/doctor_node0.json | head -3",
            "busbar doctor --merge in/locate_slow.json", "busbar doctor --merge in/doctor_node0.json in/doctor_node0.json",
            "busbar doctor --merge in/doctor_efa.json in/doctor_container.json -J m.json"], links=LINKS),
        Case("doctor_diff", [
            "busbar doctor --merge in/doctor_node0.json --diff in/doctor_node0.json",
            "busbar doctor --merge in/doctor_node0.json in/doctor_node7.json --diff in/doctor_merged.json",
            "busbar doctor --merge in/doctor_node7.json --diff in/doctor_node0.json",
            "busbar doctor --merge in/doctor_container.json --diff in/doctor_roce.json",
            "busbar doctor --recorded m.txt --diff in/doctor_node0.json"],
             files={"m.txt": recorded("dgx_h100", "host node0\nnow 1763703600.0\nkernel 6.8.0\nfile /sys/class/infiniband/"
                                                  "mlx5_3/ports/1/counters/link_downed 2\n")}, links=LINKS),
    ]


def recorded(machine, more):
    with open(os.path.join(frozen.HERE, "..", "doctor", machine + ".txt"), encoding="utf-8") as file:
        return file.read() + "\n" + more


SICK = {
    "memlock": "limit memlock 65536\n", "stack": "limit stack unlimited\n", "shm": "mount /dev/shm 67108864 1000\n",
    "nofile": "limit nofile 1024\n", "port": "file /sys/class/infiniband/mlx5_3/ports/1/state 1: DOWN\n",
    "balancing": "file /proc/sys/kernel/numa_balancing 1\n", "env": "env NCCL_DEBUG=TRACE\nenv NCCL_P2P_DISABLE=1\n",
    "xid": "kmsg NVRM: Xid (PCI:0000:3b:00): 79, pid=1003, GPU has fallen off the bus.\n",
    "oom": "note kernel.now 280.5\n"
           "kmsg [100.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/job_7,"
           "task_memcg=/slurm/job_7/step_0,task=python,pid=4242,uid=1000\n"
           "kmsg [100.5] Memory cgroup out of memory: Killed process 4242 (python) total-vm:23000000kB, "
           "anon-rss:22858752kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:45000kB oom_score_adj:0\n",
    "denied": "denied /dev/infiniband/uverbs0\n", "gone": "gone /sys/class/infiniband/mlx5_3\n",
    "left": "status /dev/shm/nccl-x 1000 9633792 1700000000.0\nstatus /dev/shm/vader_segment.x 1000 9 1700000000.0\n",
    "cpus": "cpus 0\n", "library": "note nccl.loaded 2.27.3\n",
}


def recorded_doctors():
    machines = ("dgx_h100", "roce_a100", "efa_p4d", "container")
    return [
        *[Case(f"doctor_{machine}", [f"busbar doctor --recorded doctors/{machine}.txt{options}"
                                     for options in ("", " -v | head -25")], links=LINKS) for machine in machines],
        Case("doctor_files", [f"busbar doctor --recorded doctors/container.txt -J d.json {OUTPUTS} --history h.db",
                              "busbar history show last --history h.db"], links=LINKS),
        Case("doctor_sick", [f"busbar doctor --recorded {name}.txt" for name in SICK],
             files={f"{name}.txt": recorded("dgx_h100", more) for name, more in SICK.items()}),
    ]


def acceptances():
    """All steps of these are done, so that nothing is measured: the recorded figures are judged."""
    found = []
    for name in names_of("accept_*.json"):
        plan = {"accept_slow": "pairs", "accept_bounds": "bounds", "accept_repeated": "repeated"}.get(name, "plan")
        resume = (f"cp in/{name}.json . && busbar accept in/{plan}.yaml --backend mpi --launch 'false {{ranks}} {{cmd}}' "
                  f"--ranks 4 --resume {name}.json")
        # What is written there is what was read, but for a few fields: one of them is enough.
        more = OUTPUTS if name == "accept_launched" else f"; code=$?; rm {name}.json; exit $code"
        found.append(Case(f"accept_judged_{name[7:]}", [
            f"{resume} {more}",
            f"{resume} --strict --baseline in/accept_wrong.json --baseline-margin 3% >out; code=$?; head -20 out; "
            f"rm out {name}.json; exit $code"],
            links=LINKS, replaced=((ELAPSED, "<elapsed>"), (DAYS, "for <days>"))))
    return found


def comparisons():
    launched = ("busbar compare all_reduce --launch 'python3 launcher.py' --launches 6 --sizes 1K,64K --seed 3 --vary "
                "NCCL_BUFFSIZE=4M,8M")
    fake = {"launcher.py": LAUNCHER}
    env = {"LOG": "log", "TIMES": '{"8388608": 80}'}
    estimate = ((re.compile(r"about [\d.]+ m?s\b|about \d+:\d+"), "about <s>"),)
    return [
        Case("compare_launched", [f"{launched} --emit-env best.sh -J out.json --csv out.csv --history h.db; rm log",
                                  f"{launched} --emit-ompi-rules r", f"{launched} --verify"],
             files=fake, env=env, replaced=estimate),
        Case("compare_launched_failing", [f"FAILS=4194304 {launched}; rm log", f"WRONG=4194304 {launched} -J w.json; rm log",
                                          f"FAILS=default {launched}; rm log"],
             files=fake, env=env, replaced=estimate),
        Case("compare_launched_tuner", [launched.replace("NCCL_BUFFSIZE=4M,8M", "NCCL_MIN_CTAS=8") + " --emit-tuner t.csv; rm log"],
             files=fake, env=dict(env, TIMES='{"default": 200}'), replaced=estimate),
    ]


def cases(scratch):
    return [*reports(), *merges(), *histories(scratch), *doctors(), *acceptances(), *recorded_doctors(), *comparisons()]
