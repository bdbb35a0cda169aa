#!/usr/bin/env python3
"""Catches: comm_perf that leaves out a step, or shows one that the library lacks; times that are none; wrong data that
nobody sees; phases of NCCL's log in the wrong row; a hang in the making of a communicator that is not told as one."""

import csv
import json
import os
import unittest

import suite
from suite import BUILD, SUFFIX, Case, execute, mpirun, program

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
FAKE = os.path.join(BUILD, "test", "fake_gpu_perf")
STUCK = os.path.join(BUILD, "test", "fake_stuck_creation.so")
STEPS = ["create", "first-op", "next-op", "split", "dup", "shrink", "grow", "abort", "re-create", "free"]
OF_MPI = ["create", "first-op", "next-op", "split", "dup", "free"]


def comm(nranks, *options, **settings):
    return mpirun(nranks, [program("comm"), "--backend", "mpi", *options], **settings)


def table(result):
    """Tokens of the rows, by step."""
    rows = [line.split() for line in result.out.splitlines() if line.startswith("  ")]
    return {row[0]: row[1:] for row in rows if row and row[0] in STEPS}


class OverMpi(Case):
    def lives(self, nranks, *options):
        path, rows = self.path(f"{nranks}.json"), self.path(f"{nranks}.csv")
        result = self.ok(comm(nranks, "-J", path, "--csv", rows, *options))
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        with open(rows, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        return result, told, lines

    def test_every_step_of_mpi_has_its_row_and_the_others_a_reason(self):
        for nranks, lives in ((1, 3), (2, 8), (4, 8), (16, 3)):
            with self.subTest(nranks=nranks):
                result, told, lines = self.lives(nranks, "-n", str(lives))
                shown = table(result)
                self.assertEqual(list(shown), STEPS, str(result))
                self.assertEqual([step["step"] for step in told["steps"]], STEPS)
                self.assertEqual([line["step"] for line in lines], STEPS)
                self.assertEqual((told["document"], told["nranks"], told["cycles"], told["exit_code"]),
                                 ("communicators", nranks, lives, 0))
                for step, line in zip(told["steps"], lines):
                    if step["step"] in OF_MPI:
                        self.assertEqual(shown[step["step"]][-1], str(lives), str(result))
                        self.assertEqual((step["samples"], line["samples"]), (lives, str(lives)))
                        self.assertEqual(len(step["epoch_medians_s"]), lives)
                        self.assertGreater(step["min_s"], 0)
                        self.assertLessEqual(step["min_s"], step["median_s"])
                        self.assertLessEqual(step["median_s"], step["max_s"])
                        self.assertAlmostEqual(float(line["median_us"]), step["median_s"] * 1e6, places=3)
                    else:
                        self.assertEqual(set(shown[step["step"]]), {"-", "0"})
                        self.assertTrue(step["skipped"])
                        self.assertEqual(line["skipped"], step["skipped"])
                        self.assertIn(f"# {step['step']}: {step['skipped']}", result.out)
                self.assertGreater(told["init"]["create_s"], 0)
                self.assertIn("# The job's own communicator: made in ", result.out)
                self.assertIn("# Out of bounds values : 0 OK", result.out)

    def test_with_stat_it_goes_on_until_the_medians_are_known_or_the_time_is_over(self):
        result, told, _ = self.lives(2, "--stat", "--rel-ci", "20%", "--max-time", "5")
        shown = table(result)
        self.assertIn(shown["create"][-1], ("ci", "time", "noisy"))
        self.assertGreater(told["steps"][0]["samples"], 20)
        self.assertEqual(told["stat"]["rel_ci"], 0.2)

    def test_an_earlier_result_stays(self):
        path = self.write("r.json", "mine")
        self.ok(comm(2, "-n", "2", "-J", path))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.assertTrue(os.path.exists(path + ".0"))

    def test_options_that_mean_nothing_here_are_refused(self):
        for options, code, words in ((("-b", "8"), 255, "--minbytes has no meaning for comm_perf"),
                                     (("--sizes", "8,16"), 255, "one size"), (("--sizes", "6"), 255, "multiple of 4"),
                                     (("-g", "2"), 5, "mpirun -n 4")):
            self.fails(comm(2, *options, env=suite.AT_ONCE), code, words)
        self.fails(comm(2, env={**suite.AT_ONCE, "NCCL_TESTS_SPLIT": "MOD 2"}), 255, "NCCL_TESTS_SPLIT has no meaning")
        self.assertIn("-n is the number of timed life cycles", self.ok(execute([program("comm"), "--help"])).out)

    def test_wrong_data_of_an_operation_are_found(self):
        # Operation 1 is the job's own communicator's, 2 and 3 those of the warm-up's.
        result = comm(2, "-n", "2", "--inject", "rank=1,op=4,kind=flip")
        self.assertEqual(result.code, 7, str(result))
        self.assertRegex(result.out, r"# Out of bounds values : [1-9]\d* FAILED")
        self.assertIn("# wrong:", result.err)

    @suite.in_more  # half a minute, as the next
    def test_a_rank_that_skips_an_operation_is_told_with_the_step(self):
        self.hangs(comm(2, "-n", "3", "--inject", "rank=1,op=4,kind=skip", "-T", "6", cwd=self.folder.name),
                   "RANK_LAGGING", "rank 1 on ", "first-op, cycle 1")

    @unittest.skipIf(len(suite.HANG_CODES) > 1, "the stand-in is loaded by Open MPI's launcher")
    def test_a_creation_that_hangs_is_told_as_one(self):
        result = mpirun(3, ["env", f"LD_PRELOAD={STUCK}", program("comm"), "--backend", "mpi", "-n", "3", "-T", "10"],
                        {"FAKE_STUCK_RANK": "2", "FAKE_STUCK_CALL": "3"}, cwd=self.folder.name)
        self.assertIn(result.code, suite.HANG_CODES, str(result))
        self.assertIn("busbar: hang: ", result.err)
        self.assertIn("create, cycle 2", result.err)


@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libbusbar_gloo.so")), "built without Gloo")
class OverGloo(Case):
    def test_contexts_are_made_used_and_closed(self):
        result = self.ok(mpirun(3, [program("comm"), "--backend", "gloo", "-n", "4"]))
        shown = table(result)
        for step in STEPS:
            self.assertEqual(shown[step][-1], "4" if step in ("create", "first-op", "next-op", "free") else "0", step)
        self.assertIn("# split: Gloo's contexts are made and closed", result.out)


@unittest.skipUnless(os.path.exists(FAKE), "built without CUDA and NCCL headers")
class OverTheFakeNccl(Case):
    def lives(self, *options, library="fake_nccl", env=None):
        path = self.path("r.json")
        settings = {"NCCL_HOME": os.path.join(BUILD, "test", library), **(env or {})}
        result = self.ok(execute([FAKE, "comm", "-J", path, "-n", "3", "-T", "30", *options], settings))
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_every_step_of_nccl_runs_and_gives_everything_back(self):
        for options in (("-g", "4"), ("-t", "2", "-g", "2"), ("-t", "3", "-p", "1")):
            with self.subTest(options):
                result, told = self.lives(*options)
                without = [step["step"] for step in told["steps"] if step["skipped"]]
                self.assertEqual(without, ["dup", "grow"], str(result))
                self.assertIn("# grow: NCCL 2.28.9 has no ncclCommGrow, which came with 2.29", result.out)
                for step in told["steps"]:
                    if not step["skipped"]:
                        self.assertEqual(step["samples"], 3)

    def test_a_library_that_can_grow_communicators_does(self):
        result, told = self.lives("-g", "3", library="fake_nccl_grows")
        self.assertEqual([step["step"] for step in told["steps"] if step["skipped"]], ["dup"], str(result))
        self.assertIn("library=NCCL 2.29.7", result.out)

    def test_one_rank_has_nothing_to_shrink(self):
        result, _ = self.lives("-g", "1")
        self.assertIn("# shrink: one rank cannot shrink", result.out)

    def test_phases_are_those_of_the_slowest_rank_of_each_creation(self):
        result, told = self.lives("-g", "4", library="fake_nccl_grows")
        by_step = {step["step"]: step for step in told["steps"]}
        # The stand-in: bootstrap takes 0.01 s more on each rank, the rest 0.21 s.
        for step, nranks in (("create", 4), ("re-create", 4), ("split", 2), ("shrink", 3), ("grow", 4)):
            for phases in [by_step[step]["first_phases"], *by_step[step]["phases"]]:
                self.assertEqual((phases["rank"], phases["nranks"]), (nranks - 1, nranks), step)
                self.assertAlmostEqual(phases["bootstrap_s"], 0.01 * nranks)
                self.assertAlmostEqual(phases["total_s"], 0.21 + 0.01 * nranks)
                self.assertEqual(phases["kernels_s"], 0.12)
        self.assertNotIn("phases", by_step["first-op"])
        self.assertIn("#   first, rank 3 by NCCL [s]: 0.25 = kernels 0.12, alloc 0.06, bootstrap 0.04", result.out)
        self.assertIn("#   medians by NCCL [s]: 0.25; kernels 0.12", result.out)
        lines = result.out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["create"])
        self.assertRegex(lines[at + 1], "by NCCL")

    def test_a_log_that_the_user_claims_stays_the_users(self):
        result, told = self.lives("-g", "2", env={"NCCL_DEBUG": "INFO"})
        self.assertIn("the phases of creation are unknown: NCCL reports them only in its log, which NCCL_DEBUG=INFO claims",
                      result.out)
        self.assertIn("NCCL INFO Init timings - ncclCommInitRankConfig", result.out)
        self.assertNotIn("first_phases", told["steps"][0])


