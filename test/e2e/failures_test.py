"""Catches: a job that hangs, a message per rank instead of one, a silent fall-back, a wrong exit code."""

import json
import os
import signal
import subprocess

import suite
from suite import Case, execute, mpirun, perf, program


class CommandLine(Case):
    def test_help_and_version_print_once(self):
        for nranks in (1, 3):
            result = self.ok(mpirun(nranks, [program("all_reduce"), "--help"]))
            self.assertEqual(result.out.count("usage:"), 1, str(result))
            result = self.ok(mpirun(nranks, [program("all_reduce"), "--version"]))
            self.assertEqual(result.out.count("busbar"), 1, str(result))

    def test_bad_options_are_one_message_that_helps(self):
        for options, words in (
            (["-n", "abc"], ["-n", "abc"]),
            (["-n", "0"], ["-n"]),
            (["-b", "0"], ["-b"]),
            (["-i", "0"], ["-i"]),
            (["-b", "12Q"], ["12Q"]),
            (["-b", "64M"], ["-e"]),
            (["-d", "floaty"], ["floaty", "bfloat16"]),
            (["-o", "mean"], ["mean", "mulsum"]),
            (["-r", "7"], ["7"]),
            (["--minbyte", "8", "--sizes", "8"], ["--sizes"]),
            (["--itres", "3"], ["--itres", "--iters"]),
            (["stray"], ["stray"]),
            (["-K", "3"], ["-I"]),
            (["--backend", "ucc"], ["ucc", "nccl"]),
        ):
            with self.subTest(options):
                self.fails(perf("all_reduce", 3, *options, env=suite.AT_ONCE), 255, *words)

    def test_what_the_backend_cannot_do_is_said_before_the_run(self):
        for options, words in (
            (["-G", "1"], ["-G", "mpi"]),
            (["-R", "1"], ["-R"]),
            (["-x", "1"], ["-x"]),
            (["-y", "1"], ["-y"]),
            (["-p", "1"], ["-p"]),
            (["-D", "1", "-R", "2"], ["-D", "is for GPUs"]),
            (["-g", "4"], ["mpirun -n 8"]),
            (["-t", "2"], ["mpirun -n 4"]),
        ):
            with self.subTest(options):
                self.fails(perf("all_reduce", 2, "-b", "1K", "-e", "1K", *options, env=suite.AT_ONCE), 5, *words)

    def test_nccl_without_a_gpu_is_an_error_with_the_remedy(self):
        if os.path.exists("/proc/driver/nvidia/version"):
            self.skipTest("this machine has an NVIDIA driver")
        self.fails(mpirun(2, [program("all_reduce"), "--backend", "nccl"]), 5, "--backend mpi")


@suite.in_full
class ConfigFile(Case):
    def test_a_file_sets_what_options_set_and_the_command_line_wins(self):
        path = self.write("run.yaml", "schema: 1\nminbytes: 1K\nmaxbytes: 4K\nstepfactor: 2\niters: 2\n")
        result = self.ok(perf("all_reduce", 2, "--config", path, "-e", "2K"))
        self.assertEqual([row[0] for row in result.rows()], ["1024", "2048"], str(result))

    def test_the_configs_that_we_ship_are_good(self):
        folder = os.path.join(os.path.abspath(os.environ.get("BUSBAR_SOURCE", ".")), "configs")
        # Those of compare have keys of their own: compare_test.py; plans of accept too: accept_plan_test.cpp.
        files = [os.path.join(folder, name) for name in os.listdir(folder)
                 if name.endswith(".yaml") and not name.startswith("compare-")]
        files = [path for path in files if "\ncells:" not in open(path, encoding="utf-8").read()]
        self.assertTrue(files)
        for path in files:
            with self.subTest(path):
                self.ok(perf("all_reduce", 2, "--config", path, "--dry-run"))

    def test_errors_name_file_line_and_valid_keys(self):
        path = self.write("run.yaml", "schema: 1\nminbytes: 8\nmaxbyte: 8\n")
        self.fails(perf("all_reduce", 3, "--config", path, env=suite.AT_ONCE), 255, path + ":3", "maxbyte", "maxbytes")
        path = self.write("type.yaml", "schema: 1\niters: [1, 2]\n")
        self.fails(perf("all_reduce", 3, "--config", path, env=suite.AT_ONCE), 255, path + ":2", "iters")
        self.fails(perf("all_reduce", 3, "--config", "/nonexistent.yaml", env=suite.AT_ONCE), 255, "/nonexistent.yaml")


