#!/usr/bin/env python3
"""The bug this would catch: doctor needs MPI on a node where MPI does not start, a node that differs is not named, or a
failed check does not reach the exit code."""

import json
import os
import unittest

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
MACHINES = os.path.join(os.environ.get("BUSBAR_SOURCE", "."), "test", "doctor")


def machine(name):
    with open(os.path.join(MACHINES, name + ".txt"), encoding="utf-8") as file:
        return file.read()


class Doctor(suite.Case):
    def doctor(self, *options, **settings):
        return suite.execute([BUSBAR, "doctor", *options], **settings)

    def recorded(self, name, more="", *options):
        return self.doctor("--recorded", self.write("machine.txt", machine(name) + more), *options)

    def report(self, name, host, more=""):
        """The JSON of a recorded node."""
        path = self.path(host + ".json")
        self.recorded(name, f"{more}host {host}\n", "-J", path)
        return path

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_this_node_without_a_launcher(self):
        done = self.doctor("-J", self.path("a.json"), "-v")
        self.assertIn(done.code, (0, 7), str(done))
        self.assertRegex(done.out, r"^doctor: (OK|WARN|FAIL): 1 node; \d+ FAIL, \d+ WARN, \d+ SKIP, \d+ OK\n")
        self.assertIn("host.shm", done.out)
        document = self.load(self.path("a.json"))
        self.assertEqual(document["verdict"] == "FAIL", done.code == 7)
        self.assertEqual(document["nodes"][0]["ranks"], [])
        checks = {row["check"] for row in document["nodes"][0]["rows"]}
        self.assertLess({"host.memlock", "host.shm", "version.kernel", "rank.cpus"}, checks)

    def test_every_rank_of_a_job(self):
        done = suite.mpirun(3, ["sh", "-c", f'[ $OMPI_COMM_WORLD_RANK = 1 ] && export NCCL_ALGO=Ring; exec {BUSBAR} doctor -J '
                                f'{self.path("job.json")}'])
        self.assertEqual(done.code, 7, str(done))
        self.assertEqual(done.out.count("doctor: FAIL: 1 node"), 1, str(done))
        self.assertRegex(done.out, r"NCCL_ALGO: none on \S+ ranks 0,2, Ring on \S+ rank 1")
        document = self.load(self.path("job.json"))
        self.assertEqual(document["nodes"][0]["ranks"], [0, 1, 2])
        self.assertEqual(document["verdict"], "FAIL")

    def test_local_in_a_job_starts_no_mpi(self):
        """One process per node speaks, though libmpi would find nobody."""
        done = suite.mpirun(2, [BUSBAR, "doctor", "--local"])
        self.assertIn(done.code, (0, 7), str(done))
        self.assertEqual(done.out.count("doctor: "), 1, str(done))

    def test_nothing_is_found_on_a_healthy_machine(self):
        done = self.ok(self.recorded("dgx_h100"))
        self.assertTrue(done.out.startswith("doctor: OK: 1 node; 0 FAIL, 0 WARN, "), str(done))

    def test_exit_codes(self):
        self.assertEqual(self.recorded("dgx_h100", "limit memlock 65536\n").code, 7)
        warned = "limit stack unlimited\n"
        self.ok(self.recorded("dgx_h100", warned))
        self.assertEqual(self.recorded("dgx_h100", warned, "--strict").code, 7)

    def test_merge_names_the_odd_node(self):
        port = "file /sys/class/infiniband/mlx5_3/ports/1/"
        files = [self.report("dgx_h100", f"node{i}") for i in range(4)]
        files.append(self.report("dgx_h100", "node7", f"note nccl.loaded 2.27.3\n{port}state 1: DOWN\n"
                                 f"{port}phys_state 2: Polling\n"))
        done = self.doctor("--merge", *files, "-J", self.path("all.json"))
        self.assertEqual(done.code, 7, str(done))
        self.assertIn("version.libnccl: 2.28.9 on 4 nodes, 2.27.3 on node7", done.out)
        self.assertIn("\n1 of 5 nodes: node7\n  FAIL rdma.state mlx5_3: 1: DOWN, 2: Polling; ", done.out)
        self.assertIn("       do: swap cable", done.out)
        # The same node again is one node, and what was joined can be joined again.
        self.assertEqual(self.doctor("--merge", *files, files[0]).out, done.out)
        self.assertEqual(self.doctor("--merge", self.path("all.json")).out, done.out)

    def test_diff_tells_what_changed(self):
        old = self.report("dgx_h100", "node1", "now 1763700000.0\n"
                          "file /sys/class/infiniband/mlx5_3/ports/1/counters/link_downed 0\n")
        more = ("host node1\nnow 1763703600.0\nkernel 6.8.0\n"
                "file /sys/class/infiniband/mlx5_3/ports/1/counters/link_downed 2\n")
        done = self.recorded("dgx_h100", more, "--diff", old)
        self.assertIn(", 60 min ago\n", done.out)
        self.assertIn("  node1 version.kernel: was OK 5.15.0-1058-nvidia, is OK 6.8.0\n", done.out)
        self.assertRegex(done.out, r"^doctor: FAIL: (.*\n)*  FAIL counter.link_downed mlx5_3/1: \+2 in 3600 s")
        self.assertEqual(done.code, 7, str(done))
        same = self.recorded("dgx_h100", "host node1\n", "--diff", old)
        self.assertIn("nothing changed", same.out)
        self.ok(same)

    def test_bad_use_is_one_message(self):
        broken = self.write("broken.json", '{"schema_version":1')
        for words, said in ((["x.json"], "--merge"), (["--merge"], "--local"), (["--merge", broken], "broken.json"),
                            (["--merge", self.path("none.json")], "none.json"), (["-b", "8"], "minbytes"),
                            (["--diff", broken], "broken.json"), (["--merge", broken, "--local"], "either"),
                            (["--locla"], "--local"), (["-J", "/none/x.json"], "/none/x.json")):
            with self.subTest(words=words):
                self.fails(self.doctor(*words), 255, said)
        self.assertIn("--merge", self.ok(self.doctor("--help")).out)

    def test_an_earlier_report_is_kept(self):
        path = self.path("a.json")
        self.doctor("-J", path)
        done = self.doctor("-J", path)
        self.assertIn("a.json.0", done.err)
        self.assertEqual(self.load(path)["document"], self.load(path + ".0")["document"])


if __name__ == "__main__":
    suite.main()
