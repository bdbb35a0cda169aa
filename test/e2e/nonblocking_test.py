"""Catches: calls that --nonblocking leaves blocking, or whose time to start is that of the whole loop; a library without
nonblocking forms that takes the option; results with and without that are taken for one another's."""

import csv
import json
import os
import unittest

import suite
from suite import BUILD, SUFFIX, Case, execute, mpirun, perf

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
NO_FORM = ("hypercube", "pingpong")
QUICK = ("--stat", "--max-time", "3", "--cell-time", "0.5", "--epochs", "10")


class Nonblocking(Case):
    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_every_collective_starts_before_it_ends_and_has_a_column_for_it(self):
        for name in suite.COLLECTIVES:
            with self.subTest(name):
                path, table = self.path(f"{name}.json"), self.path(f"{name}.csv")
                result = self.ok(perf(name, 4, "-b", "4K", "-e", "4K", "-n", "5", "--nonblocking", "-J", path, "--csv", table))
                self.assertIn("; calls: nonblocking, each finished before the next", result.out)
                self.assertTrue(self.read(path)["busbar"]["nonblocking"])
                if name in NO_FORM:
                    self.assertEqual(result.rows(), [])
                    self.assertIn("MPI has no nonblocking form of it", result.err)
                    continue
                titles = next(line for line in result.out.splitlines() if "algbw" in line).split()
                self.assertEqual(titles[-10:], ["time", "algbw", "busbw", "#wrong", "start"] * 2, str(result))
                row = result.rows()[0]
                wrong = "0" if name in suite.WITH_DATA else "N/A"
                self.assertEqual((len(row), row[8]), (15, wrong), str(result))
                self.assertLessEqual(float(row[9]), float(row[5]))
                half = self.read(path)["results"][0]["busbar"]["out_of_place"]
                self.assertGreaterEqual(half["cpu_time_s"], 0)
                self.assertLessEqual(half["cpu_time_s"], half["time_s"])
                with open(table, encoding="utf-8", newline="") as file:
                    self.assertAlmostEqual(float(next(csv.DictReader(file))["cpu_time_us"]), 1e6 * half["cpu_time_s"], places=3)

    def test_what_has_no_nonblocking_form_in_place_is_measured_out_of_place_alone(self):
        path = self.path("p.json")
        result = self.ok(perf("sendrecv", 3, "-b", "4K", "-e", "4K", "-n", "5", "--nonblocking", "-J", path))
        entry = self.read(path)["results"][0]
        self.assertEqual(entry["out_of_place"]["nwrong"], 0)
        if entry["busbar"]["in_place"]["measured"]:
            self.assertEqual(entry["in_place"]["nwrong"], 0)  # MPI 4 has MPI_Isendrecv_replace
            return
        reason = "out of place alone: MPI 3.1 has no nonblocking MPI_Sendrecv_replace"
        self.assertIn("# " + reason, result.out)
        self.assertEqual((entry["in_place"], entry["busbar"]["note"]), (None, reason))
        alone = self.ok(perf("sendrecv", 3, "-b", "4K", "-e", "4K", "--nonblocking", "--placement", "in"))
        self.assertEqual(alone.rows(), [])
        self.assertIn("MPI 3.1 has no nonblocking MPI_Sendrecv_replace", alone.err)

    def test_without_it_nothing_is_added(self):
        path = self.path("r.json")
        result = self.ok(perf("all_reduce", 2, "-b", "4K", "-e", "4K", "-n", "5", "-J", path))
        self.assertEqual(len(result.rows()[0]), 13)
        self.assertNotIn("nonblocking", result.out)
        self.assertNotIn("nonblocking", self.read(path)["busbar"])

    def test_the_statistical_mode_has_the_mean_time_to_start(self):
        for options in ((), ("--cadence", "stream")):
            path = self.path(f"s{len(options)}.json")
            result = self.ok(perf("all_reduce", 2, "-b", "64K", "-e", "64K", *QUICK, *options, "--nonblocking", "-J", path))
            self.assertEqual(len(result.rows()[0]), 15 + 5 + 5, str(result))
            half = self.read(path)["results"][0]["busbar"]["out_of_place"]
            self.assertGreater(half["cpu_time_s"], 0)
            self.assertLessEqual(half["cpu_time_s"], half["time_s"])

    def test_runs_with_and_without_are_not_merged(self):
        paths = [self.path("0.json"), self.path("1.json")]
        self.ok(perf("all_reduce", 2, "-b", "4K", "-e", "4K", *QUICK, "-J", paths[0]))
        self.ok(perf("all_reduce", 2, "-b", "4K", "-e", "4K", *QUICK, "--nonblocking", "-J", paths[1]))
        self.fails(execute([BUSBAR, "merge", *paths]), 255, "calls blocking and nonblocking")

    def test_a_comparison_makes_nonblocking_calls(self):
        path = self.path("c.json")
        result = self.ok(execute([BUSBAR, "compare", "all_reduce", "--backend", "mpi", "--sizes", "4K", "--placement", "out",
                                  "--launch", f"{suite.MPIRUN} -n 2", "--launches", "6", "--max-time", "30",
                                  "--vary", "ompi.coll_libnbc_iallreduce_algorithm=1", "--nonblocking", "-J", path]))
        self.assertIn("# calls: nonblocking, each finished", result.out)
        self.assertTrue(self.read(path)["nonblocking"])

    def test_what_chooses_for_blocking_functions_is_not_varied(self):
        result = mpirun(2, [BUSBAR, "compare", "all_reduce", "--backend", "mpi", "--sizes", "4K", "--vary",
                            "ompi.algorithm=ring", "--nonblocking"])
        self.fails(result, 255, "ompi.algorithm chooses for MPI's blocking functions alone")

    def test_a_fault_in_the_data_is_found(self):
        result = perf("all_reduce", 2, "-b", "64K", "-e", "64K", "-w", "0", "-n", "1", "--nonblocking", "--inject",
                      "rank=1,op=2,kind=flip", env=suite.AT_ONCE)
        self.assertEqual(result.code, 7, str(result))

    def test_groups_and_other_libraries_refuse_it(self):
        self.fails(perf("all_reduce", 2, "-b", "8", "-e", "8", "--nonblocking", "-m", "2", env=suite.AT_ONCE), 255,
                   "--nonblocking does not work with -m")

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libbusbar_gloo.so")), "built without Gloo")
    def test_gloo_refuses_it(self):
        self.fails(mpirun(2, [suite.program("all_reduce"), "--backend", "gloo", "--nonblocking", "-b", "8", "-e", "8"],
                          suite.AT_ONCE), 5, "Gloo has none")


if __name__ == "__main__":
    suite.main()
