"""Catches: rows that were shown and are in no file after an end that no destructor sees: SIGKILL of any process,
SIGTERM, Ctrl-C, the watchdog's exit code 4; half a line or half a document; and an interrupt that does not say what is
kept and how to go on. `make test-more` tries each end 200 times."""

import concurrent.futures
import csv
import glob
import json
import os
import shutil
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case, Result  # noqa: E402

KILLS = 200 if suite.MORE else 1
SEED = 20261122
# Rows of half a KB for ever: some files pass the size from which JsonFile keeps two copies, others do not.
MANY = ("-b", "8", "-e", "352", "-i", "8", "-n", "1", "-w", "0", "-N", "0")
# All rows come at the end, with one verification each.
STAT = ("-b", "8", "-e", "8K", "-i", "256", "--stat", "--max-time", "1")
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)

# The last stage takes longer than ending the ranks does, a second: they measure until they are ended.
PLAN = """schema: 1
stages: [per-host, whole]
locate-on-fail: false
defaults: {rel-ci: 20%, min-time: 1, cell-time: 1, placement: out, criteria: {wrong: 0}}
cells:
  - {name: one, collective: all_reduce, sizes: 8, stages: per-host}
  - {name: two, collective: broadcast, sizes: 8, stages: whole, min-time: 4, cell-time: 4}
  - {name: three, collective: all_gather, sizes: 8, stages: whole, min-time: 4, cell-time: 4}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def lines_of(path):
    """Of a CSV file, all of the same length. A SIGKILL may leave the beginning of one more, up to a page's end."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if len(text.encode()) % 4096 == 0:
        text = text[:text.rfind("\n") + 1]
    lines = list(csv.reader(text.splitlines()))
    assert text.endswith("\n") and {len(line) for line in lines} == {len(lines[0])}, f"{path}: {text[-1000:]}"
    return lines


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def is_filled(path):
    return os.path.exists(path) and os.path.getsize(path) > 0


def wait_for(what):
    limit = time.monotonic() + 60
    while not what():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)


def wait_for_ranks(result):
    """Those whose launcher was killed end by themselves, and write until then. Their pids."""
    pids = [int(pid) for pid in re.findall(r"^#  Rank .* Pid +(\d+) on", result.out, re.MULTILINE)]
    assert pids, str(result)
    wait_for(lambda: all(is_gone(pid) for pid in pids))
    return pids


def flight_records():
    """Path and inode of all that lie there."""
    found = set()
    for folder in ("/dev/shm", tempfile.gettempdir()):
        for path in glob.glob(f"{folder}/busbar.{os.getuid()}.*"):
            try:
                found.add((path, os.stat(path).st_ino))
            except FileNotFoundError:  # another test's
                pass
    return found


def flight_records_of(pids, older):
    """What `busbar diagnose --flight` would find of them. Their pid is in the record's head (flight_layout.h); `older`
    ones may be of processes that had the same."""
    found = []
    for path, _ in flight_records() - older:
        try:
            with open(path, "rb") as file:
                head = file.read(32)
        except FileNotFoundError:
            continue
        if len(head) == 32 and struct.unpack_from("=q", head, 24)[0] in pids:
            found.append(path)
    return found


