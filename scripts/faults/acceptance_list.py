"""The faults that `busbar accept` must find, with whom it must blame. Two ranks on each host: 4 and 5 are on node2."""

import dataclasses
import os
import signal
import time

from cluster import RUN, kill, vcluster

PLAN = "scripts/faults/acceptance.yaml"
# By default Open MPI's launcher waits 499 s for a host that is silent.
KEEPALIVE = {"OMPI_MCA_oob_tcp_keepalive_time": "3", "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
             "OMPI_MCA_oob_tcp_keepalive_probes": "2"}
RATES = {4: "1gbit", 8: "500mbit", 16: "500mbit"}  # what two cores can carry; 16 hosts have one rank each


@dataclasses.dataclass
class AcceptFault:
    name: str
    what: str  # for the table
    before: object = None  # called with the cluster when the hosts are up
    during: object = None  # called with the cluster again and again while it runs, until it is over
    env: tuple = ()  # lines of shell that each rank runs first
    options: tuple = ()  # of accept
    launch: bool = False  # each stage a launch of its own
    hosts: tuple = (4, 8)
    outcomes: tuple = ("FAIL",)
    blamed: tuple = ("node2",)
    rank: int = -1  # that must be named too
    cluster_env: dict = dataclasses.field(default_factory=dict)
    wait_s: float = 240

    def healthy(self):
        return "FAIL" not in self.outcomes


def command(*words):
    return lambda cluster: vcluster(*words)


def slow_rank(rank, run_s, stop_s):
    """Stopped for a part of each moment: to the others it is a rank that is slow at everything."""
    def during(cluster):
        pid = cluster.find_rank(rank)
        while pid is not None and os.path.exists(f"/proc/{pid}"):  # to look for it takes longer than a moment
            kill(pid, signal.SIGSTOP)
            time.sleep(stop_s)
            kill(pid, signal.SIGCONT)
            time.sleep(run_s)
        time.sleep(0.1)
    return during


def flap(host, down_s, up_s):
    def during(cluster):
        if not cluster.ranks(host):
            time.sleep(0.1)
            return
        time.sleep(up_s)
        vcluster("link", host, "down")
        time.sleep(down_s)
        vcluster("link", host, "up")
    return during


def once(act, sent):
    """When so many bytes have been sent, so that ranks are past their start; then never again."""
    done = []

    def during(cluster):
        time.sleep(0.1)
        # Between two launches there is nobody.
        if not done and cluster.sent() > sent and cluster.all_ranks() and act(cluster) is not False:
            done.append(True)
    return during


def stop(rank):
    def act(cluster):
        pid = cluster.find_rank(rank)
        if pid is None:
            return False
        kill(pid, signal.SIGSTOP)
        return True
    return act


def libraries(usual, odd, host):
    """A libnccl that has no more than its name, on every host's own folder for temporary files."""
    def before(cluster):
        for name in cluster.hosts:
            file = f"libnccl.so.{odd if name == host else usual}"
            script = f"mkdir -p {RUN}/tmp/lib && cd {RUN}/tmp/lib && " \
                     f"echo | cc -shared -fPIC -x c -o {file} - && ln -s {file} libnccl.so.2"
            vcluster("exec", name, "sh", "-c", script)
    return before


def on_host(host, line):
    return f'[ "$(hostname)" != {host} ] || {line}'


# Of the group that `vcluster cpu` has made: a quota that is there from the start, as a container's is.
JOIN_QUOTA = 'for group in /sys/fs/cgroup/vcluster.$VC_SANDBOX.node2 /sys/fs/cgroup/*/vcluster.$VC_SANDBOX.node2; do ' \
             '[ ! -e "$group/cgroup.procs" ] || echo $$ > "$group/cgroup.procs"; done'
HEALTHY = ("PASS", "WARN")
FAULTS = [
    AcceptFault("healthy", "none", hosts=(4, 8, 16), outcomes=HEALTHY, blamed=()),
    AcceptFault("slow_link", "a link at a tenth", before=command("rate", "node2", "both", "100mbit")),
    AcceptFault("slow_link_tx", "a link at a tenth, sending only", before=command("rate", "node2", "tx", "100mbit")),
    AcceptFault("slow_link_rx", "a link at a tenth, receiving only", before=command("rate", "node2", "rx", "100mbit")),
    AcceptFault("slow_host", "a host's ranks limited to 10 % of a core", before=command("cpu", "node2", "10"),
                env=(on_host("node2", JOIN_QUOTA),), hosts=(4,)),  # 16 ranks that wait for it leave two cores no time
    AcceptFault("slow_rank", "a rank stopped for 20 of each 25 ms", during=slow_rank(5, 0.005, 0.02), rank=5),
    # TCP waits longer each time: now and then a step stands still for as long as a hang is allowed to.
    AcceptFault("flapping_link", "a link down for 1 s, up for 2 s, all the time", during=flap("node2", 1, 2),
                options=("-T", "15"), launch=True, cluster_env=KEEPALIVE),
    AcceptFault("wrong_data", "one bit of one rank's result flipped once",
                options=("--inject", "rank=5,op=50,kind=flip"), rank=5),
    AcceptFault("mtu", "MTU 600 on one host of 1500", before=command("mtu", "node2", "600")),
    AcceptFault("tiny_shm", "/dev/shm of 64 KiB on one host", before=command("shm", "node2", "64k")),
    AcceptFault("environment", "NCCL_ALGO set on one host only", env=(on_host("node2", "export NCCL_ALGO=Ring"),)),
    AcceptFault("old_library", "libnccl 2.27.3 on one host, 2.28.9 on the others",
                before=libraries("2.28.9", "2.27.3", "node2"), env=(f"export LD_LIBRARY_PATH={RUN}/tmp/lib",)),
    AcceptFault("hang", "a rank stopped (SIGSTOP)", during=once(stop(5), 8 * 2**20), options=("-T", "15"),
                launch=True, rank=5, hosts=(4,)),
    AcceptFault("host_dies", "a host loses power", during=once(command("powercut", "node2"), 8 * 2**20),
                options=("-T", "15"), launch=True, hosts=(4,), cluster_env=KEEPALIVE),
]
BY_NAME = {fault.name: fault for fault in FAULTS}
