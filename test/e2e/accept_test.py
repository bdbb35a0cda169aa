"""Catches: a plan whose slip is not named, a verdict that says PASS of what was not measured or is wrong, a launch whose
hang takes the rest of the acceptance with it, and an interrupted run that loses more than the stage in progress."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case, execute, mpirun  # noqa: E402

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
LAUNCH = f"{suite.MPIRUN} -n {{ranks}} {{cmd}}"

PLAN = """schema: 1
title: a test
stages: [per-host, whole]
locate-on-fail: false
defaults:
  rel-ci: 20%
  cell-time: 0.3
  placement: out
  criteria: {wrong: 0}
cells:
  - {name: inside, collective: all_reduce, stages: per-host, sizes: 64K}
  - {name: one, collective: all_reduce, stages: whole, sizes: [8, 64K]}
  - {name: two, collective: broadcast, stages: whole, sizes: 64K}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def done_so_far(path):
    """Of a file that may not be there yet, or be empty; else it is replaced in one step."""
    try:
        return read(path)["done"]
    except (FileNotFoundError, json.JSONDecodeError):
        return []


def measured(result):
    return {(c["stage"], c["cell"], c["nbytes"]) for c in result["cells"]}


ALL_CELLS = {("per-host", "inside", 65536), ("whole", "one", 8), ("whole", "one", 65536), ("whole", "two", 65536)}


class Accept(Case):
    def accept(self, *options, plan=PLAN, nranks=2, env=None):
        return mpirun(nranks, [BUSBAR, "accept", self.write("plan.yaml", plan), "--backend", "mpi", *options],
                      cwd=self.folder.name, env=env)

    def launch(self, *options, plan=PLAN, nranks=2):
        return execute([BUSBAR, "accept", self.write("plan.yaml", plan), "--backend", "mpi", "--launch", LAUNCH,
                        "--ranks", str(nranks), *options], cwd=self.folder.name)


