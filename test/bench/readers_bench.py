#!/usr/bin/env python3
"""Would show: a reader of logs, results or histories whose time or memory grows faster than what it reads.

`busbar` over made-up input, of each kind half as much and then all of it. Goals: 5 s, and at most 2.6 times the time of
half as much. Seconds of processor time, of the fastest of three runs; memory is the peak resident set.
`readers_bench.py BUILDDIR`."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

COMMUNICATORS = 50_000
ROWS = 100_000
RUNS = 100_000
LIMIT_S = 5
LIMIT_RATIO = 2.6
SUFFIX = os.environ.get("BUSBAR_NAME_SUFFIX", "")


def start(rank, comm, of_rank, nranks, ident):
    """Two lines of NCCL: a rank begins to initialise a communicator, and is through."""
    line = (f"node{rank // 8}:{rank + 1}:1 [{rank % 8}] NCCL INFO ncclCommInitRank comm 0x{comm:x} rank {of_rank} nranks "
            f"{nranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId b000 commId 0x{ident:x} - Init ")
    return line + "START\n", line + "COMPLETE\n"


def call(rank, comm, number, count):
    return (f"node{rank // 8}:{rank + 1}:1 [{rank % 8}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f00 recvbuff "
            f"0x7f00 count {count} datatype 7 op 0 root 0 comm 0x{comm:x} [nranks=4] stream 0x55\n")


def starts(folder, n):
    """A communicator for each process, of which nothing but its beginning is told."""
    file = folder / "starts.log"
    file.write_text("".join(start(i, i + 1, 0, 2, i + 1)[0] for i in range(n)))
    return ["diagnose", file]


def large(folder, n):
    """One communicator of all ranks, in which every second stays behind."""
    file = folder / "large.log"
    lines = [line for i in range(n) for line in start(i, i + 1, i, n, 1)]
    lines += [call(i, i + 1, number, 1024) for i in range(n) for number in range(2 - i % 2)]
    file.write_text("".join(lines))
    return ["diagnose", file]


def small(folder, n, calls, counts):
    """Communicators of four ranks each, of twice as many ranks as communicators: how many calls each of the
    four makes, and of how many elements."""
    file = folder / "small.log"
    with open(file, "w", encoding="ascii") as log:
        for i in range(n):
            members = [((4 * i + k) % (2 * COMMUNICATORS), 4 * i + k + 1, k) for k in range(4)]  # rank, pointer, rank in it
            log.writelines(line for rank, comm, k in members for line in start(rank, comm, k, 4, i + 1))
            log.writelines(call(rank, comm, number, counts[k]) for rank, comm, k in members for number in range(calls[k]))
    return ["diagnose", file]


def late(folder, n):
    return small(folder, n, (2, 2, 1, 2), (1024,) * 4)


def unlike(folder, n):
    return small(folder, n, (1,) * 4, (1024, 1024, 53, 1024))


def one_size_each(folder, n):
    """Communicators whose names are not told, each of another size."""
    file = folder / "nameless.log"
    file.write_text("".join(call(i % 4096, i + 1, 0, 1024).replace("nranks=4", f"nranks={i + 2}") for i in range(n)))
    return ["diagnose", file]


class Model:
    """True runs, whose rows and cells are written again and again."""

    def __init__(self, build, folder):
        self.database = folder / "model.db"
        self.plain = self.run(build, folder / "plain.json", "-n", "5", "--history", self.database)
        self.stat = self.run(build, folder / "stat.json", "--stat", "--epochs", "16", "--placement", "out")

    @staticmethod
    def run(build, file, *words):
        subprocess.run([os.environ.get("BUSBAR_MPIRUN", "mpirun"), "-n", "2", build / f"all_reduce_perf{SUFFIX}",
                        "--backend", "mpi", "-b", "8", "-e", "2K", "-f", "2", "-J", file, *words], check=True,
                       timeout=120, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())

    @staticmethod
    def launches(folder, model, n, files):
        """Results with so many rows in all, each row of a file of another size."""
        rows, names = model["results"], [folder / f"{number}.json" for number in range(files)]
        for name in names:
            head = dict(model, busbar=dict(model["busbar"], launch_uuid=name.stem), results=[])
            before, behind = json.dumps(head).split('"results": []')
            with open(name, "w", encoding="utf-8") as file:
                file.write(before + '"results": [')
                for i in range(n // files):
                    file.write((", " if i else "") + json.dumps(dict(rows[i % len(rows)], size=4 * i + 4, count=i + 1)))
                file.write("]" + behind)
        return names

    def report(self, files):
        return lambda folder, n: ["report", *self.launches(folder, self.plain, n, files), "-o", "-"]

    def merge(self, folder, n):
        return ["merge", *self.launches(folder, self.stat, n, 10)]

    def runs(self, folder, n):
        """A history of so many runs of 18 cells, half an hour apart."""
        file = folder / "h.db"
        file.write_bytes(self.database.read_bytes())
        database = sqlite3.connect(file)
        columns = {table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                   for table in ("runs", "cells")}
        new = {"id": "n", "uuid": "'u' || n", "run": "n", "time": "datetime('now', (30 * (n - 1)) || ' minutes')",
               "median_s": "median_s * (1 + 0.001 * (n * 7919 % 97))"}
        database.execute("CREATE TEMP TABLE numbers AS WITH RECURSIVE c(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c "
                         "WHERE n < ?) SELECT n FROM c", (n,))
        for table, key in (("runs", "id"), ("cells", "run")):
            values = ",".join(new.get(column, column) for column in columns[table])
            database.execute(f"INSERT INTO {table} SELECT {values} FROM numbers, (SELECT * FROM {table} WHERE {key}=1)")
        database.commit()
        database.close()
        return file

    def history(self, *words):
        return lambda folder, n: ["history", *words, "--history", self.runs(folder, n)]


def watch(program, words, out):
    """Runs a command whose peak is its own: that of a large process would be inherited. Prints seconds, MiB."""
    pid = os.posix_spawn(program, [program, *words], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, stream, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for stream in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return os.waitstatus_to_exitcode(status)


def measure(program, words, folder):
    """Seconds and the peak [MiB] of the fastest of three runs."""
    best = (float("inf"), 0)
    for _ in range(3):
        out = folder / "out"
        done = subprocess.run([sys.executable, __file__, "--watch", out, program, *words], stdout=subprocess.PIPE,
                              text=True, check=False, timeout=600)
        if done.returncode not in (0, 4, 6, 8):  # what a verdict may end with
            sys.exit(f"{program} {words} failed ({done.returncode}):\n{out.read_text()[-2000:]}")
        best = min(best, tuple(float(word) for word in done.stdout.split()))
    return best


def main(build):
    # Root and few cores are no reason to refuse a benchmark of the suite itself.
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    program = str(build / f"busbar{SUFFIX}")
    print(f"goals: {LIMIT_S} s, and {LIMIT_RATIO} times the time of half as much\n")
    print("| reader | of | MB | s | times half | MiB | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = Model(build, folder)
        for what, make, n, of in (
                ("diagnose, a beginning each", starts, COMMUNICATORS, "communicators"),
                ("diagnose, a rank is late in each", late, COMMUNICATORS, "communicators"),
                ("diagnose, a rank differs in each", unlike, COMMUNICATORS, "communicators"),
                ("diagnose, all without a name", one_size_each, COMMUNICATORS, "communicators"),
                ("diagnose, half of one are late", large, COMMUNICATORS, "ranks"),
                ("report of one file", model.report(1), ROWS, "rows"),
                ("report of two", model.report(2), ROWS, "rows"),
                ("merge of ten", model.merge, ROWS, "rows"),
                ("history list", model.history("list"), RUNS, "runs"),
                ("history trend", model.history("trend"), RUNS, "runs"),
                ("history compare", model.history("compare", "last"), RUNS, "runs")):
            half, _ = measure(program, make(folder, n // 2), folder)
            words = make(folder, n)
            time_s, mib = measure(program, words, folder)
            ratio = time_s / max(half, 1e-3)
            missed = " missed" if time_s > LIMIT_S or ratio > LIMIT_RATIO else ""
            megabytes = sum(word.stat().st_size for word in words if isinstance(word, pathlib.Path)) / 1e6
            print(f"| {what} | {n} {of} | {megabytes:.0f} | {time_s:.2f} | {ratio:.2f} | {mib:.0f} |{missed} |",
                  flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        sys.exit(watch(sys.argv[3], sys.argv[4:], sys.argv[2]))
    main(pathlib.Path(sys.argv[1]).resolve())
