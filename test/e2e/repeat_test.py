"""Catches: `busbar repeat` that counts a launch twice or one of another command, loses launches when it is ended, goes
on after one that failed, or hangs between two; a table that is not that of its JSON."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case  # noqa: E402

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
BENCHMARK = [suite.MPIRUN, "-n", "2", suite.program("all_reduce"), "--backend", "mpi", "-b", "8", "-e", "512", "-f", "8",
             "-n", "5", "-w", "1"]


class Repeat(Case):
    def repeat(self, *options, command=None):
        return suite.execute([BUSBAR, "repeat", *options, "--", *(command or BENCHMARK)], cwd=self.folder.name)

    def test_a_table_and_its_json(self):
        result = self.ok(self.repeat("-n", "3", "-J", self.path("r.json"), command=[*BENCHMARK, "--stat", "--max-time", "1"]))
        self.assertIn("repeat: 3 launches of all_reduce on 2 ranks", result.out)
        rows = result.rows()
        self.assertEqual([row[0] for row in rows], ["8", "8", "64", "64", "512", "512"])
        with open(self.path("r.json"), encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["document"], "repeat")
        self.assertEqual(len({launch["launch_uuid"] for launch in written["launches"]}), 3)
        for row, cell in zip(rows, written["cells"]):
            self.assertEqual(len(cell["launch_medians_s"]), 3)
            self.assertAlmostEqual(float(row[5]), 1e6 * cell["time_s"], delta=0.01)
            self.assertEqual(row[6:9] + row[10:12], ["-"] * 5)  # three launches give no interval
        self.assertEqual(os.listdir(self.folder.name), ["r.json"])

    def test_looks_stop_it(self):
        result = self.ok(self.repeat("-n", "10", "--rel-ci", "49%"))
        self.assertRegex(result.out, r"# after (6|8|10) launches of at most 10: ")
        self.assertIn("3 looks", result.out)

    def test_a_launch_that_fails_ends_it(self):
        self.fails(self.repeat("-n", "3", command=[*BENCHMARK, "-d", "quux"]), 255, "launch 1", "quux")
        self.fails(self.repeat("-n", "3", command=["true"]), 5, "launch 1", "left no results")
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_what_cannot_be_is_refused(self):
        self.fails(suite.execute([BUSBAR, "repeat", "-n", "3"]), 255, "give the command to repeat")
        self.fails(self.repeat("-n", "1"), 255, "--launches", "1")
        self.fails(self.repeat("--spacedd", "1"), 255, "--spaced")
        self.fails(self.repeat("-n", "2", command=[*BENCHMARK, "-J", "mine.json"]), 255, "its own -J")
        self.fails(suite.mpirun(2, [BUSBAR, "repeat", "-n", "2", "--", "true"]), 255, "without mpirun")

    def test_it_goes_on_where_it_was_ended(self):
        kept = self.path("kept")
        command = [BUSBAR, "repeat", "-n", "3", "--keep", kept, "--spaced", "1000s", "--", *BENCHMARK]
        with subprocess.Popen(command, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            limit = time.monotonic() + 60
            while not self.is_ended(os.path.join(kept, "launch001.json")):
                self.assertIsNone(running.poll())
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.02)
            running.send_signal(signal.SIGTERM)
            _, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, -signal.SIGTERM)
        self.assertIn(f"busbar: interrupted (SIGTERM): kept 1 of 3 launches in {kept}; the same command continues\n", err)
        # One more, which is not the first again.
        result = self.ok(self.repeat("-n", "2", "--keep", kept))
        self.assertEqual([line for line in result.errors() if "launch" in line], ["busbar: launch 2 of at most 2"])
        self.assertIn("2 launches of all_reduce", result.out)
        self.fails(self.repeat("-n", "2", "--keep", kept, command=[*BENCHMARK, "-c", "0"]), 255, "another command")

    def is_ended(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)["busbar"]["exit_code"] is not None
        except (FileNotFoundError, ValueError, KeyError):
            return False

    def test_the_name_may_stand_anywhere(self):
        line = " ".join(BENCHMARK) + " -J {json}"
        self.ok(self.repeat("-n", "2", command=["sh", "-c", line]))


if __name__ == "__main__":
    suite.main()
