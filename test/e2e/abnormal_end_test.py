"""Catches: rows that were shown and are in no file after an end that no destructor sees: SIGKILL, SIGTERM, Ctrl-C, the
watchdog's exit code 4. -J held back up to a second of rows, and --samples up to 1 MiB."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case, Result  # noqa: E402

ROUNDS = 10
SEED = 20261122
# Rows of half a KB for ever: some files pass the size from which JsonFile keeps two copies, others do not.
MANY = ("-b", "8", "-e", "352", "-i", "8", "-n", "1", "-w", "0", "-N", "0")
# All rows come at the end, with one verification each.
STAT = ("-b", "8", "-e", "16K", "-i", "64", "--stat", "--max-time", "3")


class AbnormalEnd(Case):
    def command(self, name, options, nranks):
        self.json, self.csv, self.samples = (self.path(f"{name}.{kind}") for kind in ("json", "csv", "samples"))
        words = [suite.program("all_reduce"), "--backend", "mpi", *options, "-J", self.json, "--csv", self.csv]
        if "--stat" in options:
            words += ["--samples", self.samples]
        return [suite.MPIRUN, "-n", str(nranks), *words] if nranks > 1 else words

    def end_after(self, nrows, kill, command):
        """Ends a run by `kill` while rows come, after `nrows` of them were read."""
        with open(self.path("stderr"), "w+", encoding="utf-8") as err, \
                subprocess.Popen(command, cwd=self.folder.name, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=err, start_new_session=True) as running:
            limit = threading.Timer(suite.LIMIT_S, os.killpg, (running.pid, signal.SIGKILL))
            limit.start()
            out = []
            for line in running.stdout:
                out.append(line)
                if line.strip()[:1].isdigit():
                    nrows -= 1
                    if nrows == 0:
                        kill(running.pid)
            code = running.wait()
            limit.cancel()
            err.seek(0)
            return Result(code, "".join(out), err.read())

    def check_files(self, result):
        """Every row of the table is in every file, and the files are whole."""
        shown = [row for row in result.rows() if len(row) >= 13]  # the pipe may have been cut in the last one
        self.assertTrue(shown, str(result))
        with open(self.json, encoding="utf-8") as file:
            document = json.load(file)
        told = document["results"]
        self.assertGreaterEqual(len(told), len(shown), str(result)[-2000:])
        for row, entry in zip(shown, told):
            self.assertEqual((int(row[0]), int(row[1])), (entry["size"], entry["count"]))
            self.assertAlmostEqual(float(row[5]), entry["out_of_place"]["time"], delta=0.01 * float(row[5]) + 0.01)
        self.assertTrue(document["errors"][0].startswith("unfinished"), document["errors"])
        self.assertIsNone(document["busbar"]["exit_code"])
        with open(self.csv, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})
        self.assertGreaterEqual(len(lines) - 1, 2 * len(shown))
        for row, line in zip(shown, lines[1::2]):
            self.assertEqual((row[0], row[1]), (line[4], line[5]))
        return shown

    def check_samples(self, shown):
        with open(self.samples, encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})
        sampled = {(line[4], line[5]) for line in lines[1:]}
        for row in shown:
            for placement in ("out", "in"):
                self.assertIn((row[0], placement), sampled)

    def pid_of_rank_0(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)["config"]["devices"][0]["pid"]

    def ways(self):
        """How a run ends, with the number of ranks and what ends it; alone, a rank starts sooner. mpirun passes SIGINT
        and SIGTERM on."""
        for name, number in (("SIGKILL", signal.SIGKILL), ("SIGTERM", signal.SIGTERM), ("Ctrl-C", signal.SIGINT)):
            yield name, 1, lambda pid, number=number: os.kill(pid, number)
            if number != signal.SIGKILL:
                yield name + " to mpirun", 2, lambda pid, number=number: os.kill(pid, number)
        yield "SIGKILL of rank 0", 2, lambda pid: os.kill(self.pid_of_rank_0(), signal.SIGKILL)

    def test_no_end_loses_a_row_that_was_shown(self):
        chance = random.Random(SEED)
        for way, nranks, kill in self.ways():
            for number in range(ROUNDS if nranks == 1 else 2):
                nrows = chance.choice((1, chance.randrange(2, 50), chance.randrange(50, 1000)))
                with self.subTest(way, number=number, nrows=nrows):
                    result = self.end_after(nrows, kill, self.command(f"{way}{number}", MANY, nranks))
                    self.assertNotEqual(result.code, 0, str(result)[-2000:])
                    self.check_files(result)

    def test_samples_are_there_for_each_row_that_was_shown(self):
        for way, nranks, kill in self.ways():
            with self.subTest(way):
                result = self.end_after(1, kill, self.command(way, STAT, nranks))
                self.check_samples(self.check_files(result))

    def test_the_watchdog_s_exit_loses_none(self):
        # A row is two timed and two checked operations: with 40 of them the file is small, with 4000 large.
        for op in (40, 4000):
            with self.subTest(op=op):
                command = self.command(f"hang{op}", MANY, 2)
                result = suite.execute(command + ["-c", "1", "--inject", f"rank=1,op={op},kind=skip", "-T", "6"],
                                       cwd=self.folder.name)
                self.assertEqual(result.code, 4, str(result)[-3000:])
                self.assertGreaterEqual(len(self.check_files(result)), op // 4 - 1)


if __name__ == "__main__":
    suite.main()
