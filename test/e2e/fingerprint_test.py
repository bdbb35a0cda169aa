"""Would catch: a fingerprint that names an algorithm that did not run, a rules file believed though Open MPI ignores
it, and launches or files left behind."""

import glob
import json
import os
import signal
import subprocess
import tempfile
import time

import suite

LAUNCH = f"{suite.MPIRUN} -n 4"


def busbar(*arguments, env=None, cwd=None):
    return suite.execute([os.path.join(suite.BUILD, f"busbar{suite.SUFFIX}"), *arguments], env, cwd)


class Fingerprint(suite.Case):
    def fingerprint(self, *arguments, env=None):
        path = self.path("out.json")
        result = self.ok(busbar("fingerprint", *arguments, "--launch", LAUNCH, "-J", path, env=env))
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        return result, cases

    def sums(self, sent):
        return [(rank["messages"], rank["bytes"]) for rank in sent]

    def test_all_reduce_of_64_kib_on_4_ranks_looks_as_it_must(self):
        # By hand: m = 64 KiB, p = 4. Ring 2(p-1) messages of m/p; recursive doubling log2(p) of m; rabenseifner
        # 2 log2(p), 2(p-1)/p m in all; linear: all to rank 0, which sends it to all.
        k = 1024
        result, (case,) = self.fingerprint("all_reduce", "-b", "64K")
        looks = {a["name"]: self.sums(a["sent"]) for a in case["algorithms"] if "sent" in a}
        self.assertEqual(looks["ring"], [(6, 96 * k)] * 4)
        self.assertEqual(looks["recursive_doubling"], [(2, 128 * k)] * 4)
        self.assertEqual(looks["rabenseifner"], [(4, 96 * k)] * 4)
        self.assertEqual(looks["basic_linear"], [(3, 192 * k)] + [(1, 64 * k)] * 3)
        self.assertNotIn("segmented_ring", looks)
        self.assertEqual(case["consistent"], ["rabenseifner"])
        self.assertIn("in force: default", result.out)
        self.assertIn("4 messages, 96 KiB per rank", result.out)
        self.assertIn("{rabenseifner}", result.out)

    def test_a_rules_file_is_proved_by_its_effect(self):
        # Segments of 4 KiB on 4 ranks: 16 KiB go round at a time, 3 messages each to reduce, and 3 of m/p to gather.
        rules = self.write("rules", "1 2 1 4 # 9 digits in a comment 9\n2\n0 1 0 0\n8192 5 0 4096\n")
        result, (case,) = self.fingerprint("all_reduce", "-b", "64K", "--rules", rules)
        self.assertEqual(case["setting"], "rule:segmented_ring/4K")
        self.assertEqual(self.sums(case["sent"]), [(4 * 3 + 3, 96 * 1024)] * 4)
        self.assertEqual(case["consistent"], ["segmented_ring/4K"])
        self.assertEqual(self.sums(case["without_rules"]), [(4, 96 * 1024)] * 4)
        self.assertNotIn("changes nothing", result.out)

    def test_a_rules_file_that_is_ignored_is_called_so(self):
        rules = self.write("rules", "1 2 1 4 1 0 4 0")
        result = self.ok(busbar("fingerprint", "alltoallv", "--rules", rules, "--launch", f"{suite.MPIRUN} -n 2"))
        self.assertIn("file ignored: the file ends before a segment size", result.out)
        self.assertIn("the file changes nothing here", result.out)

    def test_show_algo_names_the_rule_in_force(self):
        rules = self.write("rules", "1 2 1 2 2 0 3 0 0 4096 4 0 0")
        settings = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_dynamic_rules_filename": rules}
        rows = self.ok(suite.perf("all_reduce", 2, "--sizes", "8,64K", "-n", "2", "-w", "0", "--show-algo",
                                  env=settings)).rows()
        self.assertEqual(len(rows), 2)
        self.assertIn("rule:recursive_doubling", rows[0])
        self.assertIn("rule:ring", rows[1])

    def test_a_forced_algorithm_is_shown_and_seen(self):
        settings = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_gather_algorithm": "1"}
        _, (case,) = self.fingerprint("gather", "-b", "1K", env=settings)
        self.assertEqual(case["setting"], "in force: basic_linear")
        self.assertEqual(case["consistent"], ["basic_linear"])
        self.assertEqual(self.sums(case["sent"]), [(0, 0)] + [(1, 256)] * 3)

    def test_what_cannot_be_is_an_error_that_says_why(self):
        self.fails(busbar("fingerprint", "all_reduce", "--algorithm", "rng"), 255, "did you mean ring?")
        self.fails(busbar("fingerprint"), 255, "which collective?")
        self.fails(busbar("fingerprint", "all_reduc"), 255, "did you mean all_reduce?")
        self.fails(busbar("fingerprint", "all_reduce", "-n", "5"), 255, "--iters has no meaning")
        self.fails(busbar("fingerprint", "all_reduce", "--segmentsize", "4K"), 255, "--algorithm")
        self.fails(busbar("fingerprint", "all_reduce", "-o", "avg", "--launch", LAUNCH), 5, "no average operation")
        self.fails(busbar("fingerprint", "reduce", "-r", "4", "--launch", LAUNCH), 5, "root 4 is none of 4 ranks")
        self.fails(busbar("fingerprint", "sendrecv", "--algorithm", "ring"), 5, "no algorithm to force")
        self.fails(busbar("fingerprint", "all_gather", "--algorithm", "two_proc", "--launch", LAUNCH), 5,
                   "two_proc needs 2 ranks, not 4")
        self.fails(busbar("fingerprint", "all_reduce", "--launch", "/nonexistent/mpirun"), 5, "cannot execute")
        self.fails(busbar("fingerprint", "all_reduce", "--launch", "mpirun -n {np}"), 255, "{cmd}")

    def test_an_interrupt_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            # The launcher tells when it runs; then the interrupt comes, whatever the machine's speed.
            script = self.write("launcher", "echo up >&2; touch " + self.path("up") + "; exec sleep 1000\n")
            command = [os.path.join(suite.BUILD, f"busbar{suite.SUFFIX}"), "fingerprint", "all_reduce", "--tmp", folder,
                       "--launch", f"sh {script}"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + suite.LIMIT_S
            while not os.path.exists(self.path("up")) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), -signal.SIGINT)
            self.assertEqual(glob.glob(os.path.join(folder, "*")), [])


if __name__ == "__main__":
    suite.main()