class Launch(Case):
    def test_without_a_launcher_g_starts_its_own_ranks(self):
        result = execute([program("all_reduce"), "--backend", "mpi", "-g", "4", "-b", "1K", "-e", "1K"])
        self.ok(result)
        self.assertEqual(result.out.count("#  Rank"), 4, str(result))
        self.assertIn("mpirun", result.err)

    def test_one_process_alone_is_one_rank(self):
        result = self.ok(execute([program("all_reduce"), "--backend", "mpi", "-b", "1K", "-e", "1K"]))
        self.assertEqual(result.out.count("#  Rank"), 1, str(result))

    def test_separate_worlds_are_warned_about(self):
        # What another MPI's launcher leaves behind: its variables, and a world of one.
        result = self.ok(execute([program("all_reduce"), "--backend", "mpi", "-b", "1K", "-e", "1K"],
                                 env={"PMI_RANK": "0", "PMI_SIZE": "4"}))
        self.assertIn("warning", result.err)
        self.assertIn("4", result.err)

    def test_with_more_ranks_than_cores_the_header_says_whether_they_yield(self):
        nranks = len(os.sched_getaffinity(0)) + 2
        result = self.ok(perf("all_reduce", nranks, "-b", "8", "-e", "8"))
        yields = "library=Open MPI" in result.out or "library=Intel" in result.out
        self.assertIn("yielding when idle" if yields else "milliseconds, not microseconds", result.out)

    def test_a_reader_that_leaves_kills_no_rank(self):
        # Killed by SIGPIPE it would be one that is gone without a word, to be blamed by the others.
        result = mpirun(2, ["bash", "-c", 'exec "$0" --backend mpi -b 8 -e 1K -f 2 -J "$1" > >(exec true)',
                            program("all_reduce"), self.path("kept.json")])
        self.assertEqual(result.code, 9, str(result))
        self.assertIn("the table is incomplete", result.err)
        self.assertNotIn("PROCESS_DEAD", result.err)
        with open(self.path("kept.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["results"][-1]["size"], 1024)


class Memory(Case):
    def test_a_plan_is_shown_and_not_run(self):
        result = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "64K", "-f", "2", "--dry-run"))
        self.assertNotIn("Out of bounds", result.out)
        self.assertIn("65536", result.out)

    def test_sizes_beyond_memory_are_lowered_with_the_arithmetic(self):
        result = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "8T", "-f", "1048576", "--dry-run"))
        reducing = [line for line in (result.out + result.err).splitlines() if "Reducing maxBytes" in line]
        self.assertEqual(len(reducing), 1, str(result))
        self.assertIn(" x 0.8 / 2 ranks on this host x 2 / 3, because MPI itself may allocate", reducing[0])

    def test_a_first_size_beyond_memory_is_an_error(self):
        self.fails(perf("all_reduce", 2, "-b", "8T", "-e", "8T", env=suite.AT_ONCE), 5, "8 TiB")

    def test_a_long_plan_says_so(self):
        result = self.ok(perf("all_reduce", 1, "-b", "8", "-e", "2K", "-i", "8", "-n", "1", "-w", "0"))
        self.assertEqual(len(result.rows()), 256)
        self.assertIn("256 rows", result.err)
        self.assertIn("did you mean -f 2?", result.err)


class Signals(Case):
    """A rank that dies or stands still while an endless run is under way."""

    def signal_rank_1(self, number, *options):
        command = ["timeout", "-k", "5", str(suite.LIMIT_S), suite.MPIRUN, "-n", "3",
                   program("all_reduce"), "--backend", "mpi", "-b", "1K", "-e", "1K", "-N", "0", "-n", "5", *options]
        with subprocess.Popen(command, cwd=suite.SCRATCH.name, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            try:
                pid = None
                for line in job.stdout:
                    if line.startswith("#  Rank  1"):
                        pid = int(line.split("Pid")[1].split()[0])
                    if line.strip()[:1].isdigit():
                        break
                os.kill(pid, number)
                out, err = job.communicate(timeout=suite.LIMIT_S)
                return suite.Result(job.returncode, out, err)
            finally:
                job.kill()

    def test_a_killed_rank_ends_the_job(self):
        self.assertNotEqual(self.signal_rank_1(signal.SIGKILL).code, 0)

    def test_a_stopped_rank_ends_the_job_when_there_is_a_time_limit(self):
        result = self.signal_rank_1(signal.SIGSTOP, "-T", "3")
        self.hangs(result, "PROCESS_STOPPED", "rank 1 on ", "all_reduce", "1 KiB")


if __name__ == "__main__":
    suite.main()
