#!/usr/bin/env python3
"""Ranks that nothing but RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT start. Would catch: a job that does not find itself
because another program has its port, strangers that hold it up, a mistake in the environment that ends as a wait or is
said by every rank, and ranks that outlive one of theirs."""

import contextlib
import hashlib
import hmac
import os
import random
import signal
import socket
import struct
import subprocess
import time
import unittest

import suite
from suite import COLLECTIVES, Case, Result, mpirun, program

SMALL = ("--backend", "gloo", "-b", "8", "-e", "64", "-f", "8", "-n", "2", "-w", "1")
ALL_REDUCE = program("all_reduce")


WINDOWS = random.sample(range(20000, 32000, 16), 750)  # each is used once: none reaches into another's


def free_port():
    """The first of a window of 16 ports of which no one is in use."""
    for port in iter(WINDOWS.pop, None):
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for each in range(port, port + 16):
                probes.enter_context(contextlib.closing(socket.socket())).bind(("", each))
            return port
    raise AssertionError("no free port")


class Ranks:
    """Processes of one job, each with its own output."""

    def __init__(self, folder, world_size, port=None, address="127.0.0.1", **environment):
        self.folder, self.port = folder, port or free_port()
        self.place = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": address, "MASTER_PORT": str(self.port), **environment}
        self.started = []

    def start(self, rank, command, **environment):
        name = os.path.join(self.folder, f"rank{len(self.started)}")
        out, err = open(name + ".out", "w+", encoding="utf-8"), open(name + ".err", "w+", encoding="utf-8")
        settings = dict(os.environ, **self.place, **environment)
        if rank is not None:
            settings["RANK"] = str(rank)
        process = subprocess.Popen(command, env=settings, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.started.append((process, out, err))
        return process

    def start_all(self, command):
        for rank in range(int(self.place["WORLD_SIZE"])):
            self.start(rank, command)
        return self

    def results(self, limit_s=60):
        until, results = time.monotonic() + limit_s, []
        for process, out, err in self.started:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
                file.close()
            results.append(Result(process.returncode, *texts))
        return results


def lines_of(results):
    return [line for result in results for line in result.errors()]


class Listener:
    """A program that is not busbar, on a port: says `text` to each client, or nothing."""

    def __init__(self, port, text=b""):
        self.socket = socket.create_server(("", port))
        self.text, self.clients = text, []

    def serve(self, seconds):
        until = time.monotonic() + seconds
        self.socket.settimeout(0.1)
        while time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                client, _ = self.socket.accept()
                with contextlib.suppress(OSError):
                    client.sendall(self.text)
                self.clients.append(client)

    def close(self):
        for each in (self.socket, *self.clients):
            each.close()


@unittest.skipUnless(os.path.exists(os.path.join(suite.BUILD, "libbusbar_gloo.so")), "built without Gloo")
class EnvLaunch(Case):
    def ranks(self, world_size, **more):
        return Ranks(self.folder.name, world_size, **more)

    def all_good(self, results):
        for result in results:
            self.ok(result)
        return results[0]

    def test_every_benchmark_prints_the_rows_that_it_prints_under_mpirun(self):
        measured = 0
        for collective in COLLECTIVES:
            with self.subTest(collective):
                command = [program(collective), *SMALL]
                own = self.all_good(self.ranks(3).start_all(command).results())
                theirs = self.ok(mpirun(3, command))
                fixed = [[row[:5] + row[8:9] for row in run.rows()] for run in (own, theirs)]
                self.assertEqual(*fixed)
                own.line("# 3 processes over TCP (env), no MPI")
                measured += len(fixed[0]) > 0
        self.assertGreater(measured, 9)  # Gloo lacks some

    def test_one_process_needs_no_address(self):
        result = self.ok(suite.execute([ALL_REDUCE, *SMALL], {"RANK": "0", "WORLD_SIZE": "1"}))
        result.line("# 1 process, no MPI")
        result = self.ok(suite.execute([ALL_REDUCE, *SMALL, "--launcher", "none"], {"RANK": "3", "WORLD_SIZE": "8"}))
        self.assertEqual(len(result.rows()), 2)

    def test_an_incomplete_environment_is_one_sentence(self):
        place = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for changes, words in (
                ({"WORLD_SIZE": None}, "RANK is set and WORLD_SIZE is not"),
                ({"RANK": None}, "WORLD_SIZE is set and RANK is not"),
                ({"MASTER_ADDR": None}, "RANK and WORLD_SIZE are set and MASTER_ADDR is not"),
                ({"MASTER_PORT": None}, "RANK and WORLD_SIZE are set and MASTER_PORT is not"),
                ({"MASTER_PORT": "0"}, "MASTER_PORT=0 is not a port"),
                ({"MASTER_PORT": "65536"}, "MASTER_PORT=65536 is not a port"),
                ({"RANK": "4"}, "RANK=4 is not a rank below WORLD_SIZE=4"),
                ({"RANK": "first"}, "RANK=first is not a rank"),
                ({"RANK": "0", "WORLD_SIZE": "-4"}, "WORLD_SIZE=-4 is not a number of processes"),
                ({"WORLD_SIZE": "1000000000"}, "at most 1048576"),
                ({"WORLD_SIZE": "99999999999999999999"}, "is not a number of processes"),
                ({"RANK": None, "WORLD_SIZE": None, "JOB_COMPLETION_INDEX": "2"}, "the completions of the Job"),
                ({"RANK": "2", "WORLD_SIZE": None}, "RANK is set and WORLD_SIZE is not"),
                ({"RANK": "2", "MASTER_PORT": None}, "RANK and WORLD_SIZE are set and MASTER_PORT is not")):
            with self.subTest(words):
                environment = {name: value for name, value in {**place, **changes}.items() if value is not None}
                started = time.monotonic()
                result = suite.execute([ALL_REDUCE, *SMALL], environment)
                self.assertEqual(result.code, 255, str(result))
                self.assertEqual(len(result.errors()), 1, str(result))
                self.assertIn(words, result.errors()[0])
                self.assertIn("--launcher none", result.errors()[0])
                self.assertLess(time.monotonic() - started, 10)
        for launcher in ("env", "slurm", "k8s"):
            result = suite.execute([ALL_REDUCE, *SMALL, "--launcher", launcher])
            self.assertEqual((result.code, len(result.errors())), (255, 1), str(result))

    def test_a_mistake_of_the_environment_is_said_once_on_a_host(self):
        job = Ranks(self.folder.name, 4)
        del job.place["MASTER_PORT"]
        results = job.start_all([ALL_REDUCE, *SMALL]).results()
        self.assertEqual([r.code for r in results], [255] * 4)
        self.assertEqual(len(lines_of(results)), 1, lines_of(results))
        os.mkdir(self.path("nic"))
        results = Ranks(self.path("nic"), 3, NCCL_SOCKET_IFNAME="eth99").start_all([ALL_REDUCE, *SMALL]).results()
        self.assertEqual([r.code for r in results], [255] * 3)
        self.assertEqual(len(lines_of(results)), 1, lines_of(results))
        self.assertIn("NCCL_SOCKET_IFNAME=eth99: this host has no such interface", lines_of(results)[0])
        # What needs no job runs, and what is wrong with it is said.
        alone = {"RANK": "2"}
        self.assertIn("usage: ", self.ok(suite.execute([ALL_REDUCE, "--help"], alone)).out)
        self.assertEqual(len(suite.execute([ALL_REDUCE, "--no-such"], alone).errors()), 1)

    def test_a_barrier_in_each_iteration_is_a_remark(self):
        for number, says in ((1, True), (2, False), (3, True)):
            first = self.all_good(self.ranks(2).start_all([ALL_REDUCE, *SMALL, "-z", str(number)]).results())
            self.assertEqual(f"# -z {number}: ranks meet over TCP after each iteration" in first.out, says, str(first))

    def test_mpi_on_host_memory_is_refused_with_the_remedy(self):
        results = self.ranks(2).start_all([ALL_REDUCE, "--backend", "mpi", "-b", "8"]).results()
        self.assertEqual([r.code for r in results], [5, 5])
        self.assertEqual(len(lines_of(results)), 1)
        self.assertIn("--backend gloo", lines_of(results)[0])
        os.mkdir(self.path("vary"))
        job = Ranks(self.path("vary"), 2)
        busbar = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
        results = job.start_all([busbar, "compare", "all_reduce", "--vary", "ompi.algorithm=all"]).results()
        self.assertEqual(len(lines_of(results)), 1)
        self.assertIn("or start the job with mpirun and --backend mpi", lines_of(results)[0])

    def test_a_mistake_that_all_find_is_said_once(self):
        results = self.ranks(3).start_all([ALL_REDUCE, *SMALL, "-g", "2"]).results()
        self.assertEqual([r.code for r in results], [5, 5, 5])
        self.assertEqual(len(lines_of(results)), 1)

    def test_strangers_on_the_ports_hold_up_nobody(self):
        # As torchrun's agent: it has MASTER_PORT itself. The next port belongs to one that talks.
        job = self.ranks(3, TORCHELASTIC_RUN_ID="run", LOCAL_WORLD_SIZE="3")
        agent, web = Listener(job.port), Listener(job.port + 1, b"HTTP/1.0 400 Bad Request\r\n\r\n")
        self.addCleanup(agent.close)
        self.addCleanup(web.close)
        job.start(0, [ALL_REDUCE, *SMALL], LOCAL_RANK="0")
        time.sleep(0.5)
        # Half-open and rude clients of rank 0 itself.
        rude = [socket.create_connection(("127.0.0.1", job.port + 2)) for _ in range(50)]
        rude[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        rude[1].sendall(b"BBMEET01\x01\xff\xff\xff\xff")
        rude[2].sendall(b"BBMEET01\x01\x00\x00\x00\x08" + b"\xff" * 8)
        rude[3].close()
        job.start(1, [ALL_REDUCE, *SMALL], LOCAL_RANK="1")
        job.start(2, [ALL_REDUCE, *SMALL], LOCAL_RANK="2")
        agent.serve(2)
        results = job.results()
        first = self.all_good(results)
        self.assertEqual(lines_of(results), [])
        first.line("# 3 processes over TCP (torchrun), no MPI")
        for client in rude:
            client.close()

    def test_another_local_rank_is_one_warning(self):
        results = self.ranks(3, LOCAL_RANK="0").start_all([ALL_REDUCE, *SMALL]).results()
        self.all_good(results)
        self.assertEqual(len(lines_of(results)), 1, lines_of(results))
        self.assertIn("warning: rank 1 on ", lines_of(results)[0])

    def test_two_jobs_share_the_ports(self):
        port = free_port()
        jobs = [Ranks(self.path("."), size, port=port) for size in (2, 3)]
        for job in jobs:
            job.folder = self.path(f"job{job.place['WORLD_SIZE']}")
            os.mkdir(job.folder)
            job.start_all([ALL_REDUCE, *SMALL])
        for job in jobs:
            self.all_good(job.results()).line(f"# {job.place['WORLD_SIZE']} processes over TCP (env), no MPI")

    def test_ipv6_and_names(self):
        for address in ("::1", "localhost"):
            with self.subTest(address):
                self.all_good(self.ranks(2, address=address).start_all([ALL_REDUCE, *SMALL]).results())

    def test_duplicate_ranks_are_named_once_and_all_end(self):
        job = self.ranks(3)
        for rank in (0, 1, 1):
            job.start(rank, [ALL_REDUCE, *SMALL])
        results = job.results()
        self.assertEqual([r.code for r in results], [255] * 3, "\n".join(map(str, results)))
        self.assertEqual(len(lines_of(results)), 1, "\n".join(map(str, results)))
        self.assertIn("two processes have rank 1: pid ", lines_of(results)[0])
        for process, _, _ in job.started[1:]:
            self.assertIn(f"pid {process.pid} on ", lines_of(results)[0])

    def test_those_that_come_after_a_refusal_are_told_too(self):
        job = self.ranks(4)
        job.start(0, [ALL_REDUCE, *SMALL])
        job.start(1, [ALL_REDUCE, *SMALL, "-w", "1"]).wait(60)
        for rank in (2, 3):
            job.start(rank, [ALL_REDUCE, *SMALL])
        results = job.results(30)  # alone, they would wait for two minutes
        self.assertEqual([r.code for r in results], [255] * 4, "\n".join(map(str, results)))
        self.assertEqual(len(lines_of(results)), 1, "\n".join(map(str, results)))

    def test_other_arguments_are_shown_both(self):
        job = self.ranks(2)
        job.start(0, [ALL_REDUCE, *SMALL])
        job.start(1, [ALL_REDUCE, *SMALL, "-c", "0"])
        results = job.results()
        self.assertEqual([r.code for r in results], [255] * 2)
        self.assertEqual(len(lines_of(results)), 1)
        self.assertIn("rank 1 on ", lines_of(results)[0])
        self.assertIn("has the command line", lines_of(results)[0])

    def test_another_version_is_shown_both(self):
        job = self.ranks(2)
        job.start(0, [ALL_REDUCE, *SMALL])
        client = self.meet(job.port, version="9.9.9")
        results = job.results()
        client.close()
        self.assertEqual(results[0].code, 255, str(results[0]))
        self.assertIn("rank 1 on elsewhere has version '9.9.9', rank 0 on ", lines_of(results)[0])

    def meet(self, port, version):
        """A client of rank 0 that speaks its language."""
        client = None
        for _ in range(100):
            with contextlib.suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port))
                break
            time.sleep(0.1)
        head = client.recv(13, socket.MSG_WAITALL)
        welcome = client.recv(struct.unpack(">I", head[9:])[0], socket.MSG_WAITALL)
        nonce = welcome[-32:]

        def text(value):
            return struct.pack("<Q", len(value)) + value

        hello = text(version.encode()) + text(b"") + struct.pack("<i", 2) + text(b"") + struct.pack("<iq", 1, 4711)
        hello += text(b"elsewhere") + text(b"machine") + text(b"127.0.0.1") + struct.pack("<H", 1) + text(b"nonce")
        proof = hmac.new(b"", nonce + b"\n" + hello + text(b""), hashlib.sha256).hexdigest()[:32].encode()
        payload = hello + text(proof)
        client.sendall(b"BBMEET01\x01" + struct.pack(">I", len(payload)) + payload)
        return client

    def test_only_who_has_the_key_may_join(self):
        key, other = self.write("key", "secret\n"), self.write("other", "guess\n")
        self.all_good(self.ranks(2).start_all([ALL_REDUCE, *SMALL, "--meet-key", key]).results())
        os.mkdir(self.path("b"))
        job = Ranks(self.path("b"), 2)
        zero = job.start(0, [ALL_REDUCE, *SMALL, "--meet-key", key])
        one = job.start(1, [ALL_REDUCE, *SMALL, "--meet-key", other])
        one.wait(30)
        zero.kill()
        results = job.results()
        self.assertEqual(results[1].code, 255)
        self.assertIn("another --meet-key", lines_of(results[1:])[0])
        empty = self.write("empty", "\n")
        self.assertEqual(self.ranks(2).start_all([ALL_REDUCE, "--meet-key", empty]).results()[0].code, 255)

    def test_who_waits_in_vain_says_for_whom_and_why(self):
        """All at once: each waits for half a minute."""
        stranger, other = Listener(free_port(), b"220 mail\r\n"), free_port()
        self.addCleanup(stranger.close)
        folders = iter(range(10))

        def job(world_size, **more):
            folder = self.path(f"wait{next(folders)}")
            os.mkdir(folder)
            return Ranks(folder, world_size, **more)

        command = [ALL_REDUCE, *SMALL, "-T", "1"]
        late, waits, refused, unknown, stale, silent = (
            job(2), job(4), job(2), job(2, address="no-such-host.invalid"), job(5, port=other),
            job(2, port=stranger.socket.getsockname()[1]))
        late.start(0, command)
        waits.start(0, command)
        waits.start(2, command)
        for each in (refused, unknown, silent):
            each.start(1, command)
        rank0_of_another = job(3, port=other)
        rank0_of_another.start(0, command)
        stale.start(1, command)
        stranger.serve(13)
        late.start(1, command)
        self.all_good(found := late.results())
        self.assertEqual(len([line for line in lines_of(found) if "waiting for rank 1 of 2 at" in line]), 1)
        stranger.serve(15)
        found = waits.results()
        self.assertEqual([r.code for r in found], [4, 4])
        self.assertEqual(len(lines_of(found)), 2, lines_of(found))  # after ten seconds, and at the end
        for line in lines_of(found):
            self.assertIn("waiting for ranks 1,3 of 4 at ", line)
        for each, words in ((refused, "nobody listens at 127.0.0.1, ports "),
                            (unknown, "MASTER_ADDR=no-such-host.invalid is no name that this host knows"),
                            (stale, "not as rank 0 of this job (a job of 3 ranks, started 2"),
                            (silent, "not as rank 0 of this job (no busbar)")):
            found = each.results()
            self.assertEqual(found[0].code, 4, str(found[0]))
            self.assertEqual(len(lines_of(found)), 1, str(found[0]))
            self.assertIn(words, lines_of(found)[0])
        rank0_of_another.results()

    def test_a_killed_rank_takes_all_with_it_and_one_says_so(self):
        for i in range(20 if suite.MORE else 4):
            with self.subTest(i):
                folder = self.path(f"kill{i}")
                os.mkdir(folder)
                job = Ranks(folder, 4)
                job.start_all([ALL_REDUCE, "-b", "1K", "-e", "1K", "-n", "20", "-N", "0"])
                victim = job.started[i % 4][0]
                time.sleep(random.uniform(1.5, 3))
                victim.send_signal(signal.SIGKILL)
                killed = time.monotonic()
                results = job.results(30)
                self.assertLess(time.monotonic() - killed, 20)
                verdicts = [line for line in lines_of(results) if "PROCESS_DEAD: " in line]
                self.assertEqual(len(verdicts), 1, "\n".join(map(str, results)))
                self.assertIn(f"rank {i % 4} on ", verdicts[0])
                self.assertFalse([line for line in lines_of(results) if "error: " in line], "\n".join(map(str, results)))
                self.assertEqual({r.code for r in results}, {4, -signal.SIGKILL})

    def test_a_stopped_rank_is_named_and_ended(self):
        job = self.ranks(3).start_all([ALL_REDUCE, "-b", "1K", "-e", "1K", "-n", "20", "-N", "0", "-T", "31", "--inject",
                                       "rank=1,op=42,kind=stop"])
        results = job.results(90)
        self.assertEqual([r.code for r in results], [4, -signal.SIGKILL, 4], "\n".join(map(str, results)))
        verdicts = [line for line in lines_of(results) if "busbar: hang: " in line]
        self.assertEqual(len(verdicts), 1, "\n".join(map(str, results)))
        self.assertIn("rank 1 on ", verdicts[0])

    def test_an_error_of_one_rank_ends_all_with_its_code_and_its_words(self):
        with open(ALL_REDUCE, "rb") as file:
            if b"__asan_init" in file.read():
                self.skipTest("a sanitizer needs far more addresses")
        script = '[ "$RANK" = 1 ] && ulimit -v 450000; exec "$@"'
        job = self.ranks(3).start_all(["bash", "-c", script, "bash", ALL_REDUCE, "-b", "200M", "-e", "200M", "-n", "1"])
        results = job.results()
        self.assertEqual([r.code for r in results], [5] * 3, "\n".join(map(str, results)))
        self.assertEqual(len(lines_of(results)), 1, "\n".join(map(str, results)))
        self.assertIn("error: rank 1 on ", lines_of(results)[0])

    def test_a_signal_to_one_rank_ends_all_and_one_says_what_is_kept(self):
        for victim in (0, 2):
            folder = self.path(f"signal{victim}")
            os.mkdir(folder)
            job = Ranks(folder, 3).start_all([ALL_REDUCE, "-b", "1K", "-e", "1K", "-n", "20", "-N", "0"])
            time.sleep(2)
            job.started[victim][0].terminate()
            results = job.results(30)
            self.assertEqual({r.code for r in results}, {4, -signal.SIGTERM}, "\n".join(map(str, results)))
            self.assertEqual(len(lines_of(results)), 1, "\n".join(map(str, results)))
            self.assertIn("busbar: interrupted (", lines_of(results)[0])

    def test_the_launcher_that_is_meant(self):
        under = ["sh", "-c", f"RANK=$OMPI_COMM_WORLD_RANK exec {ALL_REDUCE} {' '.join(SMALL)} \"$@\"", "sh"]
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        if "mpich" in suite.MPIRUN:
            self.skipTest("MPICH's launcher sets other names")
        self.ok(mpirun(2, under + ["--launcher", "env"], env=place)).line("# 2 processes over TCP (env), no MPI")
        plain = self.ok(mpirun(2, under, env=place))
        self.assertNotIn("no MPI", plain.out)
        self.assertEqual(plain.errors(), [])
        other = self.ok(mpirun(2, under, env={**place, "WORLD_SIZE": "16"}))
        self.assertEqual(len([line for line in other.errors() if "--launcher env for the other" in line]), 1, str(other))

    def test_srun_without_pmi(self):
        step = {"SLURM_JOB_ID": str(random.randrange(9000)), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2"}
        job = Ranks(self.folder.name, 2)
        job.place = step
        for rank in range(2):
            job.start(None, [ALL_REDUCE, *SMALL], SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank))
        self.all_good(job.results()).line("# 2 processes over TCP (srun), no MPI")


if __name__ == "__main__":
    suite.main()
