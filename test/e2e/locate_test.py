"""The bugs these would catch: a slow host that passes, a healthy one that is blamed, the wrong direction, an exit code
that does not match the verdict, and options that are taken without meaning."""

import json
import os
import shutil
import sys
import unittest

import suite
from suite import BUILD, SUFFIX, Case, execute, mpirun

BUSBAR = os.path.join(BUILD, f"busbar{SUFFIX}")
SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
VCLUSTER = os.path.abspath(os.path.join(SOURCE, "scripts", "vcluster", "vcluster"))
SKIPPED = 77
OUTCOME_CODES = {"PASS": 0, "WARN": 0, "FAIL": 7, "INCONCLUSIVE": 8}


class Locate(Case):
    def locate(self, nranks, *options):
        return mpirun(nranks, [BUSBAR, "locate", "--backend", "mpi", *options])

    def document(self, name):
        with open(self.path(name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    def hosts(self, nhosts, script):
        """Runs `locate NAME OPTIONS` lines on virtual hosts, one rank each; exit codes by name."""
        # A tenth of the link's usual messages: what is slow is slow in these too, and the test shorter.
        # Nothing else is busy here for minutes, so that further looks need not be minutes apart.
        common = "--backend mpi -b 512K --repetitions 5 --seed 7 --no-rank-probes --looks-apart 500ms"
        result = execute([VCLUSTER, "sandbox", "bash", "-c", f"""
            set -e
            vcluster() {{ "{VCLUSTER}" "$@"; }}
            locate() {{
                name=$1; shift; code=0
                vcluster mpirun -np {nhosts} {BUSBAR} locate {common} -J {self.folder.name}/$name.json "$@" >&2 || code=$?
                echo $name $code
            }}
            vcluster up {nhosts} 500mbit
            {script}"""], {"VC_LIMIT": "150", "VC_SLOTS": "1"})
        if result.code == SKIPPED:
            print(f"SKIPPED: no virtual hosts here: {result.err}", file=sys.stderr)
            self.skipTest("no virtual hosts here")
        self.ok(result)
        return {name: int(code) for name, code in map(str.split, result.out.splitlines())}

    def test_ranks_of_one_host_are_measured_in_all_pairs(self):
        result = self.locate(4, "-b", "64K", "--repetitions", "10", "--seed", "3", "--looks", "1", "-J", self.path("ranks.json"))
        document = self.document("ranks")
        verdict = document["locate"]
        # How noisy this machine is decides the verdict; that it is told alike everywhere does not depend on it.
        self.assertEqual(result.code, OUTCOME_CODES[verdict["outcome"]], str(result))
        self.assertEqual(document["exit_code"], result.code)
        self.assertTrue(result.out.startswith(verdict["headline"]), str(result))
        self.assertEqual(document["units"], ["rank 0", "rank 1", "rank 2", "rank 3"])
        self.assertEqual(sorted(cell[:2] for cell in verdict["matrix"]),
                         [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
        self.assertEqual(verdict["message_bytes"], 65536)
        for measured in verdict["measured_rounds"]:
            for group in measured["groups"]:
                self.assertGreater(group["bandwidth"], 0)
                self.assertIn(group["repetitions"], range(3, 11))  # fewer where it takes far too long

    def test_what_cannot_be_asked_is_refused(self):
        def refused(*options):
            return execute([BUSBAR, "locate", *options])

        self.fails(refused("--unit", "hosst"), 255, "did you mean host?")
        self.fails(refused("--iters", "3"), 255, "--iters", "no meaning")
        self.fails(refused("all_reduce"), 255, "all_reduce")
        self.fails(refused("--fail", "0.95"), 255, "--fail", "--warn")
        self.fails(self.locate(1, "-J", "/nowhere/x.json"), 255, "/nowhere/x.json")

    def test_a_dry_run_measures_nothing(self):
        result = self.ok(self.locate(2, "--dry-run", "--unit", "rank"))
        self.assertIn("2 ranks", result.out)
        self.assertIn("rounds", result.out)

    def test_one_rank_has_nobody_to_be_held_against(self):
        result = self.locate(1)
        self.assertEqual(result.code, 8, str(result))  # a script must not take it for a pass
        self.assertTrue(result.out.startswith("SKIP"), str(result))
        self.assertIn("mpirun -n N", result.out)
        for nonsense in ("noise", "take turns", "1 ranks", "0 B/s"):
            self.assertNotIn(nonsense, result.out)

    @unittest.skipUnless(shutil.which("taskset"), "no taskset")
    def test_ranks_that_share_a_core_are_not_judged(self):
        # It said "100 % of the units are faster than the others", which cannot be.
        what = "3 ranks share 1 core, so the scheduler decides which rank is slow: start at most 1 on a host"
        on_one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0))), suite.MPIRUN, "-n", "3"]
        if "hydra" not in suite.MPIRUN and "mpich" not in suite.MPIRUN:
            on_one_core += ["--bind-to", "none"]
        result = execute([*on_one_core, BUSBAR, "locate", "--backend", "mpi", "-b", "64K", "--repetitions", "10",
                          "--no-rank-probes", "--direction"])
        if result.code != 0:  # whatever was found between them
            self.assertEqual(result.code, 8, str(result))
            self.assertTrue(result.out.startswith(f"INCONCLUSIVE: {what}\n"), str(result))
        plan = self.write("pairs.yaml", "schema: 1\nstages: [pairs]\n")
        accepted = execute([*on_one_core, BUSBAR, "accept", plan, "--backend", "mpi"], cwd=self.folder.name)
        self.assertIn(what, " ".join(accepted.out.split()), str(accepted))

    def test_a_host_that_sends_slowly_is_named_with_its_direction(self):
        codes = self.hosts(4, """
            locate healthy
            vcluster rate node2 tx 50mbit
            locate sends --direction""")
        self.assertIn(codes["healthy"], (0, 8), self.document("healthy")["locate"]["headline"])
        self.assertEqual(codes["sends"], 7)
        culprits = self.document("sends")["locate"]["culprits"]
        self.assertEqual([c["units"] for c in culprits], [["node2"]])
        self.assertEqual(culprits[0]["side"], "transmit")
        self.assertEqual(culprits[0]["outcome"], "FAIL")
        self.assertEqual((culprits[0]["looks"], culprits[0]["looks_slow"]), (3, 3))
        # A tenth of the rate, and nobody faster than his link of 62.5e6 B/s; its bucket holds 128 KiB of 512.
        self.assertLess(culprits[0]["ratio"], 0.2)
        for cell in self.document("healthy")["locate"]["matrix"]:
            self.assertLess(cell[2], 62.5e6 / (1 - 128 / 512))


if __name__ == "__main__":
    suite.main()
