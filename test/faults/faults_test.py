"""Catches: a detector that never fires. Every fault that changes the result must be reported as wrong, with the cause
where the data determine it; a throw must end the job with 3 and name the rank, a stall with 4 and name the step."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import suite  # noqa: E402
from suite import Case, mpirun  # noqa: E402

FAULTY = os.path.join(suite.BUILD, "test", "faulty_perf")
RANK = 1
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatterv")
DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2")


def faulty(collective, fault, *options, nranks=4, env=None):
    """With -w 0 -n 1 -c 1 the calls are: 0 timed and 1 checked out of place, 2 timed and 3 checked in place."""
    return mpirun(nranks, [FAULTY, collective, fault, "--backend", "mpi", "-b", "64K", "-e", "64K", "-w", "0", "-n",
                           "1", "-r", str(RANK), *options], env)


class Wrong(Case):
    def expect(self, collective, fault, *options, **settings):
        path = self.path(f"{collective}.{fault.replace(':', '_')}.{len(os.listdir(self.folder.name))}.json")
        result = faulty(collective, fault, *options, "-J", path, env=suite.AT_ONCE, **settings)
        self.assertEqual(result.code, 7, str(result))
        self.assertIn("FAILED", result.line("# Out of bounds values"))
        self.assertIn("# wrong:", result.err)
        with open(path, encoding="utf-8") as file:
            wrong = json.load(file)["busbar"]["wrong"]
        self.assertTrue(wrong, str(result))
        return result, wrong

    def test_a_flipped_bit_is_found_wherever_a_result_is_received(self):
        for collective in suite.WITH_DATA:
            # A broadcast's root receives nothing out of place, a scatterv's root has no block of its own, and a
            # gather's other ranks receive nothing: break a rank that does.
            rank = 0 if collective in ("broadcast", "scatterv") else RANK
            with self.subTest(collective):
                # Wrong data of the timed loop are not followed by a check: so every second call is, of two rows in turn,
                # the timed one and the check in place, then both checks.
                _, wrong = self.expect(collective, f"flip:{rank}:0+2", "-N", "2")
                expected = [(0, "out-of-place recv (timed loop)"), (1, "out-of-place recv (check)")]
                if collective not in suite.NO_IN_PLACE:
                    expected += [(0, "in-place (check)"), (1, "in-place (check)")]
                self.assertEqual(sorted((entry["cycle"], entry["buffer"]) for entry in wrong), sorted(expected))
                for entry in wrong:
                    self.assertEqual((entry["rank"], entry["wrong"]), (rank, 1))
                    self.assertEqual(entry["first"], entry["last"])

    def by_type(self, wrong):
        """Causes and suspects of what was wrong."""
        told = {}
        for entry in wrong:
            told.setdefault(entry["dtype"], set()).add((entry["cause"], entry["suspect_rank"]))
        return told

    def test_a_dropped_contribution_names_its_rank(self):
        for collective in REDUCING:
            for op in ("sum", "prod"):
                with self.subTest(f"{collective} {op}"):
                    _, wrong = self.expect(collective, f"drop:{RANK}:1+4", "-o", op, "-d", "all")
                    told = self.by_type(wrong)
                    self.assertEqual(set(told), set(DTYPES))
                    for dtype in ("float", "int32", "half", "bfloat16", "double", "int64"):
                        self.assertEqual(told[dtype], {("missing_contribution", RANK)}, dtype)

    def test_a_block_that_never_arrived_names_its_rank(self):
        for collective in ("all_gather", "alltoall", "alltoallv", "gather", "broadcast", "scatter", "sendrecv",
                           "all_gatherv", "scatterv"):
            with self.subTest(collective):
                _, wrong = self.expect(collective, f"drop:{RANK}:1")
                for entry in wrong:
                    self.assertEqual((entry["cause"], entry["suspect_rank"]), ("missing_contribution", RANK))

    def test_a_block_that_never_arrived_in_place_names_its_rank(self):
        for collective in suite.REPLACING:
            with self.subTest(collective):
                _, wrong = self.expect(collective, f"drop:{RANK}:3")
                for entry in wrong:
                    self.assertEqual((entry["cause"], entry["suspect_rank"], entry["buffer"]),
                                     ("missing_contribution", RANK, "in-place (check)"))

    def test_a_doubled_contribution_names_its_rank(self):
        for collective in REDUCING:
            with self.subTest(collective):
                _, wrong = self.expect(collective, f"double:{RANK}:1+4", "-d", "all")
                told = self.by_type(wrong)
                for dtype in ("float", "int32", "double"):
                    self.assertEqual(told[dtype], {("doubled_contribution", RANK)}, dtype)

    def test_a_shifted_result_is_called_so(self):
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "sendrecv"):
            with self.subTest(collective):
                _, wrong = self.expect(collective, f"shift:{RANK}:1")
                self.assertEqual(wrong[0]["cause"], "shifted")
                self.assertIn("1 element", wrong[0]["explanation"])

    def test_a_write_past_the_end_is_called_so(self):
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
            with self.subTest(collective):
                _, wrong = self.expect(collective, f"overrun:{RANK}:1")
                self.assertEqual(wrong[0]["cause"], "guard_overwritten")
                self.assertIn("guard after recv", wrong[0]["buffer"])

    def test_an_earlier_result_is_called_stale(self):
        _, wrong = self.expect("all_reduce", f"stale:{RANK}:1")
        self.assertEqual(wrong[0]["cause"], "stale")

    def test_every_dtype_and_op_is_really_checked(self):
        for op in ("sum", "prod", "max", "min"):
            with self.subTest(op):
                _, wrong = self.expect("all_reduce", f"flip:{RANK}:1+4", "-d", "all", "-o", op)
                self.assertEqual({entry["dtype"] for entry in wrong}, set(DTYPES))

    def test_the_sweep_goes_on_after_a_wrong_row(self):
        result = faulty("all_reduce", f"flip:{RANK}:1", "-e", "256K", "-f", "2")
        self.assertEqual([row[8] == "0" for row in result.rows()], [False, True, True], str(result))
        self.assertEqual(result.code, 7)


class Failing(Case):
    def test_a_throw_ends_the_job_and_names_rank_host_and_step(self):
        for call in (0, 1, 3) if suite.MORE else (0, 3):
            with self.subTest(call):
                result = faulty("all_reduce", f"throw:{RANK}:{call}")
                self.fails(result, 3, f"rank {RANK} on ", "all_reduce of 64 KiB float sum", "injected failure",
                           "in place" if call == 3 else "out of place")

    def test_a_stall_ends_the_job_and_names_the_step(self):
        stalls = (("all_reduce", 0, "timed loop"), ("all_gather", 1, "check"), ("broadcast", 3, "check"))
        for collective, call, step in stalls[:3 if suite.MORE else 2]:
            with self.subTest(collective):
                self.hangs(faulty(collective, f"stall:{RANK}:{call}", "-T", "3"), "STUCK_INSIDE", step, collective)


if __name__ == "__main__":
    suite.main()
