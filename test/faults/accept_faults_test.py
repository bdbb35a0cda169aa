"""The bugs this would catch: `busbar accept` that fails a healthy cluster, passes a sick one, or blames the wrong host.
Three faults and a healthy run on four virtual hosts (scripts/vcluster), two ranks each; `make faults ARGS=--acceptance`
runs all of them (docs/evidence/faults.md)."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "scripts", "faults"))

import run_acceptance  # noqa: E402
import suite  # noqa: E402

SKIPPED = 77
# So short that several runs fit into a test; what takes a search of pairs has the whole plan.
SHORT = os.path.join(HERE, "accept_faults.yaml")
WHOLE = os.path.join(SOURCE, run_acceptance.PLAN)


class Accept(suite.Case):
    def check_fault(self, name, plan=SHORT):
        result = run_acceptance.run(suite.BUILD, name, 4, plan)
        if "skipped" in result:
            print(result["skipped"], file=sys.stderr)
            self.skipTest(result["skipped"])
        self.assertEqual(result["wrong"], [], json.dumps(result, indent=1))

    def test_a_healthy_cluster_does_not_fail(self):
        self.check_fault("healthy")

    @suite.in_more  # a search of pairs: 80 s, nearly all of them transfers over the slow link
    def test_a_slow_link_is_named(self):
        self.check_fault("slow_link_tx", WHOLE)

    def test_a_rank_with_wrong_data_is_named(self):
        self.check_fault("wrong_data")

    def test_another_mtu_on_one_host_is_named(self):
        self.check_fault("mtu")


if __name__ == "__main__":
    if suite.execute([run_acceptance.VCLUSTER, "sandbox", "true"]).code == SKIPPED:
        sys.exit(SKIPPED)
    suite.main()
