"""Catches: what no stand-in for NCCL has: its host side as it is, its lock-step, its RAS, its refusals, its plugin calls.

All collectives over the real library by processes, threads and groups, with graphs, registered buffers, windows and
splits; comm_perf's life cycles, --show-algo, --show-prediction, --inject's faults. Without the front every element is
wrong, or a test that is right would prove nothing.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import real_library  # noqa: E402
import suite  # noqa: E402
from real_library import RealCase, from_version  # noqa: E402

SIZES = ("-b", "64", "-e", "16K", "-f", "16", "-n", "2", "-w", "1", "-T", "60")


class Data(RealCase):
    def test_every_collective_by_processes(self):
        for collective in suite.WITH_DATA:
            with self.subTest(collective):
                nranks = 4 if collective in ("hypercube", "pingpong") else 3
                self.right(self.library.ranks(nranks, collective, *SIZES, "-d", "int32"))

    def test_threads_groups_graphs_and_registered_buffers(self):
        ways = ("-g 2", "-t 2", "-t 2 -g 2", "-g 8", "-g 2 -G 2", "-t 2 -G 2", "-g 2 -R 1", "-g 2 -m 3", "-t 4 -p 1")
        for way in ways + (("-g 2 -R 2", "-t 2 -R 2 -G 1") if self.version >= (2, 27) else ()):
            for collective in ("all_reduce", "alltoall", "broadcast"):
                with self.subTest(f"{collective} {way}"):
                    self.right(self.library.run(collective, *way.split(), *SIZES, "-d", "int32"))

    def test_every_type_and_operation(self):
        for collective in ("all_reduce", "reduce_scatter"):
            self.right(self.library.ranks(2, collective, "-b", "4K", "-e", "4K", "-n", "1", "-d", "all", "-o", "all"))

    def test_graphs_windows_and_splits_by_processes(self):
        self.right(self.library.ranks(2, "all_gather", *SIZES, "-G", "3"))
        self.right(self.library.ranks(2, "reduce_scatter", *SIZES, "-R", "1"))
        if self.version >= (2, 27):
            self.right(self.library.ranks(2, "all_reduce", *SIZES, "-R", "2"))
        if self.version >= (2, 28):  # by copy engines
            self.right(self.library.ranks(2, "alltoall", *SIZES, "-R", "2", "-x", "2"))
        self.right(self.library.ranks(4, "all_reduce", *SIZES, NCCL_TESTS_SPLIT="MOD 2"))

    def test_every_transport(self):
        for settings in ({"NCCL_P2P_LEVEL": "SYS"}, {"NCCL_P2P_LEVEL": "SYS", "NCCL_CUMEM_ENABLE": "0"},
                         {"NCCL_CUMEM_HOST_ENABLE": "0"}, {"FAKE_NO_PEERS": "1"}, real_library.NVSWITCH):
            with self.subTest(settings):
                self.right(self.library.ranks(2, "sendrecv", *SIZES, **settings))
                self.right(self.library.run("all_reduce", "-g", "2", *SIZES, **settings))

    def test_without_the_front_every_element_is_wrong(self):
        result = self.library.ranks(2, "all_reduce", "-b", "64", "-e", "64", "-n", "1", "-d", "int32",
                                    home=self.library.alone, **suite.AT_ONCE)
        self.assertEqual(result.code, 7, str(result))
        row = result.rows()[0]
        self.assertEqual((row[8], row[12]), ("32", "32"), str(result))  # 16 elements on each rank, in both places


class Told(RealCase):
    def show(self, collective, *options, **settings):
        """Of each row: algorithm, protocol, channels."""
        result = self.right(self.library.ranks(4, collective, *SIZES, "--show-algo", *options, **settings))
        return [row[13:] for row in result.rows()]

    def test_a_version_without_the_profiler_interface_is_named(self):
        if self.version >= (2, 27):
            self.skipTest("this one has it")
        result = self.right(self.library.ranks(2, "all_reduce", *SIZES, "--show-algo", "--show-prediction"))
        self.assertEqual({row[13] for row in result.rows()}, {"unknown"})
        self.assertIn("# --show-algo: NCCL 2.%d.%d does not report what it runs" % self.version[1:], result.out)

    @from_version(2, 27)
    def test_what_ran_is_what_the_real_profiler_interface_says(self):
        for algorithm, protocol, nch in self.show("all_reduce"):
            self.assertIn((algorithm, protocol), [(a, p) for a in ("RING", "TREE") for p in ("LL", "LL128", "SIMPLE")])
            self.assertIn(nch, "12")
        # Without NVLinks 2.30 takes rings.
        self.assertLessEqual({row[1] for row in self.show("all_reduce", "-R", "2")}, {"sym", "LL"})
        self.assertEqual({row[0] for row in self.show("alltoall")}, {"p2p"})
        switched = self.show("all_reduce", "-R", "2", **real_library.NVSWITCH)
        self.assertTrue(all("MC" in row[0] for row in switched), switched)  # by multicast

    @from_version(2, 27)
    def test_predictions_are_the_librarys_own(self):
        result = self.right(self.library.ranks(2, "all_reduce", *SIZES, "--show-algo", "--show-prediction"))
        for row in result.rows():
            self.assertGreater(float(row[16]), 0, str(result))  # [us]

    @from_version(2, 27)
    def test_a_table_of_our_tuner_decides(self):
        table = self.write("table.csv", "allreduce,0,8192,tree,simple,-1,-1,-1\n")
        shown = self.show("all_reduce", NCCL_TUNER_PLUGIN=os.path.join(suite.BUILD, "libbusbar_tuner.so"),
                          NCCL_TUNER_CONFIG_FILE=table)
        self.assertEqual([row[:2] == ["TREE", "SIMPLE"] for row in shown], [True, True, False], shown)

    def test_every_call_makes_a_launch(self):
        trace = self.path("trace")
        self.right(self.library.run("all_reduce", "-g", "2", "-b", "64", "-e", "64", "-n", "5", "-w", "3",
                                    FAKE_CUDA_TRACE=trace))
        with open(trace, encoding="utf-8") as file:
            launches = [line for line in file if " cuLaunchKernelEx 0" in line or " cudaLaunchKernelExC 0" in line]
        # Of each GPU and placement: warm-up, 5 timed, one checked.
        self.assertEqual(len([line for line in launches if " gpu 1 " in line]) * 2, len(launches))
        self.assertGreaterEqual(len(launches), 2 * 2 * (5 + 1))

    def test_communicators_live_and_end(self):
        result = self.ok(self.library.ranks(3, "comm", "-n", "2"))
        steps = {row.split()[0] for row in result.out.splitlines() if row[:2] == "  " and row.strip()}
        self.assertLessEqual({"create", "first-op", "next-op", "split", "abort", "re-create", "free"}, steps)
        self.ok(self.library.run("comm", "-t", "2", "-n", "1"))

    def test_settings_are_compared_over_communicators_of_their_own(self):
        result = self.ok(self.library.run("compare", "all_reduce", "-g", "2", "--sizes", "1K", "-d", "int32", "--max-time",
                                          "2", "--vary", "nccl.ctas=2"))
        self.assertIn("0 WRONG", result.out)


if __name__ == "__main__":
    real_library.skip_unless_given()
    suite.main()
