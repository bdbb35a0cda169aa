"""Catches: a pattern of pingpong that hangs or says another's time or bandwidth, rounds that are told as roots, options
that another benchmark takes without a word, and runs of two patterns that are merged."""

import csv
import json
import os

import suite
from suite import BUILD, SUFFIX, Case, execute, perf

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
ONE = ("-b", "4K", "-e", "4K", "-n", "5")
QUICK = ("--stat", "--max-time", "3", "--cell-time", "0.5", "--epochs", "10")


class Pingpong(Case):
    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_every_pattern_runs_and_its_bandwidth_follows_from_its_time(self):
        for pattern, ways in (("latency", 1), ("oneway", 1), ("both", 2)):
            for nranks in (2, 4):
                with self.subTest(pattern, nranks=nranks):
                    path = self.path(f"{pattern}{nranks}.json")
                    window = [] if pattern == "latency" else ["--window", "7"]
                    result = self.ok(perf("pingpong", nranks, *ONE, "--pattern", pattern, *window, "-J", path))
                    self.assertIn("# pingpong " + pattern, result.out)
                    rows = result.rows()
                    self.assertEqual([row[:5] for row in rows], [["4096", "1024", "float", "none", "-1"]], str(result))
                    self.assertEqual((rows[0][8], rows[0][12]), ("0", "N/A"))
                    document = self.read(path)
                    self.assertEqual(document["busbar"]["pingpong"],
                                     {"pattern": pattern, "window": 7 if window else 64, "pairs": "half"})
                    half = document["results"][0]["out_of_place"]
                    self.assertAlmostEqual(half["alg_bw"] * half["time"] * 1e3, 4096 * ways, delta=1)
                    self.assertEqual(half["alg_bw"], half["bus_bw"])
                    self.assertTrue(document["results"][0]["busbar"]["out_of_place"]["timed_verified"])

    def test_a_tournament_has_a_row_per_round_that_names_its_pairs(self):
        table, path = self.path("r.csv"), self.path("r.json")
        result = self.ok(perf("pingpong", 4, *ONE, "--pairs", "all", "--csv", table, "-J", path))
        self.assertEqual([row[4] for row in result.rows()], ["0", "1", "2"], str(result))
        with open(table, encoding="utf-8", newline="") as file:
            notes = [row["note"] for row in csv.DictReader(file)]
        self.assertEqual(notes, ["pairs 0-3 1-2", "pairs 0-2 1-3", "pairs 0-1 2-3"])
        self.assertEqual([row["root"] for row in self.read(path)["results"]], ["0", "1", "2"])

    def test_an_odd_number_of_ranks_is_skipped_with_the_reason(self):
        for pairs in ("half", "all"):
            result = self.ok(perf("pingpong", 3, *ONE, "--pairs", pairs))
            self.assertEqual(result.rows(), [])
            self.assertEqual(result.err.count("an even number of ranks"), 1, str(result))

    def test_options_of_nccl_tests_work_with_it(self):
        patterns = ("latency", "oneway", "both")
        each = (["-m", "3"], ["-I", "1"], ["-z", "1"], ["-w", "0", "-c", "2"], ["-d", "all"], ["-u", "3"], ["-r", "1"],
                ["--buffers", "reuse"], ["--show-algo"], ["--paranoid"])
        for number, options in enumerate(each):
            for pattern in patterns if suite.MORE else (patterns[number % 3],):
                with self.subTest(options, pattern=pattern):
                    result = self.ok(perf("pingpong", 2, *ONE, "--pattern", pattern, *options))
                    self.assertTrue(all(row[8] == "0" for row in result.rows()) and result.rows(), str(result))

    def test_the_statistical_mode_samples_messages(self):
        for pattern in ("latency", "both"):
            path = self.path(f"{pattern}.json")
            self.ok(perf("pingpong", 2, "-b", "4K", "-e", "4K", *QUICK, "--pattern", pattern, "-J", path))
            row = self.read(path)["results"][0]
            half = row["out_of_place"]
            self.assertAlmostEqual(half["alg_bw"] * half["time"] * 1e3, 4096 * (2 if pattern == "both" else 1), delta=1)
            values = [q["value_s"] for q in row["busbar"]["out_of_place"]["stats"]["quantiles"]]
            # The largest is kept as it came, the others as floats.
            self.assertEqual(values[:-1], sorted(values[:-1]))
            self.assertGreaterEqual(values[-1] * (1 + 1e-6), values[-2])

    def test_runs_of_two_patterns_are_not_merged(self):
        paths = []
        for pattern in ("latency", "both", "both"):
            paths.append(self.path(f"{len(paths)}.json"))
            self.ok(perf("pingpong", 2, "-b", "4K", "-e", "4K", *QUICK, "--pattern", pattern, "-J", paths[-1]))
        self.ok(execute([BUSBAR, "merge", *paths[1:]]))
        self.fails(execute([BUSBAR, "merge", *paths[:2]]), 255, "did not measure the same thing: pattern latency and both")

    @suite.in_more
    def test_launches_of_pingpong_are_compared(self):
        path = self.path("c.json")
        template = f"{suite.MPIRUN} -n 2"
        result = self.ok(execute([BUSBAR, "compare", "pingpong", "--backend", "mpi", "--sizes", "4K", "--pattern", "both",
                                  "--window", "3", "--pairs", "all", "--launch", template, "--launches", "6",
                                  "--vary", "NCCL_BUFFSIZE=4M", "--max-time", "30", "-J", path]))
        comparison = self.read(path)["comparisons"][0]
        self.assertEqual(comparison["collective"], "pingpong")
        self.assertIn("round 0", result.out)

    def test_wrong_data_are_found(self):
        for pattern in ("latency", "oneway", "both"):
            with self.subTest(pattern):
                # Rank 1 receives in every pattern; operation 2 is checked (-w 0 -n 1).
                result = perf("pingpong", 2, "-b", "64K", "-e", "64K", "-w", "0", "-n", "1", "--pattern", pattern,
                              "--inject", "rank=1,op=2,kind=flip", env=suite.AT_ONCE)
                self.assertEqual(result.code, 7, str(result))
        dropped = perf("pingpong", 4, "-b", "64K", "-e", "64K", "-w", "0", "-n", "1", "--inject", "rank=1,op=2,kind=drop")
        self.assertEqual(dropped.code, 7, str(dropped))
        self.assertIn("suspected: data of rank 1 never arrived", dropped.err)

    def test_wrong_options_are_refused_in_a_sentence(self):
        for options, words in ((("--pattern", "both"), "--pattern is for pingpong_perf"),
                               (("--pattern", "both", "--window", "3"), "is for pingpong_perf"),
                               (("--pairs", "all"), "--pairs is for pingpong_perf: all_reduce has no pairs of ranks")):
            self.fails(perf("all_reduce", 2, *ONE, *options, env=suite.AT_ONCE), 255, words)
        for options, words in ((("--window", "3"), "--window needs --pattern oneway or both"),
                               (("--window", "0", "--pattern", "both"), "--window"),
                               (("--pattern", "there"), "latency oneway both")):
            self.fails(perf("pingpong", 2, *ONE, *options, env=suite.AT_ONCE), 255, words)

    def test_a_dry_run_names_the_rounds(self):
        result = self.ok(perf("pingpong", 4, *ONE, "--pairs", "all", "--dry-run"))
        self.assertIn("pingpong on 4 ranks, 3 rows of 1 size", result.out)

    def test_a_fingerprint_has_no_algorithm_to_force(self):
        self.fails(execute([BUSBAR, "fingerprint", "pingpong", "--algorithm", "ring"]), 5, "no algorithm to force")


if __name__ == "__main__":
    suite.main()
