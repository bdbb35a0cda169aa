#!/usr/bin/env python3
"""Catches: a build without the libraries that busbar can do without (yaml-cpp, Boost.Math, hwloc, RE2, libarchive,
OpenSSL, SQLite) whose commands crash, or measure for hours before they say what they lack. The preset bare makes such a build."""

import os
import re
import subprocess

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar")
PERF = os.path.join(suite.BUILD, "all_reduce_perf")


class Bare(suite.Case):
    def refused(self, *words):
        done = suite.execute([*words])
        self.assertEqual(done.code, 5, str(done))
        return done.out + done.err

    def test_the_libraries_are_not_linked(self):
        for program in (PERF, BUSBAR):
            told = subprocess.run(["readelf", "-d", program], check=True, text=True, stdout=subprocess.PIPE).stdout
            self.assertEqual(re.findall(r"NEEDED.*lib(yaml-cpp|hwloc|re2|archive|crypto|sqlite3)", told), [])

    def test_what_needs_a_library_says_so(self):
        history = ["--history", self.path("runs.sqlite")]
        self.assertIn("this build has no SQLite", self.refused(BUSBAR, "history", "list", *history))
        self.assertIn("this build has no RE2", self.refused(BUSBAR, "diagnose", __file__))
        self.assertIn("this build has no yaml-cpp", self.refused(BUSBAR, "accept", "health-check", "--dry-run"))
        with open(self.path("options.yaml"), "w", encoding="utf-8") as file:
            file.write("minbytes: 8\n")
        self.assertIn("this build has no yaml-cpp",
                      self.refused(suite.MPIRUN, "-n", "2", PERF, "--config", self.path("options.yaml")))
        told = self.refused(suite.MPIRUN, "-n", "2", PERF, "--backend", "mpi", "-b", "8", "-e", "8", *history)
        self.assertIn("this build has no SQLite", told)
        self.assertNotRegex(told, r"(?m)^ +8 ")  # before anything is measured

    def test_the_rest_measures_and_reports(self):
        result = self.path("result.json")
        done = self.ok(suite.execute([suite.MPIRUN, "-n", "2", PERF, "--backend", "mpi", "-b", "8", "-e", "64", "-f", "8",
                                      "--topology", "-J", result]))
        self.assertEqual([row[0] for row in done.rows()], ["8", "64"])
        self.assertIn("this build has no hwloc", done.out)
        done = self.ok(suite.execute([suite.MPIRUN, "-n", "2", PERF, "--backend", "mpi", "-b", "8", "-e", "8", "--stat",
                                      "--max-time", "1"]))
        self.assertIn("95 %", done.out)  # intervals, by our own distributions


if __name__ == "__main__":
    suite.main()
