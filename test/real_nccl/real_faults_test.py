"""Catches: a hang over the real NCCL that is judged wrong or never ends, evidence of its RAS that is not read, and a
refusal of NCCL or CUDA that a user cannot understand."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import real_library  # noqa: E402
import suite  # noqa: E402
from real_library import RealCase  # noqa: E402

# With -w 0 -n 1 -c 1 operation 3 is the timed one in place.
ONE = ("-b", "64K", "-e", "64K", "-w", "0", "-n", "1")


class Hangs(RealCase):
    def inject(self, kind, *options, nranks=3, **settings):
        return self.library.ranks(nranks, "all_reduce", *ONE, "--inject", f"rank=1,op=3,kind={kind}", *options, **settings)

    def hangs(self, result, verdict, *words):
        super().hangs(result, verdict, *words)
        if self.version >= (2, 24):  # the first with RAS
            self.assertIn("busbar:   NCCL's RAS on ", result.err)
        return result

    def test_a_stopped_rank_is_the_one_that_ras_misses(self):
        result = self.hangs(self.inject("stop", "-T", "6"), "PROCESS_STOPPED", "rank 1 on ")
        if self.version >= (2, 24):
            self.assertRegex(result.err, r"communicator (0x)?[0-9a-f]+: rank 1 missing")

    def test_a_rank_that_lags_has_launched_less_as_ras_says(self):
        result = self.hangs(self.inject("skip", "-T", "6"), "RANK_LAGGING", "rank 1 on ", "never entered all_reduce #3")
        if self.version >= (2, 24):  # which counts all calls of a communicator as one
            self.assertRegex(result.err, r"rank 1 launched (AllReduce|operation) 2, ranks? 0,2 launched \1 3")

    def test_unequal_calls_never_end_and_are_told(self):
        for kind, word in (("count", "count 16383"), ("dtype", "int"), ("op", "float max")):
            with self.subTest(kind):
                self.hangs(self.inject(kind, "-T", "6"), "ARG_MISMATCH", "rank 1 on ", word)
        self.fails(self.inject("count", "--paranoid"), 6, "ARG_MISMATCH", "rank 1 on ")

    def test_a_killed_rank_is_named(self):
        result = self.inject("kill", "-T", "20")
        self.assertEqual(result.code, 128 + 9, str(result))
        self.assertIn("busbar: terminated: PROCESS_DEAD: rank 1 on ", result.err)

    def test_a_late_rank_only_costs_time(self):
        self.right(self.inject("late:50ms", "-T", "20"))


class Refusals(RealCase):
    def test_gpus_that_cannot_be_used(self):
        for settings, options, code, words in (
                ({"FAKE_NO_IMAGE": "1"}, (), 3, "no kernel image is available for execution on the device"),
                ({"FAKE_GPU_BYTES": "60000000"}, (), 5, "not enough memory for the first size"),
                ({"FAKE_GPUS": "0"}, ("--backend", "nccl"), 5, "there is no NVIDIA GPU"),
                ({"CUDA_VISIBLE_DEVICES": "0"}, (), 5, "2 ranks but 1 usable GPU"),
                ({"CUDA_VISIBLE_DEVICES": "0", "FAKE_EXCLUSIVE": self.folder.name}, ("--ranks-per-gpu", "2"), 5,
                 "GPU 0 takes no further process")):
            with self.subTest(settings):
                result = self.library.ranks(2, "all_reduce", *ONE, *options, **settings, **suite.AT_ONCE)
                self.assertEqual(result.code, code, str(result))
                self.assertIn(words, result.err)

    def test_older_gpus_and_drivers(self):
        result = self.right(self.library.ranks(2, "all_reduce", *ONE, "-d", "half,f8e4m3", FAKE_CAPABILITY="80"))
        self.assertIn("f8e4m3", result.err)
        self.right(self.library.ranks(2, "all_reduce", *ONE, FAKE_DRIVER="12020"))


if __name__ == "__main__":
    real_library.skip_unless_given()
    suite.main()
