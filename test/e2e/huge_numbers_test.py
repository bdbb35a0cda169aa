"""Catches: memory or time in proportion to a number that was read. `busbar diagnose` took 15 GB for one line of a log
that spoke of 2,000,000,000 ranks: it listed all those that were missing.

Every number of an example of every kind of file is replaced by 2^31 - 1, one after the other, and the command that
reads the file must end as it ends for any bad file, within 512 MB. CI takes every third number of one recorded file of a kind;
`make test-more` takes every number of all of them, and -1 and 2^64 - 1 as well.
"""

import concurrent.futures
import glob
import itertools
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402

sys.path[:0] = [os.path.join(suite.ROOT, "test", folder) for folder in ("frozen", "logs")]
# pylint: disable=wrong-import-position
import cases as frozen  # noqa: E402
import cases_of_logs  # noqa: E402
import log_layouts  # noqa: E402
import verdict_matrix  # noqa: E402

MEMORY = 512 << 20
LIMIT_S = 120  # against a hang; a mutant takes 0.01 s
VALUES = ["2147483647"] + (["-1", "18446744073709551615"] if suite.MORE else [])
# What a command may end with: everything but "internal error" (1), and a signal.
CODES = {0, 2, 3, 4, 5, 6, 7, 8, 255}
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
RECORDED = frozen.RECORDED
NUMBER = re.compile(r"\d+\.\d+|0x[0-9a-f]+|(?<![A-Za-z])[0-9a-f]*\d[0-9a-f]*(?![A-Za-z])|\d+")

