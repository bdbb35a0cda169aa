#!/usr/bin/env python3
"""A build without MPI (make MPI=0). Would catch: a program that needs libmpi to start after all, `-g` that starts nothing,
a launcher that only MPI understands and whose ranks each run alone, and advice that such a build cannot follow."""

import os
import signal
import subprocess

import suite
from env_launch_test import ALL_REDUCE, SMALL, Ranks, lines_of

BUSBAR = os.path.join(suite.BUILD, "busbar")
WITHOUT = "this busbar was built without MPI"


class NoMpi(suite.Case):
    def sizes(self, result):
        return [row[0] for row in self.ok(result).rows()]

    def test_nothing_needs_mpi_to_start(self):
        for built in (ALL_REDUCE, BUSBAR):
            listed = subprocess.run(["readelf", "-d", built], check=True, text=True, stdout=subprocess.PIPE).stdout
            self.assertNotRegex(listed, r"NEEDED.*lib(mpi|mpich|open-rte|pmix)")

    def test_dash_g_starts_the_ranks_of_this_host(self):
        for options in (("-g", "3"), ("-t3",), ("-t", "3", "-g1")):
            done = suite.execute([ALL_REDUCE, *SMALL, *options])
            self.assertEqual(self.sizes(done), ["8", "64"])
            self.assertIn("3 processes over TCP", done.out)
            self.assertRegex(done.out, r"(?m)^#  Rank  2 ")
        alone = suite.execute([ALL_REDUCE, *SMALL])
        self.assertEqual(self.sizes(alone), ["8", "64"])
        self.assertIn("for more: -g N", alone.out)

    def test_stale_variables_do_not_count_for_them(self):
        stale = dict(os.environ, SLURM_STEP_NUM_TASKS="8", SLURM_PROCID="5", SLURM_PTY_PORT="1", MASTER_PORT="1",
                     MASTER_ADDR="no-such-host.invalid")
        self.assertIn("3 processes over TCP", self.ok(suite.execute([ALL_REDUCE, *SMALL, "-g", "3"], env=stale)).out)

    def test_a_killed_rank_ends_the_others(self):
        run = subprocess.Popen([ALL_REDUCE, "-b", "1K", "-e", "1K", "-N", "0", "-g", "3"], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        table = [line for _ in range(14) if (line := run.stdout.readline())]  # it measures
        children = subprocess.run(["pgrep", "-P", str(run.pid)], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
        self.assertEqual(len(children), 2, "".join(table))
        os.kill(int(children[0]), signal.SIGKILL)
        _, said = run.communicate(timeout=60)
        self.assertEqual(said.count("PROCESS_DEAD: "), 1, said)
        self.assertNotEqual(run.returncode, 0)

    def test_srun_with_pmi_needs_none(self):
        job = Ranks(self.folder.name, 2, SLURM_STEP_NUM_TASKS="2", SLURM_JOB_ID="7", SLURM_STEP_ID="0", PMIX_RANK="0",
                    SLURM_STEP_NODELIST="localhost")
        for rank in range(2):
            job.start(None, [ALL_REDUCE, *SMALL], SLURM_PROCID=str(rank))
        first, second = job.results()
        self.assertEqual(self.sizes(first), ["8", "64"])
        self.assertEqual(self.ok(second).out, "")

    def test_what_only_mpi_can_do_is_refused(self):
        as_mpirun = Ranks(self.folder.name, 2)
        for rank in range(2):
            as_mpirun.start(None, [ALL_REDUCE, *SMALL], OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK=str(rank))
        results = as_mpirun.results()
        self.assertEqual(results[0].code, 5)
        self.assertEqual(len(lines_of(results)), 1, "\n".join(map(str, results)))
        self.assertIn("Open MPI's mpirun started this, and " + WITHOUT, lines_of(results)[0])
        self.fails(suite.execute([ALL_REDUCE, "--launcher", "mpi"]), 5, WITHOUT, "torchrun", "WORLD_SIZE")
        listed = self.fails(suite.execute([ALL_REDUCE, "--backend", "mpi"]), 5, WITHOUT, "--backend gloo")
        self.assertNotIn("mpirun", str(listed))


if __name__ == "__main__":
    suite.main()
