"""Catches: a comparison that hangs, crashes on what cannot run, names a wrong variant the winner, or tells its files
something else than its table."""

import csv
import json
import os

import suite
from suite import BUILD, SUFFIX, Case, execute, mpirun

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
FAULTY = os.path.join(BUILD, "test", "faulty_perf")
SHORT = ["--max-time", "4", "-T", "100"]


def compare(nranks, *arguments, program=(BUSBAR, "compare"), **settings):
    return mpirun(nranks, [*program, "--backend", "mpi", *arguments], **settings)


def cells(result):
    """(size, cells of the variants, rest) of every row."""
    return [(int(row[0]), row[1:]) for row in result.rows()]


class Table(Case):
    def test_algorithms_are_compared_with_the_default_and_told_in_table_json_and_csv(self):
        path, table = self.path("c.json"), self.path("c.csv")
        result = self.ok(compare(2, "all_reduce", "--sizes", "64,64K", "--vary",
                                 "ompi.algorithm=recursive_doubling,ring,segmented_ring", "--seed", "7", "-J", path,
                                 "--csv", table, *SHORT))
        rows = cells(result)
        self.assertEqual([size for size, _ in rows], [64, 65536], str(result))
        for _, row in rows:
            self.assertGreater(float(row[0]), 0, str(result))
            self.assertRegex(row[1], r"^[0-9.]+\+-[0-9.]+%[<>=?]$", str(result))
        # 16 elements make no 64 KiB segment per rank.
        self.assertEqual(rows[0][1][3], "n/a", str(result))
        self.assertIn("# n/a segmented_ring/64K, ", result.out)
        self.assertIn("seed 7", result.out)
        self.assertIn("# cells: ", result.out)
        self.assertEqual(result.err.count("busbar:"), 0, str(result))

        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["schema"], 3)
        self.assertEqual(document["exit_code"], 0)
        self.assertEqual(document["seed"], 7)
        comparison = document["comparisons"][0]
        self.assertEqual([v["variant"] for v in comparison["variants"]],
                         ["default", "recursive_doubling", "ring", "segmented_ring/64K"])
        self.assertEqual(comparison["variants"][2]["settings"], {"ompi.algorithm": "ring"})
        for size, (_, row) in zip(comparison["sizes"], rows):
            self.assertIn(size["rounds"], range(9) if size["out_of_time"] else range(4, 9))
            default, doubling = size["variants"][:2]
            self.assertEqual(len(default["rounds_s"]), size["rounds"])
            self.assertEqual(default["ratio"], {"value": 1.0, "low": 1.0, "high": 1.0})
            self.assertEqual(doubling["wrong"], 0)
            self.assertEqual(doubling["ran"]["algorithm"], "recursive_doubling")
            ratio = doubling["ratio"]
            self.assertLessEqual(ratio["low"], ratio["value"])
            self.assertLessEqual(ratio["value"], ratio["high"])
            self.assertAlmostEqual(ratio["value"], float(row[1].split("+-")[0]), delta=0.01 * ratio["value"] + 1e-9)
            self.assertGreaterEqual(doubling["adjusted_p"], doubling["p"])
        with open(table, encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), 8)
        self.assertEqual({line["variant"] for line in lines},
                         {"default", "recursive_doubling", "ring", "segmented_ring/64K"})
        self.assertTrue(all(line["not_possible"] or float(line["median_us"]) > 0 for line in lines), lines)

    def test_what_is_decisively_slower_is_never_the_winner(self):
        # 3 gathers and 3 sends of the whole through rank 0 against the best of the others: several times slower.
        path = self.path("c.json")
        self.ok(compare(4, "all_gather", "--sizes", "1M", "--vary", "ompi.algorithm=linear,ring,two_proc", "-J", path,
                        *SHORT))
        with open(path, encoding="utf-8") as file:
            size = json.load(file)["comparisons"][0]["sizes"][0]
        two_proc = size["variants"][3]
        self.assertIn("two_proc needs 2 ranks, not 4", two_proc["not_possible"])
        self.assertNotEqual(size["winner"], "two_proc")

    def test_what_cannot_run_on_these_ranks_says_why(self):
        result = self.ok(compare(3, "all_gather", "--sizes", "3K", "--vary", "ompi.algorithm=two_proc,bruck", *SHORT))
        self.assertEqual(cells(result)[0][1][1], "n/a", str(result))
        self.assertIn("# n/a two_proc, all sizes: two_proc needs 2 ranks, not 3", result.out)

    def test_several_collectives_have_a_table_each(self):
        result = self.ok(compare(2, "all_reduce,broadcast", "--sizes", "4K", "--vary", "ompi.algorithm=1", *SHORT))
        self.assertIn("# Comparison of all_reduce float sum, out of place, 2 ranks on 1 node", result.out)
        self.assertIn("# Comparison of broadcast float root 0, out of place, 2 ranks on 1 node", result.out)
        self.assertEqual(len(result.rows()), 2, str(result))

    def test_in_place_and_refining_and_a_time_that_is_too_short(self):
        result = self.ok(compare(2, "all_reduce", "-b", "64", "-e", "1M", "-f", "128", "--placement", "in", "--refine",
                                 "--vary", "ompi.algorithm=recursive_doubling,ring", *SHORT))
        self.assertIn("in place", result.out)
        sizes = [size for size, _ in cells(result)]
        self.assertEqual(sizes, sorted(set(sizes)), str(result))
        self.assertTrue({64, 8192, 1 << 20} <= set(sizes), str(result))
        result = self.ok(compare(2, "all_reduce", "--sizes", "1M,2M,4M", "--max-time", "20ms", "-T", "100", "--vary",
                                 "ompi.algorithm=ring"))
        self.assertIn("sizes were not reached", result.out)
        self.assertIn("--max-time", result.out)

    def test_a_dry_run_lists_variants_and_measures_nothing(self):
        result = self.ok(compare(4, "all_gather", "--sizes", "1K", "--vary", "ompi.algorithm=all", "--dry-run"))
        self.assertRegex(result.out, r"#   two_proc \(n/a at 1 KiB: two_proc needs 2 ranks, not 4")
        self.assertEqual(result.rows(), [], str(result))


