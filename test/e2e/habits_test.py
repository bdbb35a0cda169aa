"""Catches: what engineers type by habit and get nothing for: `busbar help CMD`, `-J -` into jq, `repeat` without `--`, a
run that skipped everything and passed, colors in a pipe or none on a terminal, a report of what busbar itself wrote."""

import json
import os
import pty
import re
import select
import subprocess

import suite
from suite import MPIRUN, execute, mpirun, perf, program

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
SMALL = ("--backend", "mpi", "-b", "8", "-e", "16", "-f", "2", "-n", "2")
COLOR = "\x1b["


def on_terminal(command, **settings):
    """All that a terminal shows of the command, and its exit code."""
    master, slave = pty.openpty()
    env = dict(os.environ, **{"TERM": "xterm", **settings})
    env.pop("NO_COLOR", None) if "NO_COLOR" not in settings else None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=env,
                          cwd=suite.SCRATCH.name) as child:
        os.close(slave)
        shown = b""
        while select.select([master], [], [], suite.LIMIT_S)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the other end is closed
                break
    os.close(master)
    return shown.decode(), child.returncode


class Help(suite.Case):
    def test_help_of_a_subcommand_in_both_orders(self):
        for name in re.findall(r"^  (\w+) {2,}\S", self.ok(execute([BUSBAR, "help"])).out, re.MULTILINE):
            self.assertEqual(self.ok(execute([BUSBAR, "help", name])).out, execute([BUSBAR, name, "--help"]).out)
        self.fails(execute([BUSBAR, "help", "acept"]), 255, "did you mean accept?")
        for word in ("-V", "version", "--version"):
            self.assertRegex(self.ok(execute([BUSBAR, word])).out, r"^busbar \d")

    def test_no_line_is_wider_than_usage_needs(self):
        for name in re.findall(r"^  (\w+) {2,}\S", execute([BUSBAR, "help"]).out, re.MULTILINE):
            text = execute([BUSBAR, "help", name], {"COLUMNS": "100"}).out
            wide = [line for line in text.split("\n") if len(line) > 100 and "busbar " not in line]
            self.assertEqual(wide, [], name)


