#!/usr/bin/env python3
"""The bugs these would catch: an exit code that does not fit the verdict, a pipe, device, binary or missing file that
hangs or crashes `busbar diagnose`, JSON that is none, evidence beside the logs (RAS, kernel, flight records, PyTorch)
that is not taken for what it is, and a verdict that says nothing of what was read.

What verdict a log of NCCL deserves is asked by synthetic_logs_test.py and golden_logs_test.py.
"""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import unittest
from fractions import Fraction

import suite

sys.path.append(os.path.join(suite.ROOT, "test", "logs"))

from nccl_shapes import RAS

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
NRANKS = 4


def init(rank, *, complete=True, nranks=NRANKS):
    """A rank's log of its start, as NCCL 2.28.9 writes it, one process per rank."""
    prefix = f"node{rank // 2}:{1000 + rank}:{1000 + rank} [0] "
    comm = (f"ncclCommInitRank comm 0x5{rank}0 rank {rank} nranks {nranks} cudaDev 0 nvmlDev 0 busId 1000 "
            "commId 0xabcdef0123456789 - Init ")
    lines = [prefix + "NCCL INFO NCCL version 2.28.9+cuda13.0", prefix + "NCCL INFO " + comm + "START"]
    if complete:
        lines.append(prefix + "NCCL INFO " + comm + "COMPLETE")
    return lines


def call(rank, number, *, op="AllReduce", count=1024):
    prefix = f"node{rank // 2}:{1000 + rank}:{1000 + rank} [0] "
    return (f"{prefix}NCCL INFO {op}: opCount {number:x} sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 op 0 "
            f"root 0 comm 0x5{rank}0 [nranks={NRANKS}] stream 0x3")


def destroy(rank):
    prefix = f"node{rank // 2}:{1000 + rank}:{1000 + rank} [0] "
    return f"{prefix}NCCL INFO comm 0x5{rank}0 rank {rank} nranks {NRANKS} cudaDev 0 busId 1000 - Destroy COMPLETE"


def good_job():
    return {rank: init(rank) + [call(rank, n) for n in range(5)] + [destroy(rank)] for rank in range(NRANKS)}


RAS_WELL = """NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.02s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         2         2         2         4         4   RUNNING      OK

Errors
======

Warnings
========

"""
XID = "Sep 01 12:00:00 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1003, GPU has fallen off the bus.\n"
TORCH = (
    "[rank{rank}]:[E813 12:25:30.948355712 ProcessGroupNCCL.cpp:670] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) "
    "ran for 600029 milliseconds before timing out.\n"
    "[rank{rank}]:[E813 12:25:30.948455712 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  "
    "failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed "
    "work: {done}\n")


class DiagnoseCase(suite.Case):
    def diagnose(self, *words, **settings):
        return suite.execute([BUSBAR, "diagnose", *words], **settings)

    def job(self, lines_of_rank, folder="job"):
        os.mkdir(self.path(folder))
        for rank, lines in lines_of_rank.items():
            self.write(f"{folder}/rank{rank}.log", "\n".join(lines) + "\n")
        return self.path(folder)

    def verdict(self, result, verdict, code):
        """Of text and of JSON output alike."""
        self.assertEqual(result.code, code, str(result))
        self.assertIn(verdict, result.out, str(result))
        return result


