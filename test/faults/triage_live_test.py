"""busbar triage against live jobs with a fault that is known, one of each kind and each way to the hosts, in a minute;
scripts/triage/run_triage.py has the others. The bugs these would catch: a job that stands still and gets no answer, a rank
blamed that only waits, a healthy job blamed, a way to the hosts that does not work."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.environ.get("BUSBAR_SOURCE", os.path.join(HERE, "..", "..")), "scripts", "triage")
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), SCRIPTS]

import live_places  # noqa: E402
import run_triage  # noqa: E402
import suite  # noqa: E402
from live_job import Job  # noqa: E402

SKIPPED = 77
PATIENCE_S = 60
MPICH = bool(re.search("hydra|mpich", os.path.basename(suite.MPIRUN)))
OPTIONS = types.SimpleNamespace(build=suite.BUILD, python=sys.executable, mpirun=suite.MPIRUN, nap="1", record=False,
                                mpich_python="", jax_python="")


class Started(Job):
    def is_ready(self):
        """Its ranks are at the fault, or some steps are done."""
        if self.live.program == "all_reduce_perf":
            return "float" in self.log() if self.live.fault != "stop" else bool(self.stopped())  # of a row: the head scrolls away
        marks = glob.glob(os.path.join(self.folder, "fault.*"))
        if self.live.fault == "stop" and not self.stopped():
            return False
        return len(marks) == live_places.NRANKS

    def stopped(self):
        return [pid for pid in self.pids() if self.state(pid) == "T"]

    @staticmethod
    def state(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                return stat.read().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    def settle(self):
        end = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} did not come to its fault:\n{self.log()}")
            time.sleep(0.05)


class Triage(suite.Case):
    places = {}

    def place(self, name):
        try:
            if name not in self.places:
                self.places[name] = live_places.PLACES[name](OPTIONS)
        except subprocess.CalledProcessError as error:
            self.assertEqual(error.returncode, SKIPPED)
            self.skipTest(f"no {name} here")
        return self.places[name]

    def check_job(self, name, place_name, words="--apart 1"):
        """Until its last rank waits, a job moves: then it is looked at again. Nobody but the culprit may ever be blamed."""
        live, place = run_triage.LIVE[name]._replace(mpich=MPICH), self.place(place_name)
        folder = tempfile.mkdtemp(prefix="busbar_live_", dir=live_places.RUN)  # which all virtual hosts see, and goes with them
        job = Started(live, name, folder, place, OPTIONS)
        self.addCleanup(job.end)
        job.settle()
        options = types.SimpleNamespace(**vars(OPTIONS), words=words)
        for _ in range(20):
            steps = job.steps()
            document, _, text = run_triage.triage(job, place, options)
            stood_still = live.on >= 0 and steps == job.steps() > 0
            self.assertLessEqual(set(document["ranks"]), set(live.blamed), text + job.log())
            if document["verdict"] in live.verdicts:
                self.assertEqual(document["ranks"], list(live.blamed), text)
                return
            allowed = ("UNKNOWN",) if stood_still else (*run_triage.STILL, "UNKNOWN")
            self.assertIn(document["verdict"], allowed, text + job.log())
        self.fail(text + job.log())

    def test_a_healthy_job_is_blamed_for_nothing(self):
        self.check_job("perf_healthy", "local")

    def test_a_rank_that_skips_an_operation(self):
        self.check_job("perf_skip", "local")

    @suite.with_py_spy
    def test_a_rank_of_mpi_that_does_something_else(self):
        self.check_job("plain_mpi_skip", "local")

    def test_ranks_that_are_stopped_for_their_native_stacks_do_not_move(self):
        self.check_job("plain_mpi_skip", "local", "--apart 2 --stacks=native")

    def test_a_rank_that_is_stopped_over_an_agent_like_ssh(self):
        self.check_job("perf_stop", "hosts")

    def test_a_rank_that_was_killed_in_a_pod(self):
        self.check_job("plain_kill", "kube")

    def test_a_rank_that_is_stopped_under_slurm(self):
        self.check_job("plain_stop", "slurm")


if __name__ == "__main__":
    if "VC_SANDBOX" not in os.environ:  # jobs of others on this machine are not seen there; exit code 77: it cannot be had
        os.environ["VC_LIMIT"] = "550"
        os.execv(live_places.VCLUSTER, [live_places.VCLUSTER, "sandbox", sys.executable, *sys.argv])
    suite.main()
