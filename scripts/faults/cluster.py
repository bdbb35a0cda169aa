"""The virtual cluster, and one job on it, from inside a sandbox of scripts/vcluster."""

import glob
import os
import re
import signal
import subprocess
import threading
import time

VCLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vcluster", "vcluster")
RUN = "/run/vcluster"
PATIENCE_S = 5  # for a launcher whose ranks are all gone
DAEMONS = {"mpirun": "orted", "salloc": "orted", "srun": "slurmstepd", "hydra": "hydra_pmi_proxy"}
PROGRAM = "all_reduce_perf"


def vcluster(*words, check=True):
    done = subprocess.run([VCLUSTER, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise SystemExit(done.stderr) if done.returncode == 77 else RuntimeError(f"vcluster {words}: {done.stderr}")
    return done.stdout


def until(true, limit_s, step_s=0.05):
    """Whether it came true in time."""
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(step_s)
    return True


def kill(pid, how):
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass


class Cluster:
    def __init__(self, nhosts, launcher, rate="1gbit", program=PROGRAM):
        self.launcher = launcher
        self.program = program  # what the ranks are called
        self.hosts = [f"node{i}" for i in range(nhosts)]
        vcluster("up", nhosts, rate)
        if launcher in ("salloc", "srun"):
            vcluster("slurm", "start")

    def pids(self, host, name=""):
        return [int(word) for word in vcluster("pids", host, name).split()]

    def ranks(self, host):
        return sorted(self.pids(host, self.program))

    def rank(self, rank):
        """The process of a rank, two of which are on each host."""
        for pid in self.ranks(f"node{rank // 2}"):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if re.search(rb"(^|\0)(OMPI_COMM_WORLD_RANK|SLURM_PROCID|PMIX_RANK|PMI_RANK)=%d\0" % rank, file.read()):
                    return pid
        raise RuntimeError(f"rank {rank} is not there")

    def mpirun(self):
        """The processes that a user or a scheduler ends."""
        if self.launcher == "salloc":
            return self.pids("node0", "mpirun")
        usual = "mpiexec.mpich" if self.launcher == "hydra" else "mpirun"
        return self.pids("node0", os.path.basename(os.environ.get("BUSBAR_MPIRUN", usual)))

    def daemon(self, host):
        return self.pids(host, DAEMONS[self.launcher])

    def root(self, host):
        """The host's files."""
        with open(f"{RUN}/{host}/holder", encoding="utf-8") as file:
            return f"/proc/{file.read().strip()}/root"

    def records(self, host):
        folders = ("/dev/shm", f"{RUN}/tmp")
        return [path for folder in folders for path in glob.glob(f"{self.root(host)}{folder}/busbar.*")]

    def sent(self):
        return int(re.search(r"tx_bytes=(\d+)", vcluster("counters"))[1])

    def all_ranks(self):
        return [(pid, host) for host in self.hosts for pid in self.ranks(host)]

    def left(self):
        """What a job that is over left on the hosts. Not what is the launcher's or the library's own: a daemon that is
        cut off waits for its master, and Open MPI's segments stay after a SIGKILL."""
        found = [f"process {pid} on {host}" for pid, host in self.all_ranks()]
        for host in self.hosts:
            found += [f"{os.path.basename(path)} on {host}" for path in self.records(host)]
            for line in vcluster("exec", host, "ss", "-Htlnp").splitlines():
                if self.program in line:
                    found.append(f"a socket on {host}: {line.split()[3]}")
        return found


class Job:
    """A job whose stderr is read with the time of each line."""

    def __init__(self, cluster, program, options, folder, env=None):
        nhosts = len(cluster.hosts)
        launch = {"mpirun": ["mpirun", "-np", 2 * nhosts],
                  "hydra": ["hydra", "-n", 2 * nhosts],
                  "salloc": ["salloc", "-Q", "-N", nhosts, "-n", 2 * nhosts, "--ntasks-per-node=2", "mpirun"],
                  "srun": ["srun", "--mpi=pmix", "-N", nhosts, "-n", 2 * nhosts, "--ntasks-per-node=2"]}
        command = [VCLUSTER, *map(str, launch[cluster.launcher]), program, "--backend", "mpi", *options]
        self.cluster = cluster
        self.ranks_gone = None  # when the last rank ended, if that was before the launcher did
        self.lines = []
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, cwd=folder, env=dict(os.environ, **(env or {})), text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        errors="replace")
        self.out = []
        self.readers = [threading.Thread(target=self.read, args=(self.process.stdout, self.out), daemon=True),
                        threading.Thread(target=self.read, args=(self.process.stderr, self.lines), daemon=True)]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append((time.monotonic(), line.rstrip("\n")))

    def ended(self):
        return self.process.poll() is not None

    def wait(self, limit_s):
        """The exit code; None, and the launcher ended, where it goes on without any rank, or for too long."""
        end = time.monotonic() + limit_s
        while not self.ended() and time.monotonic() < end:
            if self.cluster.all_ranks():
                self.ranks_gone = None
            elif self.ranks_gone is None:
                self.ranks_gone = time.monotonic()
            elif time.monotonic() - self.ranks_gone > PATIENCE_S:
                break
            time.sleep(0.2)
        code = self.process.poll()
        if code is None:
            self.process.send_signal(signal.SIGTERM)
            if not until(self.ended, 3):
                self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(2)
        return code if code is None or code >= 0 else 128 - code