class Wrong(Case):
    def test_a_variant_with_wrong_data_is_reported_and_never_wins(self):
        path = self.path("c.json")
        result = compare(2, "all_reduce", "--sizes", "64,64K", "--vary", "ompi.algorithm=ring,recursive_doubling", "-J",
                         path, *SHORT, program=(FAULTY, "compare:ring", "flip:1:0"))
        self.assertEqual(result.code, 7, str(result))
        # The first call of the first round is of one size or the other.
        rows = [row for _, row in cells(result)]
        first = 0 if rows[0][1] == "WRONG" else 1
        self.assertEqual([row[1] == "WRONG" for row in rows], [first == 0, first == 1], str(result))
        self.assertNotEqual(rows[first][3], "ring", str(result))
        self.assertRegex(result.out, rf"# WRONG ring, {('64 B', '64 KiB')[first]}: [1-9][0-9]* wrong elements")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["exit_code"], 7)
        self.assertGreater(document["comparisons"][0]["sizes"][first]["variants"][1]["wrong"], 0)

    def test_a_wrong_default_leaves_nothing_to_compare_with(self):
        result = compare(2, "all_reduce", "--sizes", "64", "--vary", "ompi.algorithm=ring", *SHORT,
                         program=(FAULTY, "compare:default", "flip:0:0"))
        self.assertEqual(result.code, 7, str(result))
        self.assertEqual(cells(result)[0][1][:3], ["WRONG", "-", "-"], str(result))

    def test_a_failing_or_stuck_call_ends_the_job_with_its_step(self):
        # Call 0 is the check, call 1 the one that is observed, call 2 the first that is timed.
        result = compare(2, "all_reduce", "--sizes", "64", "--vary", "ompi.algorithm=ring", *SHORT,
                         program=(FAULTY, "compare:ring", "throw:1:2"))
        self.assertNotEqual(result.code, 0, str(result))
        self.assertRegex(result.err, r"busbar: error: rank 1 on \S+, all_reduce of 64 B float sum, out of place, rounds")
        result = compare(2, "all_reduce", "--sizes", "64", "--vary", "ompi.algorithm=ring", "-T", "3",
                         program=(FAULTY, "compare:ring", "stall:1:0"))
        self.assertEqual(result.code, 4, str(result))
        self.assertIn("checking ring", result.err)


