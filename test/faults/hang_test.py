"""The bugs this would catch: a job that hangs and is not ended, or is ended without the right culprit, or leaves
something behind; a slow job that is taken for a hung one. Each on four virtual hosts (scripts/vcluster), two ranks
each; `make faults` runs all of them (docs/evidence/faults.md), `make test-more` some more of these."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.path.insert(0, os.path.join(os.environ.get("BUSBAR_SOURCE", os.path.join(HERE, "..", "..")), "scripts", "faults"))

import run_faults  # noqa: E402
import suite  # noqa: E402


class Hangs(suite.Case):
    def check_fault(self, name, launcher="mpirun"):
        result = run_faults.run(suite.BUILD, name, launcher)
        if "skipped" in result:
            print(result["skipped"], file=sys.stderr)
            self.skipTest(result["skipped"])
        self.assertEqual(result["wrong"], [], json.dumps(result, indent=1))

    def test_a_stopped_rank_is_named(self):
        self.check_fault("stop")

    def test_a_killed_rank_is_named_though_the_launcher_ends_the_job(self):
        self.check_fault("kill")

    def test_a_host_whose_ranks_are_all_killed_is_named(self):
        self.check_fault("kill_host_ranks")

    @suite.in_more
    def test_a_host_whose_watchers_a_firewall_refuses_is_not_blamed_for_a_stopped_rank_of_another(self):
        self.check_fault("firewall_late_reject_one_stop")

    def test_a_host_whose_watchers_a_firewall_refuses_is_not_blamed_when_a_healthy_job_is_ended(self):
        self.check_fault("firewall_late_reject_one_term")

    def test_a_host_that_is_cut_off_is_named_and_ends_its_ranks(self):
        self.check_fault("link_down")

    @suite.in_more
    def test_a_late_rank_is_named(self):
        self.check_fault("too_late")

    def test_a_rank_that_is_late_within_the_limit_is_no_hang(self):
        self.check_fault("late")

    @suite.in_more
    def test_a_stopped_rank_is_named_under_slurm(self):
        self.check_fault("stop", "salloc")


if __name__ == "__main__":
    if run_faults.run(suite.BUILD, "healthy", "mpirun").get("skipped"):
        sys.exit(run_faults.SKIPPED)
    suite.main()