class Accepted(Case):
    PLAN = """stages: [whole]
init: %s
locate-on-fail: false
keep-results: false
cells:
  - {collective: all_reduce, sizes: 1K, max-time: 1, placement: out}
"""

    def test_a_plan_judges_the_time_until_the_communicator_can_be_used(self):
        for bound, code, outcome in (("1min", 0, "PASS"), ("1us", 7, "FAIL"), ("{warn: 1us}", 0, "WARN")):
            with self.subTest(bound):
                plan, path = self.write("plan.yaml", self.PLAN % bound), self.path(f"{outcome}.json")
                result = mpirun(2, [BUSBAR, "accept", plan, "--backend", "mpi", "-J", path])
                self.assertEqual(result.code, code, str(result))
                with open(path, encoding="utf-8") as file:
                    told = json.load(file)
                found = [c for c in told["criteria"] if c["criterion"] == "init"]
                self.assertEqual([c["outcome"] for c in found], [outcome])
                self.assertRegex(found[0]["found"], r"^2 ranks, [\d.]+ [mu]?s: made in ")
                self.assertEqual(len(told["inits"]), 1)
                self.assertEqual(told["inits"][0]["nranks"], 2)

    def test_each_launch_counts(self):
        plan, path = self.write("plan.yaml", self.PLAN % "1min"), self.path("r.json")
        self.ok(execute([BUSBAR, "accept", plan, "--launch", f"{suite.MPIRUN} -n 2 {{cmd}}", "--backend", "mpi", "-J", path]))
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        self.assertGreaterEqual(len(told["inits"]), 1)
        self.assertEqual([c["outcome"] for c in told["criteria"] if c["criterion"] == "init"], ["PASS"])


if __name__ == "__main__":
    suite.main()