class Verdicts(DiagnoseCase):
    def test_the_samples_that_we_ship_have_the_verdicts_that_the_readme_says(self):
        shipped = os.path.join(suite.ROOT, "docs", "samples")
        lagging = self.diagnose(os.path.join(shipped, "rank_lagging.log"))
        self.verdict(lagging, "RANK_LAGGING: rank 1 (node0, pid 20005) never made call #21", 4)
        with open(os.path.join(suite.ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn(lagging.out.splitlines()[0], file.read())
        self.verdict(self.diagnose(os.path.join(shipped, "gpu_lost")), "HW_FAULT: GPU 0000:18:00 of node0 reported XID 79", 3)

    def test_each_kind_of_verdict_has_its_exit_code(self):
        lagging = good_job()
        for rank, lines in lagging.items():
            lines.pop()
            if rank != 2:
                lines.append(call(rank, 5))
        mismatched = good_job()
        for rank, lines in mismatched.items():
            lines[-1] = call(rank, 5, count=2048 if rank == 1 else 1024)
        full = {rank: init(rank, complete=False) for rank in range(NRANKS)}
        full[1].append("[2026-01-02 03:04:05] node0:1001:1001 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to "
                       "extend /dev/shm/nccl-abcdef to 33030532 bytes, error: No space left on device (28)")
        for name, job, verdict, code in (
                ("ok", good_job(), "OK", 0), ("lagging", lagging, "RANK_LAGGING", 4),
                ("mismatched", mismatched, "ARG_MISMATCH", 4), ("full", full, "RESOURCE", 3),
                ("empty", {0: ["hello"]}, "UNKNOWN", 6)):
            with self.subTest(name=name):
                folder = self.job(job, name)
                told = self.verdict(self.diagnose(folder), verdict, code)
                self.assertIn("rank0.log", told.out)
                document = json.loads(self.diagnose("--json", folder).out)
                self.assertEqual(document["verdict"], verdict)
                self.assertEqual(document["exit_code"], code)
                self.assertEqual(len(document["files"]), len(job))

    def test_a_dead_process_by_ras_goes_before_what_the_logs_say(self):
        lagging = {rank: init(rank) + [call(rank, n) for n in range(5 if rank == 3 else 6)] for rank in range(NRANKS)}
        folder = self.job(lagging)
        self.verdict(self.diagnose(folder), "RANK_LAGGING", 4)
        ras = self.write("ras.txt", RAS)
        told = self.verdict(self.diagnose(folder, ras), "PROCESS_DEAD", 3)
        self.assertIn("1003", told.out)
        self.assertIn("answer of NCCL's RAS service", told.out)
        self.verdict(self.diagnose(ras), "PROCESS_DEAD", 3)

    def test_an_answer_of_ras_hides_nothing_of_the_file_that_it_stands_in(self):
        oom = ("Traceback (most recent call last):\n  File \"/opt/train.py\", line 88, in step\n    loss.backward()\n"
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 2 has a total capacity of "
               "79.11 GiB of which 1.07 GiB is free.\n")
        failures = {"watchdog": TORCH.format(rank=5, seq=71, op="ALLREDUCE", numel=4096, done=70), "xid": XID, "oom": oom}
        decorated = "".join(f"[1,0]<stdout>:{line}\n" for line in RAS_WELL.splitlines())
        one = json.loads(self.diagnose("--json", self.write("well.txt", RAS_WELL)).out)
        self.assertEqual(one["verdict"], "OK", one)
        self.assertIn("2 communicators", " ".join(one["evidence"]))
        for name, failure in failures.items():
            alone = json.loads(self.diagnose("--json", self.write("alone.txt", failure)).out)
            self.assertNotEqual(alone["verdict"], "OK", alone)
            for order, text in (("behind", RAS_WELL + failure), ("before", failure + RAS_WELL),
                                ("between", RAS_WELL + failure + RAS_WELL), ("decorated", decorated + failure),
                                ("crlf", (RAS_WELL + failure).replace("\n", "\r\n")),
                                ("coloured", "".join(f"\x1b[32m{line}\x1b[0m\n" for line in RAS_WELL.splitlines()) +
                                 failure)):
                with self.subTest(name=name, order=order):
                    told = json.loads(self.diagnose("--json", self.write("mixed.txt", text)).out)
                    self.assertEqual(told["verdict"], alone["verdict"], told)
                    self.assertEqual((told["ranks"], told["hosts"]), (alone["ranks"], alone["hosts"]), told)

    def test_what_ras_complains_of_is_not_ok_in_any_file(self):
        table = {errors: RAS_WELL.replace("RUNNING      OK", f"RUNNING  {errors}")
                 for errors in ("MISMATCH", "INCOMPLETE", "ERROR")}
        log = "\n".join(line for lines in good_job().values() for line in lines) + "\n"
        for errors, ras in table.items():
            for name, text in (("alone", ras), ("last", RAS_WELL + ras), ("first", ras + RAS_WELL), ("in a log", log + ras),
                               ("before a log", ras + log)):
                with self.subTest(errors=errors, name=name):
                    told = self.verdict(self.diagnose(self.write("ras.txt", text)), "UNKNOWN", 6)
                    self.assertIn(errors, told.out)
                    self.assertIn("a minute apart", told.out)

    def test_a_process_that_ras_calls_dead_is_found_wherever_it_says_so(self):
        log = "\n".join(line for lines in good_job().values() for line in lines) + "\n"
        event = "[2026-03-04 05:06:07] PEER_DEAD: Process 1003 on node 10.0.0.2 managing GPU 1 \n"
        document = ('{\n  "timestamp": "2026-03-04 05:06:07",\n  "group": "LIFECYCLE",\n  "event": "PEER_DEAD",\n'
                    '  "peer": {\n    "host": "10.0.0.2",\n    "pid": 1003\n  },\n  "details": ""\n}\n')
        for name, ras in (("text", RAS), ("event", event), ("document", document)):
            for order, text in (("alone", ras), ("behind", log + ras), ("before", ras + log)):
                with self.subTest(name=name, order=order):
                    told = json.loads(self.diagnose("--json", self.write("log.txt", text)).out)
                    self.assertEqual(told["verdict"], "PROCESS_DEAD", told)
                    self.assertEqual(told["ranks"], [] if order == "alone" else [3], told)
        # Two answers that agree name who is behind, in one file as in two.
        behind = (RAS_WELL.replace("RUNNING      OK", "RUNNING  MISMATCH") + "#0-0 (0000c0ffee000001) MISMATCH\n"
                  "  Communicator ranks have different AllReduce operation counts\n  3 ranks have launched up to operation "
                  "90\n  Rank 2 has launched up to operation 89 -- GPU 0 managed by process 1002 on node 10.0.0.2\n")
        self.assertEqual(json.loads(self.diagnose("--json", self.write("one.txt", behind)).out)["verdict"], "UNKNOWN")
        twice = self.write("twice.txt", "$ ncclras -v\n" + behind + "$ sleep 10; ncclras -v\n" + behind)
        pair = [self.write(name, behind) for name in ("ras1.txt", "ras2.txt")]
        for paths in ([twice], pair):
            told = json.loads(self.diagnose("--json", *paths).out)
            self.assertEqual((told["verdict"], told["ranks"]), ("RANK_LAGGING", [2]), told)

    def test_dumps_of_pytorchs_flight_recorder_name_the_rank_that_is_late(self):
        def dump(last):
            entries = [{"collective_seq_id": seq, "process_group": ["0", "default_pg"], "is_p2p": False,
                        "profiling_name": "nccl:all_reduce", "input_sizes": [[8]], "output_sizes": [[8]],
                        "input_dtypes": ["Float"], "state": "completed" if seq <= 40 else "scheduled"}
                       for seq in range(last - 9, last + 1)]
            return {"version": "2.10", "entries": entries, "pg_status": {},
                    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}}
        for rank in range(3):
            self.write(f"fr_trace_{rank}.json", json.dumps(dump(40 if rank == 1 else 41)))
        folder = self.path(".")
        told = json.loads(self.diagnose("--json", *(self.path(f"fr_trace_{rank}.json") for rank in range(3))).out)
        self.assertEqual(told["verdict"], "RANK_LAGGING", told)
        self.assertEqual(told["ranks"], [1], told)
        for protocol in (2, 4):
            for rank in range(3):
                with open(os.path.join(folder, f"nccl_trace_rank_{rank}"), "wb") as file:
                    pickle.dump(dump(40 if rank == 2 else 41), file, protocol=protocol)
            told = json.loads(self.diagnose("--json", *(self.path(f"nccl_trace_rank_{rank}") for rank in range(3))).out)
            self.assertEqual((told["verdict"], told["ranks"]), ("RANK_LAGGING", [2]), told)
        with open(os.path.join(folder, "nccl_trace_rank_0"), "wb") as file:
            pickle.dump({"pg_config": Fraction(1, 2)}, file, protocol=2)
        self.assertIn("the pickle holds GLOBAL", self.diagnose(self.path("nccl_trace_rank_0")).out)
        cut = self.write("fr_trace_4.json", json.dumps(dump(40))[:-40])
        self.assertIn("a dump of PyTorch's Flight Recorder, not read", self.diagnose(cut).out)

    def test_broken_hardware_by_the_kernels_log_goes_before_everything(self):
        folder = self.job(good_job())
        dmesg, ras = self.write("dmesg.txt", XID), self.write("ras.txt", RAS)
        told = self.verdict(self.diagnose(folder, dmesg, ras), "HW_FAULT", 3)
        self.assertIn("79", told.out)

    def test_pytorchs_watchdog_is_enough_where_there_is_no_log_of_nccl(self):
        job = {rank: [TORCH.format(rank=rank, seq=7, op="ALLREDUCE", numel=8, done=6)] for rank in range(NRANKS - 1)}
        job[3] = [TORCH.format(rank=3, seq=5, op="ALLREDUCE", numel=8, done=4)]
        told = self.diagnose(self.job(job))
        self.assertEqual(told.code, 4, str(told))
        self.assertRegex(told.out, r"rank 3\b")

    def test_a_flight_record_left_behind_names_the_rank_that_was_killed(self):
        out = self.path("out.json")
        done = suite.perf("all_reduce", 3, "-J", out, "-b", "8", "-e", "8", "-n", "200", "--inject",
                          "rank=1,op=42,kind=kill")
        self.assertNotEqual(done.code, 0, str(done))
        records = self.records_of(out)
        # busbar.UID.JOBID.HOST.RANK, where other jobs' may lie as well.
        jobid = os.path.basename(records[0]).split(".")[2]
        told = self.verdict(self.diagnose("--flight", "/dev/shm", "--job", jobid), "PROCESS_DEAD", 3)
        self.assertRegex(told.out, r"rank 1\b")
        document = json.loads(self.diagnose("--flight", "/dev/shm", "--job", jobid, "--json").out)
        self.assertEqual(document["verdict"], "PROCESS_DEAD")
        self.assertIn(1, document["hangs"][0]["ranks"])
        # The report as a file is evidence again, and so are the records by their paths.
        report = self.write("hang-1.json", json.dumps(document["hangs"][0], separators=(",", ":")))
        self.verdict(self.diagnose(report), "PROCESS_DEAD", 3)
        self.verdict(self.diagnose(*records), "PROCESS_DEAD", 3)
        done = self.diagnose("--flight", "/dev/shm", "--job", "none of these")
        self.fails(done, 255, "none of these")
        self.assertIn(jobid, done.err)


class Inputs(DiagnoseCase):
    def test_bad_use_says_what_to_do(self):
        self.fails(self.diagnose(), 255, "--help-capture")
        self.fails(self.diagnose("-b", "8", "x"), 255, "-b", "no meaning")
        self.fails(self.diagnose(self.path("absent")), 255, "absent")
        self.fails(self.diagnose("--flight", self.path("absent")), 255, "no such folder")
        self.fails(self.diagnose("--flight", self.folder.name), 255, "no flight record")
        self.fails(self.diagnose("--job", "1", self.folder.name), 255, "--flight")
        self.fails(self.diagnose("--jsn", self.folder.name), 255, "did you mean --json?")

    def test_help_needs_nothing(self):
        self.assertIn("STUCK_INSIDE", self.ok(self.diagnose("--help")).out)
        told = self.ok(self.diagnose("--help-capture")).out
        for word in ("NCCL_DEBUG_SUBSYS", "%h.%p", "NCCL_DEBUG_TIMESTAMP_FORMAT", "TORCH_NCCL_TRACE_BUFFER_SIZE",
                     "28028"):
            self.assertIn(word, told)

    def test_standard_input_is_a_log(self):
        text = "\n".join(line for lines in good_job().values() for line in lines) + "\n"
        done = subprocess.run([BUSBAR, "diagnose", "-"], input=text, text=True, capture_output=True, check=False,
                              timeout=suite.LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("OK", done.stdout)

    def test_what_is_no_log_neither_hangs_nor_crashes(self):
        with open(self.path("random.bin"), "wb") as file:
            file.write(bytes(range(256)) * 400)
        self.write("empty.log", "")
        self.write("long.log", "NCCL INFO " + "x" * 3_000_000)
        self.write("cut.json", '{"nccl_version": "2.28.9", "communicators": [{"ranks": [{"rank": ')
        self.write("hang-1.json", '{"schema":1,"kind":"hang","observed":[]}')
        self.write("hostile.log", "a:1:1 [0] NCCL INFO \x1b[2J\x07 Init COMPLETE\n[0] NCCL WARN " + "%s%n" * 50 + "\n")
        os.mkfifo(self.path("fifo"))
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.bind(self.path("socket"))
        os.symlink(self.path("absent"), self.path("dangling"))
        os.symlink(self.folder.name, self.path("loop"))
        for options in ([], ["--json"], ["--unknown"]):
            done = self.diagnose(self.folder.name, *options)
            self.assertIn(done.code, (0, 3, 4, 6), str(done))
            self.assertNotIn("\x1b", done.out)
            self.assertNotIn("\x07", done.out)
        for path in (self.path("fifo"), "/dev/zero", self.path("random.bin"), self.path("empty.log")):
            with self.subTest(path=path):
                done = self.diagnose(path)
                self.assertEqual(done.code, 6, str(done))
                self.assertIn(os.path.basename(path), done.out)

    def test_a_reader_that_has_seen_enough_ends_it(self):
        job = good_job()
        folder = self.job(job)
        command = ["timeout", str(suite.LIMIT_S), BUSBAR, "diagnose", "--json", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            err = process.stderr.read()
            process.wait(timeout=suite.LIMIT_S)
        self.assertIn(process.returncode, (0, 1, -signal.SIGPIPE, 128 + signal.SIGPIPE), err)

    def test_json_goes_to_a_file_beside_the_text(self):
        folder = self.job(good_job())
        out = self.path("out.json")
        told = self.ok(self.diagnose(folder, f"--json={out}"))
        self.assertIn("OK", told.out)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["verdict"], "OK")
        self.ok(self.diagnose(folder, f"--json={out}"))
        self.assertTrue(os.path.exists(out + ".0"))

    def test_what_was_not_understood_is_counted_and_shown(self):
        job = good_job()
        job[0].insert(2, "node0:1000:1000 [0] NCCL INFO a line of a version to come")
        job[0].insert(3, "node0:1000:1000 [0] NCCL INFO P2P Chunksize set to 131072")  # known to tell nothing
        folder = self.job(job)
        told = self.ok(self.diagnose(folder, "--unknown"))
        self.assertNotIn("Chunksize", told.out)
        self.assertEqual(told.out.count("rank1.log"), 1, "each file once")
        self.assertRegex(told.out, r"rank0\.log': \d+ lines, \d+ of NCCL, 1 of them not understood")
        self.assertRegex(told.out, r"rank0\.log:3: .*a line of a version to come")
        document = json.loads(self.diagnose(folder, "--json").out)
        self.assertEqual(sum(file["unknown_lines"] for file in document["files"]), 1)

    def test_many_files_tell_the_same_in_any_number_of_threads(self):
        job = good_job()
        for rank in range(NRANKS, 40):
            job[rank] = ["nothing of NCCL"] * rank
        folder = self.job(job)
        if not hasattr(os, "sched_getaffinity"):
            return

        def told(text):
            document = json.loads(text)
            del document["time"]  # the one thing that is of the reading
            return document

        whole = told(self.diagnose(folder, "--json").out)
        one = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), BUSBAR, "diagnose", folder, "--json"],
                             capture_output=True, text=True, check=False, timeout=suite.LIMIT_S).stdout
        self.assertEqual(whole, told(one))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_files_that_may_not_be_read_are_named(self):
        folder = self.job(good_job())
        os.chmod(os.path.join(folder, "rank1.log"), 0)
        self.assertIn("Permission denied", self.diagnose(folder).out)

    def test_what_is_not_read_is_said_before_everything_but_the_verdict(self):
        folder = self.job(good_job())
        for name in ("rank1.log", "rank2.log"):
            open(os.path.join(folder, name), "w", encoding="utf-8").close()
        lines = self.diagnose(folder).out.splitlines()
        self.assertTrue(lines[0].startswith("VERDICT: "), lines)
        for line, name in zip(lines[1:], ("rank1.log", "rank2.log")):
            self.assertTrue(line.startswith("  not read: ") and line.endswith(f"{name}': empty"), lines[:4])

    def test_results_of_other_commands_are_for_report(self):
        folder = os.path.join(suite.ROOT, "test", "frozen", "recorded")
        for name in ("run_plain.json", "accept_good.json", "locate_slow.json", "doctor_merged.json"):
            with self.subTest(name):
                self.fails(self.diagnose(os.path.join(folder, name)), 255, "`busbar report` reads")
        # Beside logs they are no logs.
        logs = self.job(good_job())
        self.ok(self.diagnose(logs, os.path.join(folder, "run_plain.json")))


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit(77)
    suite.main()
