"""Catches: a fault that --inject makes and nobody sees, one that breaks more than it says, and a --paranoid that lets
unequal calls through or ends a healthy run. With -w 0 -n 1 -c 1 a process's operations are 1 timed and 2 checked out of
place, 3 timed and 4 checked in place."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case, mpirun, perf  # noqa: E402

SMALL = ("-b", "64K", "-e", "64K", "-w", "0", "-n", "1")


def inject(fault, *options, collective="all_reduce", nranks=4, **settings):
    return perf(collective, nranks, *SMALL, "--inject", fault, *options, **settings)


class Data(Case):
    def test_wrong_data_are_found_and_the_rank_is_named(self):
        for kind, cause in (("flip", None), ("drop", "missing_contribution"), ("double", "doubled_contribution"),
                            ("shift", "shifted"), ("overrun", "guard_overwritten")):
            with self.subTest(kind):
                path = self.path(f"{kind}.json")
                result = inject(f"rank=1,op=2,kind={kind}", "-J", path, env=suite.AT_ONCE)
                self.assertEqual(result.code, 7, str(result))
                self.assertIn("# WARNING: rank 1 will", result.out)
                with open(path, encoding="utf-8") as file:
                    told = json.load(file)["busbar"]
                self.assertTrue([r for r in told["remarks"] if r.startswith("WARNING: rank 1 will")], told["remarks"])
                wrong = told["wrong"]
                self.assertTrue(wrong, str(result))
                if kind in ("drop", "double"):
                    self.assertEqual({(w["cause"], w["suspect_rank"]) for w in wrong}, {(cause, 1)})
                else:
                    self.assertEqual([w["rank"] for w in wrong], [1])
                    if cause:
                        self.assertEqual(wrong[0]["cause"], cause)

    def test_a_comparison_finds_wrong_data_too(self):
        result = mpirun(2, [os.path.join(suite.BUILD, "busbar" + suite.SUFFIX), "compare", "all_reduce", "--vary",
                            "ompi.algorithm=ring", "--backend", "mpi", "-b", "64K", "-e", "64K", "--max-time", "2",
                            "--inject", "rank=1,op=1,kind=flip"])
        self.assertEqual(result.code, 7, str(result))


class Process(Case):
    def inject(self, *arguments):
        """Where the report's JSON may lie."""
        return inject(*arguments, cwd=self.folder.name)

    def test_a_late_rank_spoils_nothing_and_was_late(self):
        # That it waits, when and how often: test/unit/injection_test.cpp.
        result = self.ok(inject("rank=2,op=1,kind=late:1ms"))
        self.assertIn("# WARNING: rank 2 will come 0.001 s late to its operation 1", result.out)
        self.assertNotIn("nothing was broken", result.err)

    def test_a_killed_rank_leaves_the_launchers_code(self):
        self.assertEqual(self.inject("rank=1,op=3,kind=kill").code, 128 + 9)

    def test_a_crash_is_one(self):
        self.assertEqual(self.inject("rank=1,op=3,kind=crash").code, 128 + 11)

    def test_a_stopped_rank_and_a_skipped_operation_end_at_the_limit(self):
        for kind, verdict in (("stop", "PROCESS_STOPPED"), ("skip", "RANK_LAGGING")):
            with self.subTest(kind):
                self.hangs(self.inject(f"rank=1,op=3,kind={kind}", "-T", "3"), verdict, "rank 1 on ")

    def test_a_mismatch_that_mpi_ends_is_told_with_rank_and_arguments(self):
        # Operation 1 is timed, 2 is checked: MPI's "message truncated" is the effect, its code stands.
        for op in (1, 2):
            with self.subTest(op=op):
                result = self.inject(f"rank=1,op={op},kind=count", "-T", "20")
                self.assertEqual(result.code, 3, str(result))
                self.assertIn("busbar: terminated: ARG_MISMATCH: rank 1 on ", result.err)
                self.assertIn(f"all_reduce #{op}, 64 KiB float sum with count 16383 instead of 16384, as 3 ranks do",
                              result.err)
                files = [name for name in os.listdir(self.folder.name) if name.startswith("hang-")]
                self.assertEqual(len(files), 1, str(result))
                path = self.path(files[0])
                with open(path, encoding="utf-8") as file:
                    told = json.load(file)
                self.assertEqual((told["verdict"], told["ranks"]), ("ARG_MISMATCH", [1]))
                os.remove(path)

    def test_a_fault_that_nobody_can_see_is_said_so_with_one_that_can_be_seen(self):
        # In place, operation 3 is timed and 4 checked.
        for kind in ("drop", "flip", "double", "shift")[:4 if suite.MORE else 2]:
            with self.subTest(kind):
                result = self.ok(inject(f"rank=1,op=3,kind={kind}"))
                self.assertIn("nobody sees what was broken: operation 3 of rank 1 is not checked; try op=4", result.err)
                result = inject(f"rank=1,op=4,kind={kind}", env=suite.AT_ONCE)
                self.assertEqual(result.code, 7, str(result))
                self.assertNotIn("nobody sees", result.err)
        # 4 bytes are no element of each of 4 ranks.
        result = self.ok(perf("all_gather", 4, "-b", "4", "-e", "4", "-w", "0", "-n", "1", "-c", "1", "--inject",
                              "rank=1,op=2,kind=flip"))
        self.assertIn("operation 2 of rank 1 has no data there", result.err)

    def test_a_fault_of_a_timed_call_that_the_check_meets_is_seen(self):
        # Each call writes another part of the buffer, of which the check reads one.
        result = perf("all_reduce", 2, "-b", "8", "-e", "64", "-f", "8", "-n", "5", "--inject",
                      "rank=1,op=2,kind=flip")
        self.assertEqual(result.code, 7, str(result))
        self.assertNotIn("nobody sees", result.err)

    def test_a_fault_that_never_came_is_said_so(self):
        result = self.ok(inject("rank=1,op=1000,kind=kill"))
        self.assertIn("nothing was broken: rank 1 made 4 operations, op=1000 never came", result.err)


