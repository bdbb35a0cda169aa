"""Catches: results that a full disk did not take, from a command that ends with 0 or with "a bug", or that does not say
last how much it kept; and a run that is refused at its start and leaves empty files."""

import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case  # noqa: E402

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
LOST = 9
PLAN = """schema: 1
stages: [whole]
locate-on-fail: false
defaults: {rel-ci: 20%, cell-time: 0.1, placement: out, criteria: {wrong: 0}}
cells:
  - {name: one, collective: all_reduce, sizes: 8}
  - {name: two, collective: broadcast, sizes: 8}
"""


def perf(*options):
    return [suite.program("all_reduce"), "--backend", "mpi", "-b", "8", "-e", "64", "-f", "2", "-n", "5", *options]


class LostResults(Case):
    def after(self, writes, command, nranks=1):
        """A command whose rank 0 can write to its files so many times."""
        full = ["env", f"BUSBAR_FULL_DISK_AFTER={writes}",
                f"LD_PRELOAD={os.path.join(suite.BUILD, 'test', 'stalled_disk.so')}"]
        launcher = [suite.MPIRUN, "-n", str(nranks)] if nranks > 1 else []
        return suite.execute([*launcher, *full, *command], cwd=self.folder.name)

    def check(self, result, last):
        self.assertEqual(result.code, LOST, str(result))
        self.assertRegex(result.errors()[-1], f"^busbar: {last}$", str(result))

    def test_a_benchmark_counts_what_each_file_holds(self):
        # The first document, the header of CSV, then a line of each file for each of three rows.
        result = self.after(8, perf("-N", "10", "-J", "a.json", "--csv", "a.csv"))
        self.assertEqual(len(result.rows()), 40)
        self.check(result, r"kept 3 of 40 rows in a\.json \(disk full\), 6 of 80 lines in a\.csv \(disk full\)")
        with open(self.path("a.json"), encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["results"]), 3)
        with open(self.path("a.csv"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1 + 6)

    def test_all_rows_without_the_end_are_not_all(self):
        result = self.after(5, perf("-J", "a.json"))
        self.check(result, r"kept 4 rows without the end in a\.json \(disk full\)")

    def test_every_command_ends_alike(self):
        self.check(self.after(0, [os.path.join(suite.BUILD, "comm_perf" + suite.SUFFIX), "-n", "3", "-J", "c.json"]),
                   r"kept 0 of 3 cycles in c\.json \(disk full\)")
        plan = self.write("plan.yaml", PLAN)
        self.check(self.after(2, [BUSBAR, "accept", plan, "-J", "p.json", "--report", "p.html"], 2),
                   r"kept 0 of 2 steps in p\.json \(disk full\), an unfinished state in p\.html \(disk full\)")
        self.check(self.after(1, [BUSBAR, "compare", "all_reduce", "-b", "8", "-e", "8", "--vary", "ompi.algorithm=1,2", "--max-time",
                                  "1", "-J", "v.json"], 2), r"kept 0 of 1 table in v\.json \(disk full\)")
        doctor = self.after(0, [BUSBAR, "doctor", "-J", "d.json"])
        self.assertIn("doctor: ", doctor.out)
        self.check(doctor, r"kept nothing in d\.json \(disk full\)")
        self.assertFalse(os.path.exists(self.path("d.json")))

    def test_a_table_that_stdout_did_not_take_is_lost_too(self):
        frozen = os.path.join(suite.ROOT, "test", "frozen", "recorded")
        for command in (perf(), [BUSBAR, "doctor"], [BUSBAR, "merge", *(f"{frozen}/run_stat_{i}.json" for i in (1, 2))],
                        [BUSBAR, "diagnose", f"{frozen}/hang_stopped.json"]):
            with self.subTest(command=command[:2]), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                                      cwd=self.folder.name, check=False, timeout=suite.LIMIT_S)
                self.assertEqual(done.returncode, LOST, done.stderr)
                self.assertRegex(done.stderr.splitlines()[-1], "stdout")


class RefusedStart(Case):
    def test_no_file_is_left(self):
        plan = self.write("plan.yaml", PLAN)
        nowhere = "none/file"
        for command in (perf("-J", "a.json", "--csv", nowhere), perf("-J", "a.json", "--csv", "a.csv", "--history", nowhere),
                        [os.path.join(suite.BUILD, "comm_perf" + suite.SUFFIX), "-J", "a.json", "--csv", nowhere],
                        [BUSBAR, "accept", plan, "--report", "r.html", "--junit", nowhere],
                        [BUSBAR, "accept", plan, "--report", "r.html", "--csv", "r.csv", "-J", nowhere],
                        [BUSBAR, "compare", "all_reduce", "-b", "8", "-e", "8", "-J", "a.json", "--csv", nowhere]):
            with self.subTest(command=command[-4:]):
                result = suite.execute([suite.MPIRUN, "-n", "1", *command], cwd=self.folder.name)
                self.assertEqual(result.code, 255, str(result))
                self.assertEqual(os.listdir(self.folder.name), ["plan.yaml"], str(result))

    def test_an_empty_command_is_no_command(self):
        for command in (["accept", self.write("plan.yaml", PLAN)], ["compare", "all_reduce"]):
            result = suite.execute([BUSBAR, *command, "--launch", ""])
            self.fails(result, 255, "--launch", "unset")


class Lock(Case):
    def test_the_lock_of_a_removed_file_keeps_nobody_out(self):
        results, lock = self.path("r.json"), self.path("r.json.lock")
        plan = self.write("plan.yaml", PLAN.replace("cell-time: 0.1", "min-time: 3, cell-time: 3"))
        self.write("r.json", "")
        # The run before this one, at its very end: it holds the lock, then removes the file.
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, os, sys\n"
                                   f"file = open({lock!r}, 'w')\n"
                                   "fcntl.flock(file, fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.readline()\n"
                                   f"os.unlink({lock!r})"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.kill)
        holder.stdout.readline()
        inode = os.stat(lock).st_ino
        with holder, subprocess.Popen([BUSBAR, "accept", plan, "--resume", results], cwd=self.folder.name, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE) as waiting:
            end = time.monotonic() + 60
            while not self.has_open(waiting.pid, inode) and waiting.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            holder.communicate("\n")
            has_lock = False
            while waiting.poll() is None:
                has_lock = has_lock or os.path.exists(lock)
                time.sleep(0.01)
            self.assertTrue(has_lock, waiting.stderr.read())

    @staticmethod
    def has_open(pid, inode):
        found = subprocess.run(["find", "-L", f"/proc/{pid}/fd", "-inum", str(inode)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=False).stdout
        return bool(re.search(rb"\d", found))


if __name__ == "__main__":
    suite.main()
