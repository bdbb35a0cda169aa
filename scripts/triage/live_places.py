"""Where the live jobs run, and how `busbar triage` gets there: all in the sandbox of scripts/vcluster, on this machine
alone or with a rank on each of four virtual hosts, which an ssh-like exec, Slurm or a stand-in for kubectl reaches."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
VCLUSTER = str(HERE.parent / "vcluster" / "vcluster")
AGENT = str(HERE.parent / "vcluster" / "agent")
RUN = "/run/vcluster"
NRANKS = 4
HOSTS = [f"node{i}" for i in range(NRANKS)]

KUBECTL = """#!/bin/sh
# A stand-in: a pod is a virtual host with its own process namespace.
if [ "$1" = get ]; then exec cat FOLDER/pods.json; fi
shift
while [ "$1" != -- ]; do
  case $1 in -n | -c) shift 2 ;; -*) shift ;; *) pod=$1; shift ;; esac
done
shift
exec nsenter -t "$(cat "FOLDER/$pod")" --net --uts --ipc --mount --pid -- "$@"
"""
POD_AGENT = """#!/bin/sh
# What mpirun calls instead of ssh, as MPI's operator does.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec FOLDER/kubectl exec -i -n live "$host" -- sh -c "$*"
"""
# Of one task of Slurm: what torchrun would set, and what the job of run_triage.py has for this rank.
TASK = """#!/bin/sh
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS LOCAL_WORLD_SIZE=1
[ ! -e "$0.$RANK" ] || . "$0.$RANK"
exec "$@"
"""


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def run(words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout


def pids_of(pattern):
    """Of the sandbox, which has a process namespace of its own."""
    found = subprocess.run(["pgrep", "-f", pattern], stdout=subprocess.PIPE, text=True, check=False).stdout
    return [int(word) for word in found.split()]


class Local:
    """All ranks on this machine."""

    name, master, interface = "local", "127.0.0.1", "lo"
    one_step = False  # whether all ranks are started at once
    nhosts = NRANKS

    def __init__(self, options):
        self.options = options
        self.environment = {}  # of busbar triage
        self.bin = os.path.join(RUN, "live_bin")
        os.makedirs(self.bin, exist_ok=True)

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        pathlib.Path(path).write_text(text.replace("FOLDER", self.bin), encoding="utf-8")
        os.chmod(path, 0o755)
        return path

    def on(self, _rank):
        """Words before a command that runs where a rank does."""
        return []

    def mpi(self, mpich):
        if mpich:
            return ["mpiexec.mpich", "-n", str(NRANKS)]
        return [self.options.mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(NRANKS)]

    def triage(self):
        return ["--local"]

    def reset(self):
        """After a job."""


class Hosts(Local):
    """A rank on each virtual host."""

    name, master, interface = "hosts", "198.18.7.1", "eth0"

    def __init__(self, options):
        super().__init__(options)
        os.environ.update(VC_SLOTS="1", VC_NAP=options.nap)
        if not os.path.exists(os.path.join(RUN, "node0")):
            run([VCLUSTER, "up", str(self.nhosts), "none"])

    def on(self, rank):
        return [VCLUSTER, "exec", HOSTS[rank]]

    def mpi(self, mpich):
        return [VCLUSTER, "hydra" if mpich else "mpirun", "-n", str(NRANKS)]

    def triage(self):
        return ["--hosts", ",".join(HOSTS), "--agent", AGENT]

    def cut(self, rank):
        for host in HOSTS:
            if host != HOSTS[rank]:
                run([VCLUSTER, "cut", HOSTS[rank], host])

    def reset(self):
        run([VCLUSTER, "heal"])


class Slurm(Hosts):
    """The same under Slurm."""

    name = "slurm"
    one_step = True

    def __init__(self, options):
        super().__init__(options)
        os.environ["VC_SLURM"] = "SlurmdTimeout=300"  # a node that is cut off keeps its job
        run([VCLUSTER, "slurm", "start", "4"])
        self.environment = {"SLURM_CONF": f"{RUN}/slurm/slurm.conf"}

    def step(self, settings, words):
        """Words that start `words` on all hosts; `settings`: lines of a shell for a rank."""
        task = self.program("task", TASK)
        for rank in range(NRANKS):
            pathlib.Path(f"{task}.{rank}").write_text(settings(rank), encoding="utf-8")
        return [VCLUSTER, "srun", "--mpi=none", "-N", str(NRANKS), "-n", str(NRANKS), "--ntasks-per-node=1", "--no-kill",
                "--kill-on-bad-exit=0", task, *words]

    def mpi(self, mpich):
        launcher = ["mpiexec.mpich", "-launcher", "slurm"] if mpich else ["mpirun"]
        return [VCLUSTER, "salloc", "--quiet", "-N", str(NRANKS), "-n", str(NRANKS), "--ntasks-per-node=1", *launcher]

    def triage(self):
        job = run([VCLUSTER, "squeue", "-h", "-t", "R", "-o", "%i"]).split()
        return ["--slurm", job[0] if job else "0", "--agent", AGENT]

    def reset(self):
        super().reset()
        for job in run([VCLUSTER, "squeue", "-h", "-o", "%i"]).split():
            run([VCLUSTER, "scancel", job])
        for _ in range(300):
            idle = run([VCLUSTER, "sinfo", "-h", "-t", "idle", "-o", "%D"]).split()
            if idle == [str(NRANKS)]:
                return
            time.sleep(0.2)
        raise TimeoutError("Slurm's nodes do not become idle")


class Kube(Hosts):
    """A pod on each virtual host, with process and mount namespaces of its own."""

    name = "kube"
    nhosts = NRANKS + 1  # mpirun runs on the last, as in a pod of its own

    def __init__(self, options):
        super().__init__(options)
        self.kubectl, self.agent = self.program("kubectl", KUBECTL), self.program("pod_agent", POD_AGENT)
        self.environment = {"PATH": self.bin + ":" + os.environ["PATH"]}
        self.hostfile = self.program("hostfile", "".join(f"{host} slots=1\n" for host in HOSTS))
        for host in HOSTS:
            holder = subprocess.Popen([VCLUSTER, "exec", host, "unshare", "--pid", "--fork", "--kill-child",  # pylint: disable=consider-using-with
                                       "--mount-proc", "sleep", "infinity"])
            while not (child := subprocess.run(["pgrep", "-P", str(holder.pid), "-x", "sleep"], check=False,
                                               stdout=subprocess.PIPE, text=True).stdout.strip()):
                time.sleep(0.1)
            pathlib.Path(self.bin, host).write_text(child, encoding="utf-8")
        pods = [{"metadata": {"name": host}, "status": {"phase": "Running"}} for host in HOSTS]
        pathlib.Path(self.bin, "pods.json").write_text(json.dumps({"items": pods}), encoding="utf-8")

    def on(self, rank):
        return [self.kubectl, "exec", "-i", "-n", "live", HOSTS[rank], "--"]

    def mpi(self, mpich):
        enter = [VCLUSTER, "exec", f"node{NRANKS}"]
        if mpich:
            return [*enter, "mpiexec.mpich", "-hosts", ",".join(HOSTS), "-iface", "eth0", "-launcher", "ssh",
                    "-launcher-exec", self.agent, "-n", str(NRANKS)]
        settings = {"plm": "rsh", "plm_rsh_agent": self.agent, "orte_default_hostfile": self.hostfile, "pml": "ob1",
                    "oob_tcp_if_include": "eth0", "btl_tcp_if_include": "eth0", "btl": "self,vader,tcp",
                    "mpi_yield_when_idle": "1", "hwloc_base_binding_policy": "none"}
        return [*enter, "env", *(f"OMPI_MCA_{key}={value}" for key, value in settings.items()), "mpirun",
                "--allow-run-as-root", "-n", str(NRANKS)]

    def triage(self):
        return ["--kube", "-n", "live", "-l", "job=live"]


PLACES = {place.name: place for place in (Local, Hosts, Slurm, Kube)}


class MemoryGroup:
    """A control group with a memory limit, where root may make one."""

    def __init__(self, nbytes):
        self.folder = ""
        for base, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = f"{base}/busbar_live.{os.environ['VC_SANDBOX']}"
            try:
                os.makedirs(folder, exist_ok=True)
                self.folder = folder
                pathlib.Path(folder, limit).write_text(str(nbytes), encoding="utf-8")
                return
            except OSError:
                self.end()
        raise OSError("no control group with a memory limit can be made here")

    def end(self):
        if self.folder:
            for _ in range(20):
                try:
                    os.rmdir(self.folder)
                    return
                except OSError:
                    time.sleep(0.1)


class SilentMount:
    """A file system that does not answer, where a rank runs."""

    def __init__(self, place, rank, folder):
        self.unmount = [*place.on(rank), "umount", "-l", folder]
        os.makedirs(folder)
        self.process = subprocess.Popen([*place.on(rank), "python3", str(HERE / "silent_mount.py")],  # pylint: disable=consider-using-with
                                        env=dict(os.environ, SILENT_MOUNT=folder))
        for _ in range(100):
            if folder in run([*place.on(rank), "cat", "/proc/self/mountinfo"]):
                return
            time.sleep(0.1)
        raise OSError("no FUSE here")

    def end(self):
        for pid in pids_of("silent_mount.py"):  # which fails what waits there
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        subprocess.run(self.unmount, check=False)