class Arguments(Case):
    def test_help_and_version(self):
        result = self.ok(mpirun(2, [BUSBAR, "compare", "--help"]))
        self.assertEqual(result.out.count("usage:"), 1, str(result))
        self.assertTrue(max(map(len, result.out.splitlines())) <= 120, str(result))
        self.assertIn("--vary NAME=V1,V2", result.out)
        self.assertIn("busbar", self.ok(execute([BUSBAR, "compare", "--version"])).out)

    def test_bad_arguments_are_one_message_that_helps(self):
        vary = ["--vary", "ompi.algorithm=ring"]
        for arguments, words in (
            (["all_reduce"], ["--vary ompi.algorithm=all"]),
            (vary, ["which collective?"]),
            (["all_reduc", *vary], ["all_reduc", "all_reduce"]),
            (["all_reduce", "--vary", "ompi.algorithm"], ["--vary", "NAME=V1,V2"]),
            (["all_reduce", "--vary", "ompi.algorithm=rng"], ["did you mean ring?"]),
            (["all_reduce", "--vary", "NCCL_ALGO=Ring"], ["NCCL_ALGO is NCCL's"]),
            (["all_reduce", "--vary", "NCCL_BUFFSIZE=4M"], ["once per process", "--launch"]),
            (["all_reduce", *vary, "--delta", "90%"], ["--delta", "2%"]),
            (["all_reduce", *vary, "-n", "5"], ["--iters", "no meaning in compare"]),
            (["all_reduce", *vary, "--placement", "both"], ["out or in"]),
            (["all_reduce", *vary, "--dleta", "2%"], ["--dleta", "--delta"]),
            (["sendrecv", *vary], ["sends and receives"]),
            (["all_reduce", *vary, "--nonblocking"], ["ompi.algorithm", "blocking functions alone", "libnbc"]),
        ):
            with self.subTest(arguments):
                self.fails(execute([BUSBAR, "compare", "--backend", "mpi", *arguments]), 255, *words)
        # The same on several ranks: before MPI is up, and after.
        for arguments in (["all_reduce"], ["all_reduce", "--vary", "NCCL_ALGO=Ring"]):
            self.fails(compare(2, *arguments), 255)

    def test_a_file_says_what_to_compare_and_the_command_line_wins(self):
        path = self.write("c.yaml", "schema: 1\ncollectives: [all_reduce, broadcast]\nvary:\n"
                          "  ompi.algorithm: [ring, 3]\nsizes: [64, 1K]\ndelta: 3%\n")
        result = self.ok(compare(2, "all_gather", "--config", path, "--dry-run"))
        self.assertIn("# all_gather: 2 rows, 3 variants", result.out)
        self.assertNotIn("broadcast", result.out)
        self.assertIn("by more than 3.0 %", result.out)
        bad = self.write("bad.yaml", "schema: 1\ncollectives: [all_reduce]\nvary:\n  ompi.algorithm: []\n")
        self.fails(compare(3, "--config", bad), 255, bad + ":4", "no values")

    def test_the_configs_that_we_ship_are_good(self):
        folder = os.path.join(os.path.abspath(os.environ.get("BUSBAR_SOURCE", ".")), "configs")
        result = self.ok(mpirun(2, [BUSBAR, "compare", "--config", os.path.join(folder, "compare-ompi-algorithms.yaml"),
                                    "--dry-run"]))
        self.assertEqual(result.out.count("rows, "), 3, str(result))
        # Good but for the library.
        self.fails(mpirun(2, [BUSBAR, "compare", "--config", os.path.join(folder, "compare-nccl-algos.yaml"),
                              "--backend", "mpi", "--dry-run"]), 255, "NCCL_ALGO is NCCL's")


if __name__ == "__main__":
    suite.main()
