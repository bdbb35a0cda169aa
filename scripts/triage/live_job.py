"""A live job: its processes, its fault, and when both are where they should be."""

import contextlib
import ctypes
import glob
import os
import pathlib
import signal
import socket
import subprocess
import time

import live_places

HERE = pathlib.Path(__file__).resolve().parent
NRANKS = live_places.NRANKS
PATIENCE_S = 120
AT_START = ("never_launched", "wrong_master", "store_kill", "out_of_memory")
MEMORY = 700 << 20


class Full:
    """A port whose queue of connections is full: to connect to it stays in SYN_SENT."""

    def __init__(self):
        self.server = socket.socket()
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(0)
        self.port = self.server.getsockname()[1]
        self.clients = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", self.port))
            self.clients.append(client)


class Tracer:
    """A process that holds another as a debugger does."""

    def __init__(self, pid):
        self.child = os.fork()
        if self.child == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
            attach = 16  # PTRACE_ATTACH
            libc.ptrace(attach, pid, None, None)
            os.waitpid(pid, 0x40000000)  # __WALL
            signal.pause()
            os._exit(0)

    def end(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


class Job:
    def __init__(self, live, name, folder, place, options):
        self.folder, self.live, self.name, self.place, self.options = folder, live, name, place, options
        self.processes, self.parts = [], []
        os.mkfifo(os.path.join(folder, "prompt"))
        self.prompt = os.open(os.path.join(folder, "prompt"), os.O_RDWR)  # so that opening it does not wait
        words = ["--fault", live.fault, "--on", str(live.on), "--folder", folder]
        if live.fault == "blocked_files":
            self.parts.append(live_places.SilentMount(place, live.on, os.path.join(folder, "mount")))
            words += ["--mount", os.path.join(folder, "mount")]
        if options.record and live.program == "train.py":
            words.append("--record")
            os.environ["TORCH_FR_DUMP_TEMP_FILE"] = os.path.join(folder, "fr_")
        self.memory = ""
        if live.fault == "out_of_memory":
            self.parts.append(live_places.MemoryGroup(MEMORY))
            self.memory = self.parts[-1].folder
        launcher = place.mpi(live.mpich)
        if live.program == "solve.py":
            python = options.mpich_python if live.mpich else options.python
            self.start([*launcher, python, str(HERE / "solve.py"), *words])
        elif name.startswith("plain_mpi"):
            self.start([*launcher, options.python, str(HERE / "plain.py"), "--mpi", *words])
        elif live.program == "all_reduce_perf":
            inject = ["--inject", f"rank={live.on},op=100,kind={live.fault}"] if live.on >= 0 else []
            self.start([*launcher, os.path.join(options.build, "all_reduce_perf"), "--backend", "mpi", "-b", "64K", "-e",
                        "64K", "-N", "0", "-T", "600", *inject])
        else:
            python = options.jax_python if live.program == "fit.py" else options.python
            self.start_ranks([python, str(HERE / live.program), *words])

    def start(self, words):
        log = open(os.path.join(self.folder, "log"), "ab")  # pylint: disable=consider-using-with
        self.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,  # pylint: disable=consider-using-with
                                               start_new_session=True))

    def master(self, rank, port):
        """Where a rank expects the others."""
        if self.name != "wrong_master" or rank != self.live.on:
            return {"MASTER_ADDR": self.place.master, "MASTER_PORT": str(port)}
        if self.place.master != "127.0.0.1":
            return {"MASTER_ADDR": "198.18.7.200", "MASTER_PORT": str(port)}
        self.parts.append(Full())
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.parts[-1].port)}

    def start_ranks(self, words):
        port = live_places.free_port()
        if self.place.one_step:
            return self.start(self.place.step(lambda rank: self.shell_of_task(rank, port), words))
        for rank in range(NRANKS):
            if self.name == "never_launched" and rank == self.live.on:
                continue
            here = self.place.interface == "lo"
            settings = {"RANK": rank, "LOCAL_RANK": rank if here else 0, "WORLD_SIZE": NRANKS,
                        "LOCAL_WORLD_SIZE": NRANKS if here else 1, "GLOO_SOCKET_IFNAME": self.place.interface,
                        **self.master(rank, port)}
            if self.live.program == "fit.py":
                settings = {"JAX_PROCESS_ID": rank, "JAX_NUM_PROCESSES": NRANKS, "JAX_PLATFORMS": "cpu",
                            "JAX_COORDINATOR_ADDRESS": f"{self.place.master}:{port}"}
            command = ["env", *(f"{key}={value}" for key, value in settings.items()), *words]
            if self.memory and rank == self.live.on:  # with a launcher that stays in the group
                command = ["sh", "-c", f'echo $$ >{self.memory}/cgroup.procs; "$@"; sleep 3600', "launch", *command]
            self.start([*self.place.on(rank), *command])

    def shell_of_task(self, rank, port):
        lines = [f"export GLOO_SOCKET_IFNAME={self.place.interface}"]
        lines += [f"export {key}={value}" for key, value in self.master(rank, port).items()]
        if rank == self.live.on and self.name == "never_launched":
            lines.append("exit 0")
        if rank == self.live.on and self.memory:  # slurmstepd and all that it starts
            lines += [f"echo {word} >{self.memory}/cgroup.procs" for word in ("$PPID", "$$")]
        return "\n".join(lines) + "\n"

    def steps(self):
        return sum(len(pathlib.Path(one).read_text(encoding="utf-8").split())
                   for one in glob.glob(os.path.join(self.folder, "step.*")))

    def step_times(self):
        stamps = [float(word) for word in
                  pathlib.Path(self.folder, "step.0").read_text(encoding="utf-8").split()]
        return [b - a for a, b in zip(stamps, stamps[1:])]

    def pids(self):
        pattern = "all_reduce_perf --backend mpi" if self.live.program == "all_reduce_perf" else self.folder
        return live_places.pids_of(pattern)

    def settle(self):
        """Waits until all ranks are where the fault holds them: no step for some seconds; or, if it steps on, steps."""
        begin, still_since, last = time.monotonic(), None, -1
        while time.monotonic() < begin + PATIENCE_S:
            time.sleep(0.5)
            steps, now = self.steps(), time.monotonic()
            if self.live.program == "all_reduce_perf":
                if now > begin + (8 if self.live.on < 0 else 20):
                    return None
            elif self.live.goes_on:
                if steps > 40:
                    return self.meddle()
            elif not (steps >= 10 or self.name in AT_START) or steps != last:
                last, still_since = steps, now
            elif now - still_since > (15 if steps == 0 else 5):
                return self.meddle()
        raise TimeoutError(f"{self.name} did not settle: {self.steps()} steps\n{self.log()}")

    def log(self):
        return pathlib.Path(self.folder, "log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def meddle(self):
        """What the job does not do to itself."""
        if self.live.fault == "debugger":
            self.parts.append(Tracer(self.pid_of(self.live.on)))
            time.sleep(1)
        if self.name == "partition":
            self.place.cut(self.live.on)
            time.sleep(15)

    def pid_of(self, rank):
        for pid in self.pids():
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word in words for word in (b"RANK=%d" % rank, b"OMPI_COMM_WORLD_RANK=%d" % rank)):
                return pid
        return 0

    def end(self):
        for part in self.parts:
            if hasattr(part, "end") and not isinstance(part, live_places.MemoryGroup):
                part.end()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.place.reset()
        for part in self.parts:
            if isinstance(part, live_places.MemoryGroup):
                part.end()
        os.close(self.prompt)