class Paranoid(Case):
    def deviates(self, result, *words):
        self.fails(result, 6, "ARG_MISMATCH", "rank 1 on ", *words)
        self.assertNotIn("nothing was broken", result.err)

    def test_unequal_arguments_end_all_ranks_alike_before_the_call(self):
        for kind, *words in (("count", "with count 16383; the other 3 with count 16384"),
                             ("dtype", "with type ", "the other 3 with type float"),
                             ("op", "with op max; the other 3 with op sum")):
            with self.subTest(kind):
                self.deviates(inject(f"rank=1,op=3,kind={kind}", "--paranoid"), "in place", *words)

    def test_the_statistical_mode_and_comparisons_are_looked_at_too(self):
        # The operation must come however slow the machine is: it ends the run, so the limits may be generous.
        fault = "rank=1,op=20,kind=count"
        self.deviates(inject(fault, "--paranoid", "--stat", "--max-time", "60"), "count 16383")
        busbar = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
        self.deviates(mpirun(3, [busbar, "compare", "all_reduce", "--vary", "ompi.algorithm=ring", "--backend", "mpi",
                                 "-b", "64K", "-e", "64K", "--max-time", "60", "--paranoid", "--inject", fault]),
                      "count 16383")

    def test_healthy_ranks_and_groups_show_no_change_but_a_remark(self):
        for env in ({}, {"NCCL_TESTS_SPLIT": "MOD 2"}):
            result = self.ok(perf("all_gather", 3, "-b", "1K", "-e", "4K", "-f", "2", "--paranoid", env=env))
            self.assertEqual(len(result.rows()), 3, str(result))
            self.assertIn("# --paranoid:", result.out)


class Refused(Case):
    def test_what_cannot_be_broken_is_said_before_anything_runs(self):
        self.fails(inject("rank=4,op=1,kind=skip", env=suite.AT_ONCE), 255, "there is no rank 4: the job has ranks 0 to 3")
        self.fails(inject("rank=1,op=1,kind=op", collective="broadcast", env=suite.AT_ONCE), 255, "broadcast does not")
        self.fails(inject("rank=1,op=1,kind=skpi", nranks=1), 255, "did you mean skip?")
        self.fails(inject("rank=0,op=1,kind=skip", "-G", "1", nranks=1), 255, "--inject does not work with -G")


if __name__ == "__main__":
    suite.main()