class Ended:
    """A run that somebody ends, and its files."""

    def __init__(self, folder, name, options, nranks):
        self.folder = folder
        self.json, self.csv, self.samples, self.stderr = (os.path.join(folder, f"{name}.{kind}")
                                                          for kind in ("json", "csv", "samples", "err"))
        self.command = [suite.program("all_reduce"), "--backend", "mpi", *options, "-J", self.json, "--csv", self.csv]
        if "--stat" in options:
            self.command += ["--samples", self.samples]
        if nranks > 1:
            # Not through the launcher: when it is ended it now and then drops what it has not read yet.
            self.command = [suite.MPIRUN, "-n", str(nranks), "sh", "-c", 'exec "$@" 2>>"$0"', self.stderr, *self.command]

    def after(self, nrows, kill):
        """Ends it by kill(self, pid) while rows come, after `nrows` of them were read."""
        with open(self.stderr, "a+", encoding="utf-8") as err, \
                subprocess.Popen(self.command, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=err, start_new_session=True) as running:
            limit = threading.Timer(suite.LIMIT_S, os.killpg, (running.pid, signal.SIGKILL))
            limit.start()
            out = []
            try:
                for line in running.stdout:
                    out.append(line)
                    if line.strip()[:1].isdigit():
                        nrows -= 1
                        if nrows == 0:
                            kill(self, running.pid)
                code = running.wait()
            finally:
                limit.cancel()
            err.seek(0)
            return Result(code, "".join(out), err.read())

    def kill_rank(self, rank):
        os.kill(read(self.json)["config"]["devices"][rank]["pid"], signal.SIGKILL)


