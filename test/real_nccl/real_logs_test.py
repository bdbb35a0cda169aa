"""Catches: a log of the real NCCL that `busbar diagnose` misjudges, healthy or with a fault whose truth is known.

REAL_NCCL_KEEP=FOLDER keeps each scenario's logs there, with the truth beside them, as test/logs/real has some.
"""

import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import real_library  # noqa: E402
import suite  # noqa: E402
from diagnosis import diagnose  # noqa: E402
from real_library import RealCase  # noqa: E402

RANK = os.path.join(real_library.TEST, "real_nccl_rank")
LIMIT_S = 60
LIFE = ("init", "use", "use:4096", "split", "use", "destroy")


class Scenario:
    """Ranks that run at once, each with words of its own; those that are left at the end are killed."""

    def __init__(self, library, folder, **settings):
        self.folder = folder
        self.settings = library.settings(**{"NCCL_DEBUG": "INFO", **settings})
        self.processes = []

    def start(self, rank, nranks, words, device=None):
        environment = dict(os.environ, **self.settings)
        environment["NCCL_DEBUG_FILE"] = os.path.join(self.folder, f"rank{rank}.log")
        command = [RANK, self.folder, str(rank), str(nranks), str(rank if device is None else device), *words]
        self.processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL))

    def end(self, waits=True):
        """All exit codes; without `waits` those that are left are killed."""
        deadline = time.monotonic() + LIMIT_S
        for process in self.processes:
            try:
                process.wait(max(0, deadline - time.monotonic()) if waits else 0)
            except subprocess.TimeoutExpired:
                process.kill()
        return [process.wait() for process in self.processes]

    def until(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > deadline:
                self.end(waits=False)
                raise AssertionError(f"not within {LIMIT_S} s")
            time.sleep(0.01)

    def until_said(self, name):
        self.until(lambda: os.path.exists(os.path.join(self.folder, name)))

    def until_logged(self, rank, text, times=1):
        def is_logged():
            try:
                with open(os.path.join(self.folder, f"rank{rank}.log"), encoding="utf-8") as file:
                    return file.read().count(text) >= times
            except FileNotFoundError:
                return False
        self.until(is_logged)

    def logs(self):
        return sorted(os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.endswith((".log", ".txt")))


class Logs(RealCase):
    def scenario(self, **settings):
        folder = self.path(f"scenario{len(os.listdir(self.folder.name))}")
        os.mkdir(folder)
        return Scenario(self.library, folder, **settings)

    def judged(self, scenario, name, verdicts, done, words=()):
        logs = scenario.logs()
        answer = diagnose(logs)
        keep = os.environ.get("REAL_NCCL_KEEP")
        if keep:
            kept = os.path.join(keep, f"{name}_{'.'.join(map(str, self.version))}")
            shutil.rmtree(kept, ignore_errors=True)
            os.makedirs(kept)
            for log in logs:
                shutil.copy(log, kept)
            with open(os.path.join(kept, "truth"), "w", encoding="utf-8") as file:
                file.write(f"verdict: {verdicts}\nwhat was done: {done}\n")
        self.assertIn(answer.verdict, verdicts.split("|"), f"{name}: {answer.claims()[:600]}")
        for word in words:
            self.assertTrue(answer.says(word), f"{name}: {word!r}: {answer.claims()[:600]}")

    def healthy(self, name, done, nranks=2, words=LIFE, **settings):
        with self.subTest(name):
            scenario = self.scenario(**settings)
            for rank in range(nranks):
                scenario.start(rank, nranks, words)
            self.assertEqual(scenario.end(), [0] * nranks)
            self.judged(scenario, name, "OK", "healthy: " + done)

    def test_healthy_jobs(self):
        self.healthy("healthy", "init, all-reduces, split, destroy")
        self.healthy("one_rank", "one rank", nranks=1)
        self.healthy("p2p", "P2P/CUMEM", NCCL_P2P_LEVEL="SYS")
        self.healthy("ipc", "P2P/IPC", NCCL_P2P_LEVEL="SYS", NCCL_CUMEM_ENABLE="0")
        self.healthy("shm", "without virtual memory management", NCCL_CUMEM_ENABLE="0")
        self.healthy("all_subsystems", "NCCL_DEBUG_SUBSYS=ALL", NCCL_DEBUG_SUBSYS="ALL")
        self.healthy("older_driver", "a driver of CUDA 12.2", FAKE_DRIVER="12020")
        self.healthy("a100", "compute capability 8.0", FAKE_CAPABILITY="80")
        self.healthy("nvswitch", "four ranks behind NVSwitches, NVLS", nranks=4, **real_library.NVSWITCH)
        if self.version >= (2, 27):
            self.healthy("windows", "four ranks, symmetric windows", nranks=4, words=("init", "window", "use", "destroy"))

    def test_a_profiler_of_kernels_gets_all_events_and_the_communicator_ends(self):
        if self.version < (2, 28):
            self.skipTest("no profiler interface v5 before 2.28")
        counts = self.path("counts")
        self.healthy("profiler", "a profiler plugin that wants every event", REAL_NCCL_PROFILE=counts,
                     NCCL_PROFILER_PLUGIN=os.path.join(real_library.TEST, "counting_profiler.so"))
        with open(counts, encoding="utf-8") as file:
            for line in file:
                _, started, _, stopped = line.split()
                self.assertGreater(int(started), 0)
                self.assertEqual(started, stopped)

    def test_a_late_rank(self):
        scenario = self.scenario()
        scenario.start(0, 2, ("init", "say:in", "use", "destroy"))
        scenario.start(1, 2, ("init", "await:late", "use", "destroy"))
        scenario.until_logged(0, "Init COMPLETE")
        scenario.until_said("in")
        open(os.path.join(scenario.folder, "late"), "w", encoding="utf-8").close()
        self.assertEqual(scenario.end(), [0, 0])
        self.judged(scenario, "late", "OK", "rank 1 came late to its all-reduce")

    def test_two_ranks_on_one_gpu(self):
        scenario = self.scenario()
        for rank in range(2):
            scenario.start(rank, 2, LIFE, device=0)
        self.assertEqual(scenario.end(), [1, 1])
        self.judged(scenario, "one_gpu", "CONFIG", "both ranks used GPU 0", ["same GPU"])

    def test_refusals(self):
        for name, verdicts, done, settings in (
                ("no_image", "CONFIG", "this build of NCCL had no kernel for the GPU", {"FAKE_NO_IMAGE": "1"}),
                ("no_memory", "RESOURCE", "the GPU had 8 MB", {"FAKE_GPU_BYTES": "8000000"}),
                ("no_interface", "CONFIG", "NCCL_SOCKET_IFNAME named no interface", {"NCCL_SOCKET_IFNAME": "=nosuch0"})):
            with self.subTest(name):
                scenario = self.scenario(**settings)
                scenario.start(0, 2, LIFE)
                if name != "no_interface":
                    scenario.start(1, 2, LIFE)
                self.assertNotIn(0, scenario.end())
                self.judged(scenario, name, verdicts, done)

    def test_a_rank_that_never_comes(self):
        scenario = self.scenario()
        scenario.start(0, 2, ("init", "use"))
        # Before 2.22 NCCL says that it starts when all have come.
        scenario.until_logged(0, "Init START" if self.version >= (2, 22) else "Bootstrap : Using")
        scenario.end(waits=False)
        self.judged(scenario, "missing", "INIT_NOT_JOINED|INIT_STUCK|UNKNOWN", "rank 1 never called ncclCommInitRank")

    def faulty(self, name, verdicts, done, words):
        """Three ranks, rank 1 with words of its own; the others wait in their second all-reduce."""
        scenario = self.scenario(NCCL_DEBUG_SUBSYS="INIT,COLL")
        for rank in range(3):
            scenario.start(rank, 3, words if rank == 1 else ("init", "use", "use", "destroy"))
        for rank in range(3):
            scenario.until_logged(rank, "AllReduce: opCount", 2 if "use:1025" in words or rank != 1 else 1)
        if "kill" in words:
            scenario.processes[1].wait()
        scenario.end(waits=False)
        self.judged(scenario, name, verdicts, done, [] if "UNKNOWN" in verdicts else ["rank 1"])

    def test_hangs(self):
        self.faulty("lagging", "RANK_LAGGING", "rank 1 never made its second all-reduce", ("init", "use", "pause"))
        self.faulty("mismatch", "ARG_MISMATCH", "rank 1 reduced 1025 elements, the others 1024",
                    ("init", "use", "use:1025", "destroy"))
        self.faulty("killed", "PROCESS_DEAD|RANK_LAGGING", "rank 1 was killed before its second all-reduce",
                    ("init", "use", "kill"))

    def test_an_abort(self):
        scenario = self.scenario()
        for rank in range(2):
            scenario.start(rank, 2, ("init", "use", "abort"))
        self.assertEqual(scenario.end(), [0, 0])
        self.judged(scenario, "abort", "OK|UNKNOWN", "healthy, then the program called ncclCommAbort")

    def ask_ras(self, scenario, command):
        host, port = scenario.settings["NCCL_RAS_ADDR"].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as ras:
            ras.sendall(f"{command}\n".encode())
            answer = b""
            while part := ras.recv(1 << 16):
                answer += part
        return answer.decode()

    def test_answers_of_ras(self):
        if self.version < (2, 24):
            self.skipTest("no RAS before 2.24")
        for name, verdict, done, words in (
                ("ras", "OK", "answers of RAS in a healthy idle job", ("init", "use", "say:used1", "pause")),
                ("ras_killed", "PROCESS_DEAD", "answers of RAS after rank 1 was killed", ("init", "use", "say:used1", "kill"))):
            with self.subTest(name):
                scenario = self.scenario()
                scenario.start(0, 2, ("init", "use", "say:used0", "pause"))
                scenario.start(1, 2, words)
                scenario.until_said("used0")
                scenario.until_said("used1")
                if name == "ras_killed":
                    scenario.processes[1].wait()
                answer = self.ask_ras(scenario, "VERBOSE STATUS")
                scenario.end(waits=False)
                for log in scenario.logs():
                    os.remove(log)
                with open(os.path.join(scenario.folder, "ras.txt"), "w", encoding="utf-8") as file:
                    file.write(answer)
                self.judged(scenario, name, verdict, done)


if __name__ == "__main__":
    real_library.skip_unless_given()
    suite.main()
