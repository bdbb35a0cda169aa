"""What NCCL says it ran, end to end over the stand-in NCCL (test/fakes). Catches: an algorithm guessed where NCCL is
silent, plugins or its log active while timing, a user's plugin or log pushed aside, and a tuner without effect."""

import json
import os
import re
import shutil
import sys
import unittest

import suite

PROGRAM = os.path.join(suite.BUILD, "test", "fake_gpu_perf")
TUNER = os.path.join(suite.BUILD, "libbusbar_tuner.so")


@unittest.skipUnless(shutil.which("nm"), "no nm")
class Symbols(suite.Case):
    def test_nccl_finds_the_plugins_in_every_executable(self):
        wanted = {f"{name}_v{version}" for name in ("ncclProfiler", "ncclTunerPlugin") for version in (4, 5, 6)} | {
            "ncclProfiler_v7"}
        driver = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
        for program in [suite.program(c) for c in suite.COLLECTIVES] + [driver]:
            lines = self.ok(suite.execute(["nm", "-D", "--defined-only", program])).out.splitlines()
            # "D": data that may be written, as NCCL's pointer to it asks for.
            self.assertLessEqual(wanted, {line.split()[2] for line in lines if line.split()[1] == "D"}, program)

    def test_the_tuner_shows_its_names_and_nothing_else(self):
        lines = self.ok(suite.execute(["nm", "-D", "--defined-only", TUNER])).out.splitlines()
        self.assertEqual({line.split()[2] for line in lines}, {f"ncclTunerPlugin_v{version}" for version in (4, 5, 6)})