class JsonOnStdout(suite.Case):
    def document(self, result, *words, code=0):
        self.assertEqual(result.code, code, str(result))
        for word in words:
            self.assertIn(word, result.err)
        return json.loads(result.out)

    def test_of_a_benchmark_and_what_reads_it(self):
        for option in (["-J", "-"], ["--json"]):
            result = perf("all_reduce", 2, *SMALL, *option)
            self.assertEqual(len(self.document(result, "# Out of bounds values", "float")["results"]), 2)
        run = self.write("run.json", result.out)
        second = self.write("run2.json", perf("all_reduce", 2, *SMALL, "--stat", "--max-time", "0.5", "--json").out)
        self.ok(execute([BUSBAR, "report", run, second, "-o", self.path("r.html")]))
        lives = mpirun(2, [program("comm"), "--backend", "mpi", "-n", "2", "--json"])
        self.assertEqual(self.document(lives, "create")["document"], "communicators")

    def test_of_subcommands(self):
        doctor = execute([BUSBAR, "doctor", "--local", "--json"])
        self.assertEqual(json.loads(doctor.out)["document"], "doctor")
        self.assertIn("doctor: ", doctor.err)
        db = self.path("h.db")
        self.ok(perf("all_reduce", 2, *SMALL, "--history", db))
        for words in (["list"], ["show", "last"], ["trend"]):
            result = execute([BUSBAR, "history", *words, "--history", db, "-J", "-"])
            file = self.write(words[0] + ".json", json.dumps(self.document(result, "all_reduce")))
            self.ok(execute([BUSBAR, "report", file, "-o", self.path(words[0] + ".html")]))
        result = mpirun(2, [BUSBAR, "locate", "--backend", "mpi", "--json"])
        self.assertEqual(json.loads(result.out)["document"], "locate")
        log = self.write("a.log", "a:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n")
        printed = execute([BUSBAR, "diagnose", log, "-J", "-"])
        self.assertEqual(json.loads(printed.out)["document"], "diagnosis")
        execute([BUSBAR, "diagnose", log, "-J", self.path("d.json")])
        with open(self.path("d.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["document"], "diagnosis")

    def test_accept_keeps_its_results_too(self):
        plan = self.write("plan.yaml", "schema: 1\nstages: [whole]\ndefaults: {rel-ci: 50%, cell-time: 0.2}\n"
                                       "cells:\n  - {name: one, collective: all_reduce, sizes: 8}\n")
        result = mpirun(2, [BUSBAR, "accept", plan, "--backend", "mpi", "-J", "-"], cwd=self.folder.name)
        document = json.loads(result.out)
        self.assertEqual(document["document"], "accept")
        self.assertIn(document["outcome"], result.err)
        self.assertTrue(os.path.exists(self.path("busbar-accept.json")))

    def test_a_full_stdout_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([BUSBAR, "doctor", "--local", "--json"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertIn("nothing in stdout (disk full)", done.stderr)


class Commands(suite.Case):
    def test_repeat_needs_no_dashes(self):
        command = [MPIRUN, "-n", "2", program("all_reduce"), *SMALL]
        for dashes in ([], ["--"]):
            result = self.ok(execute([BUSBAR, "repeat", "-n", "2", "--json", *dashes, *command]))
            self.assertEqual(len(json.loads(result.out)["launches"]), 2)
        self.ok(execute([BUSBAR, "report", self.write("r.json", result.out), "-o", self.path("r.html")]))
        self.fails(execute([BUSBAR, "repeat", *command, "-J", "x.json"]), 255, "its own -J")
        self.fails(execute([BUSBAR, "repeat"]), 255, "give the command to repeat")

    def test_what_is_skipped_fails_if_that_is_asked_for(self):
        self.ok(perf("all_reduce", 2, *SMALL, "-o", "avg"))
        self.assertEqual(perf("all_reduce", 2, *SMALL, "-o", "avg", "--fail-on-skip").code, 8)
        self.assertEqual(perf("all_reduce", 2, *SMALL, "-o", "sum,avg", "--fail-on-skip").code, 8)
        self.ok(perf("all_reduce", 2, *SMALL, "--fail-on-skip"))

    def test_a_missed_bandwidth_is_said_where_errors_are(self):
        result = perf("all_reduce", 2, *SMALL, env={"NCCL_TESTS_MIN_BW": "1e6"})
        self.assertEqual(result.code, 7)
        self.assertIn("below nine tenths of NCCL_TESTS_MIN_BW, 1e+06 GB/s", result.err)

    def test_history_offers_what_its_help_has(self):
        self.fails(execute([BUSBAR, "history", "x"]), 255, "choose from: list show trend compare")

    def test_jobs_with_flight_records_are_listed(self):
        marker = self.path("marker.csv")
        words = [program("all_reduce"), *SMALL, "--inject", "rank=1,op=4,kind=kill", "--csv", marker]
        self.assertNotEqual(mpirun(2, words).code, 0)
        jobid = os.path.basename(self.records_of(marker)[0]).split(".")[2]
        for options in (["--flight", "/dev/shm", "--list"], ["--flight", "--list"], ["--list"]):
            printed = self.ok(execute([BUSBAR, "diagnose", *options])).out
            self.assertTrue(printed.startswith("# job "), printed)
            self.assertRegex(printed, rf"(?m)^{jobid} .* 2  1 gone or stopped, 1 signalled: all_reduce_perf --backend mpi")


class Terminal(suite.Case):
    def test_color_is_for_terminals_that_want_it(self):
        # Without ranks, and behind a launcher, whose ranks write into its pipes.
        for command in ([BUSBAR, "doctor", "--local"],
                        [MPIRUN, "-n", "2", program("all_reduce"), *SMALL]):
            with self.subTest(command[0]):
                shown, _ = on_terminal(command)
                self.assertIn(COLOR, shown)
                self.assertNotIn(COLOR, on_terminal(command, NO_COLOR="1")[0])
                self.assertNotIn(COLOR, on_terminal(command, TERM="dumb")[0])
                self.assertNotIn(COLOR, execute(command, {"TERM": "xterm"}).out)

    def test_progress_is_one_line_on_a_terminal(self):
        command = [MPIRUN, "-n", "2", BUSBAR, "locate", "--backend", "mpi"]
        shown, _ = on_terminal(command)
        self.assertNotIn("busbar: round", shown)


if __name__ == "__main__":
    suite.main()