class InOneJob(Accept):
    def test_a_good_cluster_passes_and_the_verdict_comes_first(self):
        result = self.ok(self.accept("--junit", self.path("a.xml"), "--report", self.path("a.html")))
        self.assertTrue(result.out.startswith("PASS"), str(result))
        written = read(self.path("busbar-accept.json"))
        self.assertEqual(measured(written), ALL_CELLS)
        for name, word in (("a.xml", "<testsuite"), ("a.html", "<html")):
            with open(self.path(name), encoding="utf-8") as file:
                self.assertIn(word, file.read())

    def test_wrong_data_fail_and_name_the_rank(self):
        # With 9 operations behind it some warm-up of the first cell is over.
        result = self.accept("--inject", "rank=1,op=10,kind=drop", "-J", self.path("wrong.json"))
        self.assertEqual(result.code, 7, str(result))
        self.assertTrue(result.out.startswith("FAIL"), str(result))
        self.assertIn("rank 1", result.out)

    def test_a_slip_in_the_plan_is_named_with_its_line(self):
        self.fails(self.accept(plan=PLAN.replace("sizes: 64K}", "sizzes: 64K}", 1), env=suite.AT_ONCE), 255, "plan.yaml:11", "sizes")

    def test_options_that_belong_into_the_plan_are_refused(self):
        self.fails(self.accept("-b", "8", env=suite.AT_ONCE), 255, "in the plan, for each cell")

    def test_what_cannot_be_written_is_said_before_anything_is_measured(self):
        for option in ("-J", "--report", "--junit", "--prometheus", "--history", "--save-baseline"):
            with self.subTest(option):
                result = self.fails(self.accept(option, "/nowhere/at/all", env=suite.AT_ONCE), 255)
                self.assertEqual(result.out, "")

    def test_results_that_nobody_asked_for_refuse_no_run(self):
        # Nobody can make a file in /proc, not even root.
        plan = self.write("plan.yaml", PLAN)
        for words in ([suite.MPIRUN, "-n", "2", BUSBAR, "accept", plan, "--backend", "mpi"],
                      [BUSBAR, "accept", plan, "--backend", "mpi", "--launch", LAUNCH, "--ranks", "2"]):
            with self.subTest(words):
                result = self.ok(execute(words, cwd="/proc"))
                self.assertTrue(result.out.startswith("PASS"), str(result))
                warnings = [line for line in result.errors() if "warning" in line]
                self.assertEqual(len(warnings), 1, str(result))
                self.assertIn("busbar-accept.json", warnings[0])
                self.assertIn("keeps no results", warnings[0])
                self.fails(execute([*words, "-J", "r.json"], suite.AT_ONCE, "/proc"), 255, "-J r.json")

    def test_no_cell_begins_once_the_time_is_over(self):
        plan = """schema: 1
title: late
stages: [whole]
max-time: 500ms
locate-on-fail: false
defaults: {rel-ci: 2%, cell-time: 3, placement: out, check: 50, criteria: {wrong: 0}}
cells:
  - {name: one, collective: all_reduce, sizes: 16M}
  - {name: two, collective: all_reduce, sizes: 16M}
  - {name: three, collective: all_gather, sizes: 16M}
"""
        run = self.accept(plan=plan)
        self.assertEqual(run.code, 8, run)
        self.assertRegex(run.out, "max-time 0.5 s was over before .*whole/two, *whole/three")
        # Beside one nothing was looked at, not even once.
        self.assertLessEqual(measured(read(self.path("busbar-accept.json"))), {("whole", "one", 16 << 20)})

    def test_a_plan_says_that_it_keeps_no_results(self):
        plan = PLAN.replace("stages: [per", "keep-results: false\nstages: [per", 1)
        self.ok(self.accept(plan=plan))
        self.ok(self.launch(plan=plan))
        self.assertEqual(os.listdir(self.folder.name), ["plan.yaml"])
        self.ok(self.accept("-J", self.path("r.json"), plan=plan))
        self.assertEqual(measured(read(self.path("r.json"))), ALL_CELLS)

    def test_a_plan_that_expects_gpus_fails_on_host_memory(self):
        result = self.accept(plan=PLAN.replace("stages: [per", "expect: {gpus: required}\nstages: [per", 1))
        self.assertEqual(result.code, 7, str(result))
        self.assertIn("GPU", result.out)
        self.assertEqual(read(self.path("busbar-accept.json"))["cells"], [])

    def test_a_run_is_held_against_its_baseline(self):
        self.ok(self.accept("--save-baseline", self.path("base.json")))
        # A baseline a million times slower, and one as much faster: no noise is that large. (A thousand is less than a
        # time slice of 4 ms over an operation of 0.3 us.)
        # Too brief for an interval on a busy machine, a better time is inconclusive, and never a FAIL.
        for factor, codes, nfailed in ((1e6, (0, 8), 0), (1e-6, (7,), 4)):
            with self.subTest(factor):
                results = self.path(f"{factor}.json")
                result = self.accept("--baseline", self.scaled(self.path("base.json"), factor), "-J", results)
                self.assertIn(result.code, codes, str(result))
                told = [c["outcome"] for c in read(results)["criteria"] if c["criterion"] == "baseline"]
                self.assertGreaterEqual(len(told), 4, str(result))
                self.assertEqual(told.count("FAIL"), nfailed, str(result))

    def scaled(self, path, factor):
        """The results with all times multiplied."""
        result = read(path)
        for cell in result["cells"]:
            cell["median_s"] *= factor
            cell["epoch_medians_s"] = [t * factor for t in cell["epoch_medians_s"]]
            if cell["interval_s"]:
                cell["interval_s"] = {end: t * factor for end, t in cell["interval_s"].items()}
        return self.write("scaled.json", json.dumps(result))

    def test_a_dry_run_tells_steps_and_time_and_measures_nothing(self):
        result = self.ok(self.accept("--dry-run"))
        self.assertIn("whole/two", result.out)
        self.assertFalse(os.path.exists(self.path("busbar-accept.json")))

    def test_shipped_plans_are_found_by_name(self):
        self.assertIn("doctor", self.ok(execute([BUSBAR, "accept", "acceptance", "--dry-run"])).out)
        self.fails(execute([BUSBAR, "accept", "acceptence"]), 255, "did you mean acceptance?")