class ShowAlgo(suite.Case):
    def run_fake(self, collective, *options, **env):
        settings = {"NCCL_HOME": os.path.join(suite.BUILD, "test", "fake_nccl"), "FAKE_NCCL_COUNTS": "1", **env}
        return suite.execute([PROGRAM, collective, "-g", "4", "-n", "3", "-T", "60", *options], settings)

    def shown(self, result):
        """The columns behind nccl-tests' thirteen, row by row."""
        return [row[13:] for row in self.ok(result).rows()]

    def counts(self, result):
        """(calls, of them watched by the profiler, lines that NCCL's log wrote)"""
        return tuple(map(int, re.search(r"fake_nccl: (\d+) calls, (\d+) of them watched, (\d+) lines", result.err).groups()))

    def test_each_row_shows_what_ran(self):
        # The stand-in's model: Tree LL is best for 64 bytes, Ring Simple for a mebibyte; channels grow at 64 KiB.
        result = self.run_fake("all_reduce", "-b", "64", "-e", "1M", "-f", "16384", "--show-algo")
        self.assertEqual(self.shown(result), [["TREE", "LL", "1"], ["RING", "SIMPLE", "4"]])
        calls, watched, lines = self.counts(result)
        self.assertEqual((watched, lines), (2 * 4, 0))  # one operation per row on four ranks
        self.assertGreater(calls, watched)

    def test_nothing_is_watched_or_shown_unless_asked(self):
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64")
        self.assertEqual(self.shown(result), [[]])
        self.assertEqual(self.counts(result)[1:], (0, 0))

    def test_both_versions_of_the_interface_and_threads(self):
        for options in (["-b", "64"], ["-b", "64", "-t", "2", "-g", "2"], ["-b", "64", "-m", "3", "-G", "2"]):
            for plugins in ("5", "4"):
                result = self.run_fake("all_gather", "-e", "64", "--show-algo", "--show-prediction", *options,
                                       FAKE_NCCL_PLUGINS=plugins)
                # 64 bytes: 8 + 64 / 2000 us
                self.assertEqual([row[:4] for row in self.shown(result)], [["RING", "LL", "1", "8.03"]])

    def test_collectives_made_of_transfers_say_so(self):
        for collective in ("alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube", "gatherv", "scatterv"):
            result = self.run_fake(collective, "-b", "4K", "-e", "4K", "--show-algo", "--show-prediction")
            self.assertEqual(self.shown(result), [["p2p", "-", "2", "N/A", "N/A"]], collective)

    def test_broadcasts_that_nccl_runs_as_one_are_named(self):
        settings = {"NCCL_HOME": os.path.join(suite.BUILD, "test", "fake_nccl_grows")}
        report = self.path("report.json")
        result = self.run_fake("all_gatherv", "-b", "4K", "-e", "4K", "--show-algo", "-J", report, **settings)
        self.assertEqual(self.shown(result), [["AllGatherV", "-", "-"]])
        with open(report, encoding="utf-8") as file:
            self.assertIn("NCCL has no all_gatherv: a broadcast per rank, in a group, of which NCCL 2.29 and newer make one "
                          "AllGatherV", file.read())
        # Not so: one of one root, NCCL before 2.29, the setting, and where nothing is told at all.
        for options, env, shown in ((["all_gatherv"], {"NCCL_ALLGATHERV_ENABLE": "0"}, ["RING", "LL", "1"]),
                                    (["all_gatherv"], {"NCCL_HOME": os.path.join(suite.BUILD, "test", "fake_nccl")},
                                     ["RING", "LL", "1"]),
                                    (["broadcast"], {}, ["RING", "LL", "1"]),
                                    (["all_gatherv"], {"NCCL_PROFILER_PLUGIN": "none"}, ["unknown", "-", "-"]),
                                    (["all_gatherv", "-g", "1"], {}, ["unknown", "-", "-"])):
            with self.subTest(options=options, env=env):
                result = self.run_fake(*options, "-b", "4K", "-e", "4K", "--show-algo", **{**settings, **env})
                self.assertEqual(self.shown(result), [shown])

    def test_predictions_stand_beside_what_ran(self):
        result = self.run_fake("all_reduce", "-b", "64", "-e", "1M", "-f", "16384", "--show-algo", "--show-prediction")
        rows = self.shown(result)
        # 7 + 64 / 1000 and 10 + 1048576 / 20000 us
        self.assertEqual([row[:4] for row in rows], [["TREE", "LL", "1", "7.06"], ["RING", "SIMPLE", "4", "62.43"]])
        for row, whole in zip(rows, result.rows()):
            self.assertAlmostEqual(float(row[4]) / (float(whole[5]) / float(row[3])), 1, delta=0.05)

    def test_no_prediction_with_x(self):
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "--show-algo", "--show-prediction", "-x", "1")
        self.assertEqual(self.shown(result), [["TREE", "LL", "1", "N/A", "N/A"]])
        self.assertIn("-x", result.line("# --show-prediction"))

    def test_symmetric_kernels_come_from_the_log_which_is_silent_while_timing(self):
        result = self.run_fake("all_reduce", "-b", "64", "-e", "1M", "-f", "16384", "-R", "2", "--show-algo")
        self.assertEqual(self.shown(result), [["AllReduce_AGxLL_R", "sym", "3"]] * 2)
        self.assertEqual(self.counts(result)[2], 2)  # a line per row
        self.assertNotIn("NCCL INFO", result.out + result.err)
        self.assertEqual(self.shown(self.run_fake("broadcast", "-b", "64", "-e", "64", "-R", "2", "--show-algo")),
                         [["RING", "LL", "1"]])

    def test_waiting_is_told_from_transfer_in_symmetric_kernels(self):
        # The stand-in's rank 3 comes last: it waits 1 us, the others 2; transfers take 5 us and 0.1 more for each rank.
        report = self.path("report.json")
        for options in ([], ["-t", "2", "-g", "2"], ["--stat", "--max-time", "1"]):
            with self.subTest(options):
                if os.path.exists(report):
                    os.remove(report)
                result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "-R", "2", "--show-algo", "-J", report,
                                       *options, FAKE_NCCL_PLUGINS="7")
                self.assertIn("#   in the kernel [us]: wait 1.00 (rank 3, last to come) to 2.00 (rank 0), "
                              "transfer 5.00 to 5.30, final wait up to 0.00\n", self.ok(result).out)
                with open(report, encoding="utf-8") as file:
                    shown = json.load(file)["results"][0]["busbar"]["algorithm"]
                self.assertEqual(shown["algorithm"], "AllReduce_AGxLL_R")
                self.assertEqual([[p["rank"], *(round(1e6 * p[part], 3) for part in ("initial_sync_s", "compute_s", "final_sync_s"))]
                                  for p in shown["kernel_phases"]],
                                 [[0, 2, 5, 0], [1, 2, 5.1, 0], [2, 2, 5.2, 0], [3, 1, 5.3, 0]])
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "--show-algo", FAKE_NCCL_PLUGINS="7")
        self.assertEqual(self.shown(result), [["TREE", "LL", "1"]])
        self.assertNotIn("in the kernel", result.out)

    def test_a_log_of_the_users_is_left_alone(self):
        log = self.path("nccl.log")
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "-R", "2", "--show-algo", NCCL_DEBUG="INFO",
                               NCCL_DEBUG_SUBSYS="TUNING", NCCL_DEBUG_FILE=log)
        self.assertEqual(self.shown(result), [["unknown", "-", "-"]])
        self.assertIn("NCCL_DEBUG=INFO", result.line("# --show-algo"))
        with open(log, encoding="utf-8") as file:
            self.assertIn("[Symmetric]", file.read())

    def test_copy_engines_and_a_rank_alone_are_unknown(self):
        result = self.run_fake("all_gather", "-b", "4K", "-e", "4K", "-R", "2", "-x", "2", "--show-algo")
        self.assertEqual(self.shown(result), [["unknown", "-", "-"]])
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "-g", "1", "--show-algo")
        self.assertEqual(self.shown(result), [["unknown", "-", "-"]])

    def test_a_profiler_of_the_users_is_kept(self):
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "--show-algo", "--show-prediction",
                               NCCL_PROFILER_PLUGIN="none")
        self.assertEqual(self.shown(result), [["unknown", "-", "-", "N/A", "N/A"]])
        self.assertIn("NCCL_PROFILER_PLUGIN=none", result.line("# --show-algo"))

    def test_the_tuner_plugin_decides_and_is_seen_to(self):
        table = self.write("table.csv", "allreduce,0,1048575,tree,simple,7,-1,4\n"
                                        "allreduce,1048576,1048576,tree,ll128,3,-1,-1\n"  # not possible: passed over
                                        "allreduce,1048576,1048576,tree,ll,-1,-1,-1\n")
        for plugins in ("5", "4"):
            result = self.run_fake("all_reduce", "-b", "64", "-e", "1M", "-f", "16384", "--show-algo", "--show-prediction",
                                   NCCL_TUNER_PLUGIN=TUNER, NCCL_TUNER_CONFIG_FILE=table, FAKE_NCCL_PLUGINS=plugins)
            self.assertEqual(self.shown(result),
                             [["TREE", "SIMPLE", "7", "N/A", "N/A"], ["TREE", "LL", "4", "N/A", "N/A"]])
            self.assertIn("is kept", result.line("# --show-prediction"))

    def test_a_bad_table_changes_nothing_and_is_said_once_per_rank(self):
        table = self.write("table.csv", "allreduce,0,64,ring,simple,7,-1,-1\nallreduce,0,64,rong,simple,7,-1,-1\n")
        result = self.run_fake("all_reduce", "-b", "64", "-e", "64", "--show-algo", NCCL_TUNER_PLUGIN=TUNER,
                               NCCL_TUNER_CONFIG_FILE=table, NCCL_DEBUG="WARN")
        self.assertEqual(self.shown(result), [["TREE", "LL", "1"]])
        self.assertEqual(result.out.count("table.csv:2: the algorithm must be"), 4, str(result))


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        print("SKIP: built without CUDA and NCCL headers")
        sys.exit(77)
    suite.main()