class AbnormalEnd(Case):
    def run_of(self, name, options, nranks):
        return Ended(self.folder.name, name, options, nranks)

    def check_files(self, run, result, may_finish=False):
        """Every row of the table is in every file, and the files are whole."""
        shown = [row for row in result.rows() if len(row) >= 13]  # the pipe may have been cut in the last one
        document = read(run.json)
        told = document["results"]
        self.assertGreaterEqual(len(told), len(shown), str(result)[-2000:])
        for row, entry in zip(shown, told):
            self.assertEqual((int(row[0]), int(row[1])), (entry["size"], entry["count"]))
            self.assertAlmostEqual(float(row[5]), entry["out_of_place"]["time"], delta=0.01 * float(row[5]) + 0.01)
        if not may_finish or document["busbar"]["exit_code"] is None:
            self.assertIsNone(document["busbar"]["exit_code"])
            self.assertTrue(document["errors"][0].startswith("unfinished"), document["errors"])
        lines = lines_of(run.csv)
        self.assertGreaterEqual(len(lines) - 1, 2 * len(shown))
        for row, line in zip(shown, lines[1::2]):
            self.assertEqual((row[0], row[1]), (line[4], line[5]))
        return shown

    def check_samples(self, run, shown):
        sampled = {(line[4], line[5]) for line in lines_of(run.samples)[1:]}
        for row in shown:
            for placement in ("out", "in"):
                self.assertIn((row[0], placement), sampled)

    def check_words(self, run, result, name):
        """One line of one process, which counts what was shown and perhaps one more."""
        said = [line for line in result.errors() if "interrupted" in line]
        self.assertEqual(len(said), 1, str(result)[-3000:])
        kept = re.fullmatch(rf"busbar: interrupted \({name}\): kept (\d+) rows? in {run.json}, {run.csv}", said[0])
        self.assertTrue(kept, said)
        rows = len([row for row in result.rows() if len(row) >= 13])
        self.assertGreaterEqual(int(kept[1]), rows)
        self.assertLessEqual(int(kept[1]), len(read(run.json)["results"]))

    def ways(self):
        """How a run ends: name, number of ranks, what ends it, and the signal that rank 0 then gets and names. mpirun
        makes SIGTERM of Ctrl-C, which reaches it alone: its ranks are in groups of their own."""
        yield "SIGKILL alone", 1, lambda _, pid: os.kill(pid, signal.SIGKILL), None
        yield "SIGTERM alone", 1, lambda _, pid: os.kill(pid, signal.SIGTERM), "SIGTERM"
        yield "Ctrl-C alone", 1, lambda _, pid: os.killpg(pid, signal.SIGINT), "SIGINT"
        yield "SIGKILL of rank 0", 2, lambda run, _: run.kill_rank(0), None
        yield "SIGKILL of rank 1", 2, lambda run, _: run.kill_rank(1), None
        yield "SIGKILL of mpirun", 2, lambda _, pid: os.kill(pid, signal.SIGKILL), None
        yield "SIGTERM of mpirun", 2, lambda _, pid: os.kill(pid, signal.SIGTERM), "SIGTERM"
        yield "Ctrl-C", 2, lambda _, pid: os.killpg(pid, signal.SIGINT), "SIGTERM"

    def test_no_end_loses_a_row_that_was_shown(self):
        chance = random.Random(SEED)

        def end(case):
            way, nranks, kill, _, number, nrows = case
            older = flight_records()
            run = self.run_of(f"{way}{number}", MANY, nranks)
            result = run.after(nrows, kill)
            return run, result, wait_for_ranks(result), older

        cases = [(*way, number, chance.choice((1, chance.randrange(2, 50), chance.randrange(50, 1000))))
                 for way in self.ways() for number in range(KILLS)]
        # Most of the time a launcher starts or waits.
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for case, (run, result, pids, older) in zip(cases, pool.map(end, cases)):
                way, _, _, named, number, nrows = case
                with self.subTest(way, number=number, nrows=nrows):
                    self.assertNotEqual(result.code, 0, str(result)[-2000:])
                    self.assertTrue(self.check_files(run, result), str(result)[-2000:])
                    if named:
                        self.check_words(run, result, named)
                        self.assertEqual(flight_records_of(pids, older), [], str(result)[-2000:])

    def test_samples_are_there_for_each_row_that_was_shown(self):
        # One alone and one of the launcher's: the files are written alike however it ends.
        for way, nranks, kill, _ in [way for way in self.ways() if suite.MORE or way[0] in ("SIGKILL alone", "Ctrl-C")]:
            with self.subTest(way):
                run = self.run_of(way, STAT, nranks)
                result = run.after(1, kill)
                wait_for_ranks(result)
                # A rank whose launcher was killed may come to its end first.
                self.check_samples(run, self.check_files(run, result, may_finish=True))

    def test_the_watchdog_s_exit_loses_none(self):
        # A row is two timed and two checked operations: some files stay small, others do not.
        chance = random.Random(SEED)
        for number in range(KILLS):
            op = chance.choice((40, 4000, chance.randrange(4, 4000)))
            with self.subTest(op=op):
                run = self.run_of(f"hang{number}", MANY, 2)
                result = suite.execute(run.command + ["-c", "1", "--inject", f"rank=1,op={op},kind=skip", "-T", "1"],
                                       cwd=self.folder.name)
                self.assertIn(result.code, suite.HANG_CODES, str(result)[-3000:])
                self.assertGreaterEqual(len(self.check_files(run, result)), op // 4 - 1)

    def test_two_alone_that_one_shell_started_are_two_jobs(self):
        older = flight_records()

        def end_neighbour(_, pid):
            try:
                first = self.run_of("first", MANY, 1)
                self.check_words(first, first.after(1, lambda _, pid: os.kill(pid, signal.SIGTERM)), "SIGTERM")
                self.assertEqual(len(flight_records_of([pid], older)), 1)
            finally:
                os.kill(pid, signal.SIGKILL)

        self.run_of("neighbour", MANY, 1).after(1, end_neighbour)

    def test_what_no_run_will_write_again_goes_with_the_next(self):
        run = self.run_of("left", MANY, 1)
        run.after(999, lambda _, pid: os.kill(pid, signal.SIGKILL))
        left = run.json + ".tmp"
        with open(left, "a", encoding="utf-8"):
            os.utime(left, (0, 0))  # however young it is
        self.ok(suite.execute(self.run_of("left", ("-b", "8", "-e", "8"), 1).command, cwd=self.folder.name))
        self.assertFalse(os.path.exists(left))
        self.assertEqual(len(read(run.json + ".0")["results"]), 1)


class StalledDisk(Case):
    def shown(self):
        with open(self.path("out"), encoding="utf-8") as file:
            return [line.split() for line in file.read().split("\n")[:-1] if line.strip()[:1].isdigit()]

    def said(self):
        with open(self.path("err"), encoding="utf-8") as file:
            return file.read()

    def test_a_hang_s_report_says_that_its_file_waits_before_the_launcher_falls_silent(self):
        # Of the ranks alone.
        stalled = ["env", f"BUSBAR_STALLED_DISK={self.write('stall', '')}",
                   f"LD_PRELOAD={os.path.join(suite.BUILD, 'test', 'stalled_disk.so')}"]
        result = suite.execute([suite.MPIRUN, "-n", "2", *stalled, suite.program("all_reduce"), "--backend", "mpi", *MANY,
                                "-c", "1", "--inject", "rank=1,op=40,kind=skip", "-T", "1"], cwd=self.folder.name)
        self.assertIn(result.code, suite.HANG_CODES, str(result)[-3000:])
        waits = [line for line in result.errors() if "is not written yet: its file system does not answer" in line]
        self.assertEqual(len(waits), 1, str(result)[-3000:])

    def test_a_history_that_does_not_answer_keeps_no_report_from_being_written(self):
        # A second after SIGTERM mpirun kills its ranks. Next to the program is a busbar that ends by SIGKILL alone.
        folder = self.path("programs")
        os.mkdir(folder)
        program = shutil.copy(suite.program("all_reduce"), folder)
        shutil.copy(os.path.join(suite.BUILD, "libbusbar_mpi.so"), folder)
        busbar = os.path.join(folder, os.path.basename(BUSBAR))
        with open(busbar, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ntrap '' TERM\n: >{self.path('started')}\nwhile [ -e \"$0\" ]; do sleep 1; done\n")
        os.chmod(busbar, 0o755)
        command = [suite.MPIRUN, "-n", "2", program, "--backend", "mpi", "-b", "8", "-e", "8", "--history", self.path("h.db")]
        with open(self.path("err"), "w", encoding="utf-8") as err, \
                subprocess.Popen(command, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                 start_new_session=True) as running:
            wait_for(lambda: running.poll() is not None or os.path.exists(self.path("started")))
            os.killpg(running.pid, signal.SIGTERM)
            running.wait(60)
        self.assertRegex(self.said(), "busbar: (terminated|interrupted)")

    def test_rows_follow_when_the_file_system_answers_again_and_nobody_is_ended_for_it(self):
        results, table, stall = self.path("r.json"), self.path("r.csv"), self.path("stall")
        command = [suite.MPIRUN, "-n", "2", suite.program("all_reduce"), "--backend", "mpi", *MANY, "-T", "1", "-J", results,
                   "--csv", table]
        environment = dict(os.environ, BUSBAR_STALLED_DISK=stall,
                           LD_PRELOAD=os.path.join(suite.BUILD, "test", "stalled_disk.so"))
        with open(self.path("out"), "w", encoding="utf-8") as out, open(self.path("err"), "w", encoding="utf-8") as err, \
                subprocess.Popen(command, cwd=self.folder.name, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err, start_new_session=True) as running:
            wait_for(lambda: running.poll() is not None or len(self.shown()) > 20)
            self.write("stall", "")
            # At the limit of the others' step; its own is one of minutes.
            wait_for(lambda: running.poll() is not None or "has been writing results for" in self.said())
            before = len(self.shown())
            os.remove(stall)
            wait_for(lambda: running.poll() is not None or len(self.shown()) > before + 20)
            self.assertIsNone(running.poll(), self.said())
            os.killpg(running.pid, signal.SIGTERM)
            running.wait(60)
        self.assertNotIn("hang:", self.said())
        rows = self.shown()
        self.assertGreaterEqual(len(read(results)["results"]), len(rows))
        self.assertGreaterEqual(len(lines_of(table)) - 1, 2 * len(rows))


# So that much is left to do when the first table is there.
ALL_WITH_ALGORITHMS = "all_reduce,broadcast,alltoall,all_gather,reduce_scatter,reduce,gather,scatter"


class OfEveryCommand(Case):
    """One line says what is kept, and how to go on."""

    # mpirun makes the same of both.
    SIGNALS = (("TERM", signal.SIGTERM), ("INT", signal.SIGINT))[:2 if suite.MORE else 1]

    def interrupt(self, command, when, number, program=BUSBAR, nranks=2):
        with open(self.path("out"), "w+", encoding="utf-8") as out, open(self.path("err"), "w+", encoding="utf-8") as err, \
                subprocess.Popen([suite.MPIRUN, "-n", str(nranks), program, *command], cwd=self.folder.name, text=True,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True) as running:
            wait_for(lambda: running.poll() is not None or when())
            os.killpg(running.pid, number)
            code = running.wait(60)
            out.seek(0)
            err.seek(0)
            result = Result(code, out.read(), err.read())
        self.assertNotEqual(code, 0, str(result))
        said = [line for line in result.errors() if "interrupted" in line or "terminated" in line]
        self.assertEqual(len(said), 1, str(result))
        return said[0]

    def test_compare_keeps_the_tables_that_it_showed(self):
        for name, number in self.SIGNALS:
            with self.subTest(name):
                results, table = self.path(f"{name}.json"), self.path(f"{name}.csv")
                said = self.interrupt(
                    ["compare", ALL_WITH_ALGORITHMS, "--backend", "mpi", "-b", "1K", "-e", "64K", "-f", "2",
                     "--vary", "ompi.algorithm=1", "--cell-time", "1", "-J", results, "--csv", table],
                    lambda: is_filled(results) and read(results)["comparisons"], number)
                kept = len(read(results)["comparisons"])
                self.assertIn(said, [f"busbar: interrupted (SIGTERM): kept {n} table{'s' * (n > 1)} in {results}, "
                                     f"{table}; start again for the others" for n in (kept, kept - 1)])
                self.assertGreater(len(lines_of(table)), 1)

    def test_locate_says_that_nothing_is_kept(self):
        for name, number in self.SIGNALS:
            with self.subTest(name):
                results = self.path(f"{name}.json")
                said = self.interrupt(["locate", "--backend", "mpi", "--unit", "rank", "--soak", "60", "-b", "8",
                                       "-J", results], lambda: is_filled(results), number, nranks=4)
                self.assertEqual(said, "busbar: interrupted (SIGTERM): nothing was kept; start again")
                self.assertIsNone(read(results)["exit_code"])

    def test_accept_keeps_its_steps(self):
        for name, number in self.SIGNALS:
            with self.subTest(name):
                results, page, tests = (self.path(f"{name}.{end}") for end in ("json", "html", "xml"))
                command = ["accept", self.write("plan.yaml", PLAN), "--backend", "mpi"]

                def has(path, words):
                    with open(path, encoding="utf-8") as file:
                        return words in file.read()

                # The files for people hold a step as soon as the one that --resume reads.
                said = self.interrupt([*command, "-J", results, "--report", page, "--junit", tests],
                                      lambda: is_filled(results) and read(results)["done"] and has(tests, "one completed"),
                                      number)
                self.assertEqual(len(read(results)["done"]), 1)
                # The line tells the last write or, where one came meanwhile, that before.
                self.assertIn(said, [f"busbar: interrupted (SIGTERM): kept {n} of 3 steps in {results}; "
                                     f"--resume {results} continues" for n in (0, 1)])
                for path, words in ((page, "</html>"), (page, "the run did not end"), (page, "1 row measured"),
                                    (tests, "</testsuites>"), (tests, "the run continues, or ended before its verdict")):
                    self.assertTrue(has(path, words), (path, words))
                result = suite.execute([suite.MPIRUN, "-n", "2", BUSBAR, *command, "--resume", results],
                                       cwd=self.folder.name)
                self.assertIn(result.code, (0, 8), str(result))
                self.assertEqual(len(read(results)["done"]), 3)

    def test_a_benchmark_without_files_says_so(self):
        for name, number in self.SIGNALS:
            with self.subTest(name):
                said = self.interrupt(["--backend", "mpi", *MANY], lambda: os.path.getsize(self.path("out")) > 4000, number,
                                      suite.program("all_reduce"))
                self.assertRegex(said, r"^busbar: interrupted \(SIGTERM\): \d+ rows? shown, none kept: -J FILE")


if __name__ == "__main__":
    suite.main()