class ByLaunches(Accept):
    def test_a_good_cluster_passes(self):
        result = self.ok(self.launch())
        self.assertTrue(result.out.startswith("PASS"), str(result))
        self.assertEqual(measured(read(self.path("busbar-accept.json"))), ALL_CELLS)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["busbar-accept.json", "plan.yaml"])

    def test_a_hang_is_a_finding_with_its_culprit_and_the_rest_goes_on(self):
        # Each launch stops its rank 1: none of them finishes a cell, all of them are tried. (A busy machine comes to few
        # operations in a launch's time.)
        plan = PLAN.replace("  - {name: inside, collective: all_reduce, stages: per-host, sizes: 64K}\n", "").replace("[per-host, whole]", "[whole]")
        result = self.launch("--inject", "rank=1,op=8,kind=stop", "-T", "2", "--report", self.path("a.html"), plan=plan)
        self.assertEqual(result.code, 7, str(result))
        written = read(self.path("busbar-accept.json"))
        self.assertEqual({f["verdict"] for f in written["failures"]}, {"PROCESS_STOPPED"})
        self.assertEqual({tuple(f["ranks"]) for f in written["failures"]}, {(1,)})
        self.assertGreater(len(written["failures"]), 1)
        self.assertIn("PROCESS_STOPPED", result.out)
        self.assertTrue(os.path.exists(self.path("a.html")))

    def test_a_command_that_cannot_start_ends_in_a_verdict(self):
        result = execute([BUSBAR, "accept", self.write("plan.yaml", PLAN), "--launch", "false"], cwd=self.folder.name)
        self.assertEqual(result.code, 7, str(result))
        self.assertTrue(result.out.startswith("FAIL"), str(result))

    def test_other_environment_is_set_by_the_launch_only(self):
        plan = PLAN.replace("{name: two,", "{name: two, env: {LD_BIND_NOW: 1},")
        self.fails(self.accept(plan=plan), 255, "--launch")
        self.ok(self.launch(plan=plan))

    def test_a_killed_run_goes_on_where_it_was(self):
        for by_launches in (False, True):
            with self.subTest(by_launches=by_launches):
                self.kill_and_resume(by_launches)

    def wait_for_a_step(self, running, results):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None:
            if any(done_so_far(path) for path in (results, results + ".part")):
                break
            time.sleep(0.02)

    def kill_and_resume(self, by_launches):
        name = f"results{by_launches}.json"
        slow = PLAN.replace("cell-time: 0.3", "cell-time: 0.3\n  min-time: 0.3")
        plan = self.write("plan.yaml", slow)
        command = [BUSBAR, "accept", plan, "--backend", "mpi"]
        if by_launches:
            command += ["--launch", LAUNCH, "--ranks", "2"]
        else:
            command = [suite.MPIRUN, "-n", "2"] + command
        results = self.path(name)
        with subprocess.Popen(command + ["-J", results], cwd=self.folder.name, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as running:
            self.wait_for_a_step(running, results)
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        before = done_so_far(results) + done_so_far(results + ".part")
        self.assertLess(len(before), 3, "it was over before it was killed")
        result = self.ok(execute(command + ["--resume", results], cwd=self.folder.name))
        after = read(results)
        self.assertEqual(measured(after), ALL_CELLS)
        self.assertEqual(len(after["done"]), len(set(after["done"])))
        for step in before:
            self.assertNotIn(f"busbar: {step}", result.err)

    def test_an_interrupt_loses_a_stage_at_most_and_says_how_to_go_on(self):
        for number in (signal.SIGINT, signal.SIGTERM)[:2 if suite.MORE else 1]:
            with self.subTest(signal=number.name):
                self.interrupt_and_resume(number)

    def interrupt_and_resume(self, number):
        name = number.name
        results = self.path(f"{name}.json")
        plan = self.write("plan.yaml", PLAN.replace("cell-time: 0.3", "cell-time: 0.3\n  min-time: 0.3"))
        command = [BUSBAR, "accept", plan, "--backend", "mpi", "--launch", LAUNCH, "--ranks", "2"]
        files = ["--report", self.path(f"{name}.html"), "--junit", self.path(f"{name}.xml")]
        with subprocess.Popen(command + ["-J", results] + files, cwd=self.folder.name, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as running:
            self.wait_for_a_step(running, results)
            running.send_signal(number)
            said = running.communicate()[1]
        self.assertEqual(running.returncode, -number, said)
        before = done_so_far(results)
        self.assertRegex(said, rf"busbar: interrupted \({name}\): kept {len(before)} of \d+ steps in {results}; --resume")
        self.assertTrue(before, said)
        self.assertLess(len(before), 3, "it was over before the signal")
        for file, word in ((f"{name}.html", "</html>"), (f"{name}.xml", "</testsuites>")):
            with open(self.path(file), encoding="utf-8") as written:
                self.assertIn(word, written.read(), file)
        self.assertNotIn(f"{name}.json.part", os.listdir(self.folder.name))
        result = self.ok(execute(command + ["--resume", results], cwd=self.folder.name))
        self.assertEqual(measured(read(results)), ALL_CELLS)
        for step in before:
            self.assertNotIn(f"busbar: {step}", result.err)

    def test_two_runs_do_not_go_on_with_one_file(self):
        self.ok(self.launch())
        results = self.path("busbar-accept.json")
        with open(results + ".lock", "w", encoding="utf-8") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            self.fails(self.launch("--resume", results), 255, "another run of busbar is writing")
        self.ok(self.launch("--resume", results))

    def test_results_of_another_plan_are_not_resumed(self):
        self.ok(self.launch())
        other = PLAN.replace("broadcast", "all_gather")
        self.fails(self.launch("--resume", self.path("busbar-accept.json"), plan=other), 255, "another plan")


if __name__ == "__main__":
    suite.main()
