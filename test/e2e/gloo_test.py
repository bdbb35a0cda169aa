#!/usr/bin/env python3
"""Catches: a collective that Gloo runs wrongly or not at all as users call it, a program that needs Gloo to start, a
missing module that is told without its remedy, a rank's death that leaves the others waiting."""

import json
import os
import shutil
import subprocess
import unittest

import suite
from suite import BUILD, SUFFIX, Case, mpirun, program

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
MODULE = os.path.join(BUILD, "libbusbar_gloo.so")


LACKING = {"gatherv": "Gloo 0.5.0 has no gatherv", "scatterv": "Gloo 0.5.0 has no scatterv",
           "reduce_scatterv": "hangs if a rank's block is empty"}


def gloo(collective, nranks, *options, **settings):
    return mpirun(nranks, [program(collective), "--backend", "gloo", *options], **settings)


@unittest.skipUnless(os.path.exists(MODULE), "built without Gloo")
class Gloo(Case):
    def test_every_collective_runs_and_its_data_are_right(self):
        for nranks in (2, 4) if suite.MORE else (4,):
            for collective in suite.COLLECTIVES:
                with self.subTest(collective, nranks=nranks):
                    result = self.ok(gloo(collective, nranks, "-b", "8", "-e", "512K", "-f", "16", "-n", "5"))
                    self.assertIn("Gloo", result.out)
                    if collective in LACKING:
                        self.assertEqual(result.rows(), [], str(result))
                        self.assertIn(LACKING[collective], result.err)
                    else:
                        self.assertGreater(len(result.rows()), 0 if collective == "barrier" else 2, str(result))

    def test_types_and_operations_that_it_lacks_are_skipped_with_the_reason(self):
        result = self.ok(gloo("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "2", "-d", "all", "-o", "all"))
        self.assertEqual(len(result.rows()), 12 * 4, str(result))
        self.assertIn("Gloo has no average operation", result.out + result.err)
        self.assertIn("Gloo has no pre-multiplied sum operation", result.out + result.err)

    def test_what_it_cannot_do_in_place_is_measured_out_of_place_alone(self):
        for name in suite.REPLACING:
            result = self.ok(gloo(name, 2, "-b", "1K", "-e", "1K", "-n", "2"))
            row = result.rows()[0]
            self.assertEqual((row[8], *row[9:]), ("0", "0.00", "0.00", "0.00", "N/A"), str(result))
            self.assertIn(f"# out of place alone: Gloo has no {name} in place", result.out)

    def test_results_say_which_library_it_was_and_what_ran(self):
        path = self.path("r.json")
        result = self.ok(gloo("reduce_scatter", 2, "-b", "64K", "-e", "64K", "-n", "5", "-m", "2", "--show-algo", "-J", path))
        self.assertIn("halving_doubling", result.out)
        self.assertIn("overwrites its input", result.out)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"backend": "gloo"', text)
        json.loads(text)

    def test_its_algorithms_are_compared(self):
        result = self.ok(mpirun(2, [BUSBAR, "compare", "all_reduce", "--backend", "gloo", "--vary", "gloo.algorithm=all",
                                    "--sizes", "64,64K", "--max-time", "4", "-T", "100"]))
        self.assertEqual([row[0] for row in result.rows()], ["64", "65536"], str(result))
        for name in ("default", "ring", "bcube"):
            self.assertIn(name, result.out)
        self.assertIn("0 n/a, 0 WRONG", result.out)
        self.fails(mpirun(2, [BUSBAR, "compare", "broadcast", "--backend", "gloo", "--vary", "gloo.algorithm=ring"],
                          suite.AT_ONCE), 255, "one algorithm for broadcast")
        self.fails(mpirun(2, [BUSBAR, "compare", "all_reduce", "--backend", "mpi", "--vary", "gloo.algorithm=ring"],
                          suite.AT_ONCE), 255, "gloo.algorithm is Gloo's", "--backend gloo")

    def test_statistics_are_taken_of_it_too(self):
        self.ok(gloo("reduce_scatter", 2, "-b", "1K", "-e", "64K", "-f", "64", "--stat", "--max-time", "4"))

    def test_what_host_memory_has_not_is_refused(self):
        self.fails(gloo("all_reduce", 2, "-G", "1", env=suite.AT_ONCE), 5, "-G", "gloo backend")
        self.fails(gloo("all_reduce", 2, "-t", "2", env=suite.AT_ONCE), 5, "mpirun -n 4")

    def test_a_rank_that_dies_ends_the_job(self):
        result = gloo("all_reduce", 3, "-b", "64K", "-e", "64K", "-n", "200", "--inject", "rank=1,op=42,kind=kill")
        self.assertNotIn(result.code, (0, 124), str(result))
        self.assertIn("PROCESS_DEAD: rank 1 ", result.err)


class WithoutTheModule(Case):
    def test_no_program_needs_gloo_to_start(self):
        for path in (BUSBAR, program("all_reduce")):
            listed = subprocess.run(["readelf", "-d", path], check=True, text=True, stdout=subprocess.PIPE).stdout
            self.assertNotIn("gloo", listed)

    def test_without_the_module_the_remedy_is_told(self):
        alone = shutil.copy(program("all_reduce"), self.path("all_reduce_perf"))
        shutil.copy(os.path.join(BUILD, "libbusbar_mpi.so"), self.folder.name)
        self.fails(mpirun(2, [alone, "--backend", "gloo", "-b", "8", "-e", "8"]), 5, "there is no libbusbar_gloo.so in",
                   "libgloo-dev", "--backend mpi")


if __name__ == "__main__":
    suite.main()