RAS_COUNTS = cases_of_logs.RAS + """
Communicators
=============

#0-0 (27e5b8ed6b5a4d0c) MISMATCH
  Communicator ranks have different operation counts
  998 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 5 -- GPU 1 managed by process 1003 on node 10.0.0.2
  Rank 7 -- GPU 3 managed by process 1005 on node 10.0.0.2
"""
STACKS = """[rank1]: Process 1001: python train.py
[rank1]: Thread 1001 (idle): "MainThread"
[rank1]:     all_reduce (torch/distributed/distributed_c10d.py:2806)
Thread 1 (Thread 0x7f83d8e3c440 (LWP 1002) "python"):
#0  0x00007f83d8aed545 in poll (fds=0x7f, nfds=1) at ../sysdeps/unix/sysv/linux/poll.c:29
"""
RAS_JSON = {
    "nccl_version": "2.28.9", "cuda_runtime_version": 13000, "timestamp": "2026-09-01 10:00:00",
    "communicators_count": 1, "communicators": [{
        "hash": "0x27e5b8ed6b5a4d0c", "size": 3, "ranks_count": 2, "missing_ranks_count": 1,
        "ranks": [{"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "cuda_dev": rank, "nvml_dev": rank,
                   "collective_counts": {"AllReduce": 7 + rank, "Broadcast": 1},
                   "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                              "abort_flag": False}} for rank in range(2)],
        "missing_ranks": [{"rank": 2, "host": "10.0.0.2", "pid": 102, "cuda_dev": 2, "nvml_dev": 2,
                           "status": {"unresponsive": True, "considered_dead": True}}]}],
    "ras": {"collective_time_sec": 0.01, "timeouts_count": 0, "collection_time_sec": 5}}
# Of launchers and programs, a line of each shape.
PROGRAM_LINES = """\
srun: error: node1: tasks 4-7: Exited with exit code 1
srun: error: node1: task 3: Killed
slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed.
mpirun noticed that process rank 3 with PID 4242 on node node1 exited on signal 9 (Killed).
[node1:4242] *** Process received signal ***
[rank3]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error, NCCL version 2.21.5
[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 10000 ms
RuntimeError: Rank 0 timed out waiting for ranks 2, 3-5 and 7 in 1800000 ms
torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.
torch.multiprocessing.spawn.ProcessRaisedException: -- Process 1 terminated with the following error:
Root Cause (first observed failure):
  host      : node1
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 4242)
=   RANK 1 PID 24521 RUNNING AT node2
=   KILLED BY SIGNAL: 9 (Killed)
[3/4][Wed Sep  1 10:00:00 2026][rank=3] 12: something failed with exit code 1
kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1003, GPU has fallen off the bus.
kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/job,task=python,pid=4242,uid=0
kernel: Out of memory: Killed process 4242 (python) total-vm:22823000kB, anon-rss:21800000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:43000kB oom_score_adj:0
"""
ONE_LINE = ("n:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId b000 "
            "commId 0x1 - Init START\n")
CONFIG = """schema: 1
minbytes: 8
maxbytes: 64
stepfactor: 2
iters: 5
warmup_iters: 1
"""


def mutants_of_text(text, value, seen):
    """The text with one number replaced, once for every place of a shape of line that is not among those `seen`."""
    start = 0
    for line in text.splitlines(keepends=True):
        # Of a file in a recorded machine its own name and what it holds: there are a thousand of a few kinds.
        shape = NUMBER.sub("#", re.sub(r"^(file|link|folder|gone) \S*/", r"\1 ", line))
        for place, number in enumerate(reversed(list(NUMBER.finditer(line)))):
            # Pointers and commIds are no counts.
            if re.search("[a-fx]", number[0]) or (shape, place) in seen:
                continue
            seen.add((shape, place))
            yield text[:start + number.start()] + value + text[start + number.end():]
        start += len(line)


def places_in(document, path=()):
    """(path, key, parent) of all members and items, depth first."""
    members = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(members):
        yield path, key, document
        if isinstance(value, (dict, list)):
            yield from places_in(value, (*path, key if isinstance(document, dict) else "*"))


def mutants_of_json(text, value, seen):
    """The document with one number, or one within a text, replaced: one of each list, and none of those `seen`."""
    document = json.loads(text)
    for path, key, parent in places_in(document):
        is_item = isinstance(parent, list)
        where = (*path, "*" if is_item else key)
        old = parent[key]
        if where in seen or isinstance(old, (bool, dict, list)) or old is None:
            continue
        seen.add(where)
        changed = [int(value)]
        if isinstance(old, str):
            changed = [old[:n.start()] + value + old[n.end():] for n in NUMBER.finditer(old)]
        for new in changed:
            parent[key] = new
            yield json.dumps(document)
        parent[key] = old


def mutants_of_database(path, value, folder):
    """Databases with one value of one row replaced, for every column."""
    source = sqlite3.connect(path)
    columns = [(table, column[1]) for table in ("runs", "cells")
               for column in source.execute(f"PRAGMA table_info({table})")]
    source.close()
    for number, (table, column) in enumerate(columns):
        copy = os.path.join(folder, f"{number}.db")
        shutil.copyfile(path, copy)
        database = sqlite3.connect(copy)
        # A number of more than 63 bits would be a REAL, and -1 of a key a row without its others.
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT max(rowid) FROM {table})", (int(value) % 2**63,))
        database.commit()
        database.close()
        yield copy


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def ends_well(words, folder):
    """Nothing, or what is wrong with how a command ended."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"does not end: {' '.join(words)}"
    if done.returncode in CODES and b"bad_alloc" not in done.stderr:
        return None
    return f"exit code {done.returncode}: {' '.join(words)}: {done.stderr[-300:].decode(errors='replace')}"


def some(paths, example=""):
    """All files of a kind, or one alone."""
    return sorted(paths) if suite.MORE else [path for path in sorted(paths) if example in path][:1]


class HugeNumbers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # The commands inherit it.
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, limits)

    def try_all(self, texts, suffix, *commands):
        """Each text as a file in a folder of its own, each command over it: "FILE" stands for its name."""
        def run(number_and_text):
            number, text = number_and_text
            folder = os.path.join(self.folder.name, f"{suffix}{number}")
            os.mkdir(folder)
            path = os.path.join(folder, "file" + suffix)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            wrong = [ends_well([word.replace("FILE", path) for word in words], folder) for words in commands]
            wrong = [one for one in wrong if one]
            if not wrong:
                shutil.rmtree(folder)
            return wrong
        wrong, numbered = [], enumerate(texts)
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count())) as pool:
            # `map` takes all that it is given at once, and this process has the commands' limit.
            while some_texts := list(itertools.islice(numbered, 64)):
                wrong += [one for several in pool.map(run, some_texts) for one in several]
        self.assertEqual(wrong[:5], [], f"{len(wrong)} in all")

    def texts(self, examples, mutants=mutants_of_text):
        for value in VALUES:
            seen = set()
            every = itertools.chain.from_iterable(mutants(example, value, seen) for example in examples)
            yield from itertools.islice(every, 0, None, 1 if suite.MORE else 3)

    def test_logs_of_nccl(self):
        jobs = [("init_not_joined", "2.18.3"), ("rank_lagging_torch", "2.28.9"), ("hw_fault_ib", "2.4.8")]
        if suite.MORE:
            jobs = [(name, version) for name in verdict_matrix.PLANTS
                    for version in (verdict_matrix.VERSIONS[0], "2.18.3", verdict_matrix.VERSIONS[-1])
                    if verdict_matrix.can_tell(name, version)]
        examples = [ONE_LINE]
        for number, (name, version) in enumerate(jobs):
            folder = os.path.join(self.folder.name, f"job{number}")
            planted = verdict_matrix.make(name, version, 16, number, stamps=number == 0, tuning=True)
            examples += map(text_of, log_layouts.write(planted, folder, "merged", "mpirun", number))
        self.try_all(self.texts(examples), ".log", [BUSBAR, "diagnose", "FILE"])
        self.try_all(self.texts([ONE_LINE]), ".log1", [BUSBAR, "diagnose", "FILE", "--json"])

    def test_logs_of_launchers_and_programs(self):
        torch = "".join(cases_of_logs.TORCH.format(rank=rank, seq=7 - rank // 3, done=6) for rank in range(4))
        signalled = torch.replace("work: 6", "work: 7, Received a dump signal due to a collective timeout")
        examples = [PROGRAM_LINES, torch, signalled, cases_of_logs.XID, torch + PROGRAM_LINES, STACKS]
        self.try_all(self.texts(examples), ".log", [BUSBAR, "diagnose", "FILE", "--json"])

    def test_answers_of_ras(self):
        self.try_all(self.texts([cases_of_logs.RAS, RAS_COUNTS]), ".txt", [BUSBAR, "diagnose", "FILE"])
        self.try_all(self.texts([json.dumps(RAS_JSON)], mutants_of_json), ".json", [BUSBAR, "diagnose", "FILE"])

    def test_many_lines_of_big_jobs(self):
        """What one number may take is not to be taken once for every line."""
        lines = "".join(ONE_LINE.replace("comm 0x1", f"comm {i:#x}").replace("commId 0x1", f"commId {i:#x}")
                        .replace("nranks 2", f"nranks {value}") for i in range(1, 400) for value in (1000000, 2147483647))
        counts = "".join(RAS_COUNTS.split("#0-0")[1].replace("998", "1000000").join(["#0-0", "\n"])
                         .replace("27e5b8ed6b5a4d0c", f"{i:016x}") for i in range(400))
        self.try_all([lines, RAS_COUNTS + counts], ".log", [BUSBAR, "diagnose", "FILE"], [BUSBAR, "diagnose", "FILE", "--json"])

    def test_recorded_calls(self):
        files = cases_of_logs.records().files
        dumps = [files["late/fr_trace_0.json"], *(files["late/fr_trace_1.json"] for _ in range(suite.MORE))]
        self.try_all(self.texts(dumps, mutants_of_json), ".json", [BUSBAR, "diagnose", "FILE", "--json"])
        self.try_all(self.texts([files["inspector.log"]]), ".log", [BUSBAR, "diagnose", "FILE", "--json"])

    def test_hang_reports(self):
        examples = [text_of(path) for path in some(glob.glob(os.path.join(RECORDED, "hang_*.json")))]
        self.try_all(self.texts(examples, mutants_of_json), ".json", [BUSBAR, "diagnose", "FILE", "--json"])

    def test_flight_records(self):
        [path] = sorted(glob.glob(os.path.join(RECORDED, "flights", "*")))[:1]
        with open(path, "rb") as file:
            whole = file.read()
        name = os.path.basename(path)
        step = 8 if suite.MORE else 64
        for number, at in enumerate(range(0, len(whole), step)):
            folder = os.path.join(self.folder.name, str(number))
            os.mkdir(folder)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(whole[:at] + (2**31 - 1).to_bytes(4, "little") + whole[at + 4:])
            self.assertIsNone(ends_well([BUSBAR, "diagnose", "--flight", folder], folder), f"at {at}")

    def test_results(self):
        for kind in ("run_iters", "run_stat_1", "accept_slow", "locate_slow", "compare.", "doctor_node0", "merged"):
            paths = some(glob.glob(os.path.join(RECORDED, kind.split("_", maxsplit=1)[0] + "*.json"))) if suite.MORE else \
                glob.glob(os.path.join(RECORDED, kind + "*"))
            commands = [[BUSBAR, "report", "FILE", "-o", "r.html"]]
            if kind in ("run_stat_1", "compare."):
                commands.append([BUSBAR, "merge", "FILE", os.path.join(RECORDED, "run_stat_2.json")])
            if kind == "doctor_node0":
                commands.append([BUSBAR, "doctor", "--merge", "FILE", "--diff", "FILE"])
            if kind == "accept_slow":
                commands.append([BUSBAR, "accept", os.path.join(RECORDED, "pairs.yaml"), "--backend", "mpi", "--launch",
                                 "false {ranks} {cmd}", "--ranks", "4", "--resume", "FILE", "--baseline", "FILE",
                                 "--junit", "o.xml", "--markdown", "o.md", "--csv", "o.csv"])
            with self.subTest(kind):
                self.try_all(self.texts([text_of(path) for path in paths], mutants_of_json), f".{kind}.json", *commands)

    def test_histories(self):
        path = os.path.join(self.folder.name, "history.db")
        with open(path, "wb") as file:
            file.write(frozen.history_database(self.folder.name))
        for value in VALUES:
            for copy in mutants_of_database(path, value, self.folder.name):
                for words in (["list"], ["show", "last"], ["trend"], ["compare", "7", "8"]):
                    self.assertIsNone(ends_well([BUSBAR, "history", *words, "--history", copy], self.folder.name))

    def test_recorded_machines(self):
        examples = [text_of(path) for path in some(glob.glob(os.path.join(suite.ROOT, "test", "doctor", "*.txt")), "roce_a100")]
        self.try_all(self.texts(examples), ".txt", [BUSBAR, "doctor", "--recorded", "FILE"])

    def test_plans(self):
        paths = [os.path.join(RECORDED, "bounds.yaml"), os.path.join(suite.ROOT, "configs", "acceptance.yaml")]
        self.try_all(self.texts([text_of(path) for path in some(paths)]), ".yaml",
                     [BUSBAR, "accept", "FILE", "--dry-run", "--backend", "mpi"],
                     [BUSBAR, "accept", "FILE", "--dry-run", "--launch", "false {ranks} {cmd}", "--ranks", "2147483647"])

    def test_configurations(self):
        # MPI's and CUDA's libraries take address space that they never fill: only what can be written is limited here.
        unlimited, limits = resource.getrlimit(resource.RLIMIT_AS)[1], resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_AS, (unlimited, unlimited))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_DATA, limits)
        program = suite.program("all_reduce")
        self.try_all(self.texts([CONFIG]), ".yaml", [program, "--backend", "mpi", "--config", "FILE", "--dry-run"])
        for options in (["-n", "2147483647"], ["-w", "2147483647"], ["-N", "2147483647"], ["--stat", "--epochs", "2147483647"]):
            self.assertIsNone(ends_well([program, "--backend", "mpi", "-b", "8", "-e", "64", *options, "--dry-run"],
                                        self.folder.name))


if __name__ == "__main__":
    suite.main()
