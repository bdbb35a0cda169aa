"""The faults: how each is made, and what busbar must make of it. Two ranks on each host: 4 and 5 are on node2."""

import dataclasses
import os
import signal
import threading
import time

from cluster import RUN, kill, until, vcluster

LIMIT_S = 6  # -T of the jobs
ENDLESS = ("-b", "1M", "-e", "1M", "-n", "100", "-N", "0")
BRIEF = ("-b", "1M", "-e", "1M", "-n", "20", "-N", "0")  # what a mismatch leads to is seen at the end of a loop
SHORT = ("-b", "1M", "-e", "1M", "-n", "40", "-N", "2")
# By default Open MPI's launcher waits 499 s for a host that is silent.
KEEPALIVE = {"OMPI_MCA_oob_tcp_keepalive_time": "3", "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
             "OMPI_MCA_oob_tcp_keepalive_probes": "2"}
# Recursive doubling over two ranks a host never pairs node1 with node2.
RING = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": "4"}


@dataclasses.dataclass
class Fault:
    name: str
    what: str  # for the table
    inject: object = None  # called with the cluster when the job is under way
    before: object = None  # called with the cluster before the job is started
    options: tuple = ENDLESS
    env: dict = dataclasses.field(default_factory=dict)
    repair: object = None  # called with the cluster when the job is over; then ranks that could not end must
    hosts: int = 4
    rate: str = "1gbit"
    limit_s: float = LIMIT_S
    verdicts: tuple = ()  # any of them is right; none: no verdict may be given but that it is slow
    message: str = ""  # must be in an error of busbar's instead
    launchers: tuple = ("mpirun", "salloc", "srun")
    wrap: str = ""  # how the launcher starts the program
    stall_s: float = 0  # for so long nobody reads the pipe of INTO_PIPE
    header: str = ""  # must be in the header
    says: str = ""  # the launcher must, of itself
    nobody: bool = False  # may be blamed
    at_most: tuple = ()  # ranks that may be blamed, where it is as right to blame nobody
    unheard: tuple = ()  # verdicts that no line of ours may have, not even a part's
    keeps: tuple = ()  # hosts on which nobody is left who could remove the records
    ranks: tuple = ()
    blamed_hosts: tuple = ()
    codes: tuple = (4,)  # the launcher's own where it sees the fault itself
    launcher_waits: bool = False  # it may go on without any rank: a daemon of its own cannot be reached
    wait_s: float = 60  # for the end of the job

    def quiet(self):
        return not self.verdicts


def stop(rank):
    return lambda cluster: kill(cluster.rank(rank), signal.SIGSTOP)


def crash(rank):
    return lambda cluster: kill(cluster.rank(rank), signal.SIGKILL)


def command(*words):
    return lambda cluster: vcluster(*words)


def kill_daemon(host):
    def inject(cluster):
        for pid in cluster.daemon(host):
            kill(pid, signal.SIGKILL)
    return inject


def kill_daemon_and_terminate(host):
    def inject(cluster):
        kill_daemon(host)(cluster)
        time.sleep(5)
        terminate(cluster)
    return inject


def signal_ranks(host, number):
    def inject(cluster):
        for pid in cluster.ranks(host):
            kill(pid, number)
    return inject


def stop_and_terminate(rank):
    """As by a user or a scheduler who waits no longer."""
    def inject(cluster):
        kill(cluster.rank(rank), signal.SIGSTOP)
        time.sleep(2)
        for pid in cluster.mpirun():
            kill(pid, signal.SIGTERM)
    return inject


def stop_in_mpi_init(rank):
    """Within the fraction of a second between its flight record and the end of MPI_Init."""
    def stop_it(cluster):
        host = f"node{rank // 2}"
        if until(lambda: any(path.endswith(f".{rank}") for path in cluster.records(host)), 60, 0.01):
            kill(cluster.rank(rank), signal.SIGSTOP)
    return lambda cluster: threading.Thread(target=stop_it, args=(cluster,), daemon=True).start()


def flap(host, times, down_s):
    def inject(_):
        for _ in range(times):
            vcluster("link", host, "down")
            time.sleep(down_s)
            vcluster("link", host, "up")
            time.sleep(1)
    return inject


def busy(rank, kind):
    return ("--inject", f"rank={rank},op=12,kind={kind}")


# The ports that MPI gets of the range, as where a firewall knows those of the cluster's MPI alone.
# Slurm's own are not among them.
MPI_PORTS = {"OMPI_MCA_btl_tcp_port_min_v4": "20000", "OMPI_MCA_btl_tcp_port_range_v4": "1000",
             "OMPI_MCA_oob_tcp_dynamic_ipv4_ports": "21000-21999"}


def firewalls(*hosts, how="drop"):
    """Where MPI passes, and what else listens is not reached."""
    def put_up(cluster):
        for host in hosts or cluster.hosts:
            vcluster("firewall", host, "20000-21999", how)
    return put_up


def isolated_second_nic(cluster):
    """MPI is told eth0, the watchers by the same word the rail; eth1 leads nowhere."""
    for host in cluster.hosts:
        vcluster("nic", host)
        vcluster("nic_block", host, "eth1")


def ipv6_only(cluster):
    for host in cluster.hosts:
        vcluster("ipv6", host)


def stop_all(seconds):
    """As a scheduler suspends a job; its daemons go on."""
    def inject(cluster):
        for how in (signal.SIGSTOP, signal.SIGCONT):
            for pid, _ in cluster.all_ranks():
                kill(pid, how)
            time.sleep(seconds if how == signal.SIGSTOP else 0)
    return inject


def terminate(cluster):
    for pid in cluster.mpirun():
        kill(pid, signal.SIGTERM)


# What stands between the launcher and the program: a shell's words; "$@" is the program.
OWN_PIDS = 'exec unshare --pid --fork --kill-child --mount-proc "$@"'
OWN_SHM = """exec unshare --mount sh -c 'mount -t tmpfs shm /dev/shm && exec "$@"' sh "$@\""""
SHORT_NAME = """exec unshare --uts sh -c 'on=$(hostname); case $on in node[12]) hostname node1.rack${on#node};; esac
exec "$@"' sh "$@\""""
INTO_PIPE = '[ "$OMPI_COMM_WORLD_RANK" != 0 ] || exec >pipe; exec "$@"'


BEHIND_FIREWALLS = {"env": MPI_PORTS, "launchers": ("mpirun",)}
NODE2 = ("node2",)
ALL_FOUR = ("node0", "node1", "node2", "node3")
FAULTS = [
    # The default's own limit: with 6 s a machine that stands still for 6 s is not a false alarm.
    Fault("healthy", "none", options=SHORT, limit_s=30, codes=(0,)),
    Fault("slow_link", "a link at a tenth", command("rate", "node2", "both", "100mbit"), options=SHORT, codes=(0,),
          wait_s=120),
    Fault("slow_link_tx", "a link at a tenth, sending only", command("rate", "node2", "tx", "100mbit"), options=SHORT,
          codes=(0,), wait_s=120),
    Fault("slow_link_rx", "a link at a tenth, receiving only", command("rate", "node2", "rx", "100mbit"),
          options=SHORT, codes=(0,), wait_s=120),
    Fault("slow_operation", "a link at a fiftieth: one operation takes 3 x the limit",
          before=command("rate", "node2", "both", "20mbit"), options=("-b", "16M", "-e", "16M", "-n", "1", "-w", "0",
                                                                      "-c", "0"),
          verdicts=("SLOW_NOT_HUNG",), codes=(0,), wait_s=120),
    Fault("flapping_link", "a link down for 2 s, three times", flap("node2", 3, 2), options=SHORT, limit_s=15,
          codes=(0,)),
    Fault("link_down", "a link down for good", command("link", "node2", "down"), verdicts=("HOST_UNREACHABLE",),
          blamed_hosts=NODE2, launcher_waits=True),
    Fault("link_down_keepalive", "the same, seen by mpirun after 5 s", command("link", "node2", "down"), env=KEEPALIVE,
          verdicts=("HOST_UNREACHABLE",), blamed_hosts=NODE2, codes=(4, 205, 1, 137, 143)),
    Fault("link_down_8", "a link down for good, 8 hosts", command("link", "node2", "down"), hosts=8, rate="500mbit",
          verdicts=("HOST_UNREACHABLE",), blamed_hosts=NODE2, launcher_waits=True),
    Fault("power_cut", "a host loses power", command("powercut", "node2"), verdicts=("HOST_UNREACHABLE",),
          blamed_hosts=NODE2, launcher_waits=True),
    Fault("cut", "two hosts cut from each other", command("cut", "node1", "node2"), env=RING,
          verdicts=("HOST_UNREACHABLE",), blamed_hosts=("node1", "node2")),
    Fault("cut_one_way", "nothing passes from one host to another, but back", command("cut", "node1", "node2", "one-way"),
          env=RING, verdicts=("HOST_UNREACHABLE",), blamed_hosts=("node1", "node2")),
    Fault("large_out", "packets above 600 bytes lost on a host's way out", command("large", "node2", "out"),
          verdicts=("HOST_UNREACHABLE",), blamed_hosts=NODE2, launcher_waits=True),
    Fault("large_in", "packets above 600 bytes lost on a host's way in", command("large", "node2", "in"),
          verdicts=("HOST_UNREACHABLE",), blamed_hosts=NODE2, launcher_waits=True),
    Fault("mtu", "MTU 600 on one host of 1500", command("mtu", "node2", "600"), verdicts=("HOST_UNREACHABLE",),
          blamed_hosts=NODE2, launcher_waits=True),
    Fault("stop", "a rank stopped", stop(5), verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
    Fault("stop_term", "a rank stopped, the job ended by SIGTERM 2 s later", stop_and_terminate(5),
          verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2, codes=(1, 143, 4, 137)),
    Fault("stop_0", "rank 0 stopped", stop(0), verdicts=("PROCESS_STOPPED",), ranks=(0,), blamed_hosts=("node0",)),
    # No watcher knows another yet: only one of its own host can name it. -T is no less than 30 s there.
    Fault("stop_init", "a rank stopped inside MPI_Init", before=stop_in_mpi_init(5), limit_s=30,
          verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
    Fault("stop_8", "a rank stopped, 8 hosts", stop(13), hosts=8, rate="500mbit", verdicts=("PROCESS_STOPPED",),
          ranks=(13,), blamed_hosts=("node6",)),
    Fault("stop_host", "all ranks of a host stopped", signal_ranks("node2", signal.SIGSTOP),
          verdicts=("PROCESS_STOPPED", "HOST_UNREACHABLE"), ranks=(4, 5), blamed_hosts=NODE2, keeps=NODE2),
    Fault("stop_first_of_two", "all ranks of the first of two hosts stopped",
          signal_ranks("node0", signal.SIGSTOP), hosts=2,
          verdicts=("HOST_UNREACHABLE",), ranks=(0, 1), blamed_hosts=("node0",), keeps=("node0",)),
    Fault("freeze_host", "all processes of a host stopped", command("freeze", "node2"),
          verdicts=("PROCESS_STOPPED", "HOST_UNREACHABLE"), ranks=(4, 5), blamed_hosts=NODE2, launcher_waits=True,
          wait_s=30, repair=command("thaw", "node2"), keeps=NODE2),
    Fault("kill", "a rank killed", crash(5), verdicts=("PROCESS_DEAD",), ranks=(5,), blamed_hosts=NODE2,
          codes=(137,)),
    Fault("kill_0", "rank 0 killed", crash(0), verdicts=("PROCESS_DEAD",), ranks=(0,), blamed_hosts=("node0",),
          codes=(137,)),
    Fault("kill_host_ranks", "all ranks of a host killed",
          signal_ranks("node2", signal.SIGKILL), verdicts=("PROCESS_DEAD",),
          ranks=(4, 5), blamed_hosts=NODE2, codes=(137,)),
    Fault("kill_daemon", "a host's daemon killed", kill_daemon("node2"), verdicts=("PROCESS_DEAD", "HOST_UNREACHABLE"),
          ranks=(4, 5), blamed_hosts=NODE2, codes=(205, 1, 137)),
    Fault("cpu", "a host's ranks limited to 5 % of a core", command("cpu", "node2", "5"), options=SHORT, codes=(0,),
          wait_s=120),
    Fault("late", "a rank late by 4 s", options=(*SHORT, *busy(5, "late:4s")), codes=(0,)),
    Fault("too_late", "a rank late by 60 s", options=(*BRIEF, *busy(5, "late:60s")), verdicts=("RANK_LAGGING",),
          ranks=(5,), blamed_hosts=NODE2),
    Fault("skip", "a rank skips an operation", options=(*BRIEF, *busy(5, "skip")),
          verdicts=("RANK_LAGGING", "ORDER_MISMATCH"), ranks=(5,), blamed_hosts=NODE2),
    # MPI itself ends the job on the rank that receives too much, with code 3; other mismatches it does not see.
    Fault("count", "a rank calls with another count", options=(*BRIEF, *busy(5, "count")),
          verdicts=("ARG_MISMATCH",), ranks=(5,), blamed_hosts=NODE2, codes=(3, 4)),
    Fault("count_paranoid", "a rank calls with another count, --paranoid", options=(*BRIEF, *busy(5, "count"),
          "--paranoid"), message="rank 5 ", codes=(6,)),
    Fault("dtype_paranoid", "a rank calls with another type, --paranoid", options=(*BRIEF, *busy(5, "dtype"),
          "--paranoid"), message="rank 5 ", codes=(6,)),
    Fault("op_paranoid", "a rank calls with another operation, --paranoid", options=(*BRIEF, *busy(5, "op"),
          "--paranoid"), message="rank 5 ", codes=(6,)),
    Fault("full_shm", "/dev/shm full on one host", before=command("shm", "node2", "full"), options=SHORT, codes=(0,)),
    Fault("tiny_shm", "/dev/shm of 8 KiB on one host", before=command("shm", "node2", "8k"), options=SHORT, codes=(0,)),
    Fault("full_shm_stop", "/dev/shm full on one host, a rank there stopped", stop(5),
          before=command("shm", "node2", "full"), verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
    Fault("firewall_all", "watchers firewalled on all hosts, a rank late",
          **BEHIND_FIREWALLS, before=firewalls(),
          options=(*BRIEF, *busy(5, "late:60s")), verdicts=("UNKNOWN",), nobody=True, keeps=("node1", "node2", "node3"),
          header="no connection between"),
    Fault("firewall_all_stop_0", "watchers firewalled on all hosts, rank 0 stopped", stop(0),
          **BEHIND_FIREWALLS,
          before=firewalls(), verdicts=("PROCESS_STOPPED",), ranks=(0,), blamed_hosts=("node0",),
          keeps=("node1", "node2", "node3"), header="no connection between"),
    # It can ask the others, who cannot ask it.
    Fault("firewall_one_host", "watchers firewalled on one host, a rank there stopped", stop(5),
          **BEHIND_FIREWALLS,
          before=firewalls("node2"), verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2, keeps=NODE2,
          header="no connection between"),
    Fault("isolated_second_nic", "the interface named for watchers leads nowhere, a rank stopped", stop(5),
          before=isolated_second_nic, env={"NCCL_SOCKET_IFNAME": "eth1", "OMPI_MCA_btl_tcp_if_include": "none",
                                           "OMPI_MCA_oob_tcp_if_include": "none",
                                           "OMPI_MCA_btl_tcp_if_exclude": "127.0.0.1/8,eth1",
                                           "OMPI_MCA_oob_tcp_if_exclude": "eth1"},
          verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
    Fault("stop_whole_job_60s_then_cont", "all ranks stopped for 60 s, then continued", stop_all(60), options=SHORT,
          limit_s=30, codes=(0,), wait_s=120),
    # As a pager in which somebody reads: what rank 0 prints stays in the pipe.
    Fault("rank0_output_stalls_60s", "nobody reads what rank 0 prints for 60 s", wrap=INTO_PIPE, stall_s=60,
          options=("-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "-c", "0", "-N", "3000"), codes=(0,), wait_s=180),
    Fault("pidns_per_rank_term", "a pid namespace per rank, the job ended by SIGTERM", terminate, wrap=OWN_PIDS,
          env={"OMPI_MCA_btl": "self,tcp"}, codes=(1, 143, 137)),
    Fault("pidns_per_rank_slow", "a pid namespace per rank, a link at a tenth",
          command("rate", "node2", "both", "100mbit"), wrap=OWN_PIDS, env={"OMPI_MCA_btl": "self,tcp"}, options=SHORT,
          codes=(0,), wait_s=120),
    # Two hosts to their watchers, whose records the other cannot see.
    Fault("container_per_rank_own_shm", "a /dev/shm per rank, a rank stopped", stop(5), wrap=OWN_SHM,
          env={"OMPI_MCA_btl": "self,tcp"}, verdicts=("HOST_UNREACHABLE", "PROCESS_STOPPED"), ranks=(5,),
          blamed_hosts=("node2#2",)),
    Fault("ipv6_only", "no host has an IPv4 address, a rank stopped", stop(5), before=ipv6_only,
          env={"OMPI_MCA_btl_tcp_disable_family": "4", "OMPI_MCA_oob_tcp_disable_ipv4_family": "1",
               "OMPI_MCA_oob_tcp_disable_ipv6_family": "0"},
          launchers=("mpirun",), verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
    # Open MPI itself crashes where its daemons have one short name.
    Fault("same_short_hostname", "two hosts are called node1, of two racks, a rank of one stopped", stop(5),
          wrap=SHORT_NAME, verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=("node1.rack2",)),
    Fault("cwd_hangs_during_report", "the file system of the report does not answer, a rank stopped", stop(5),
          env={"LD_PRELOAD": f"{RUN}/mute.so"}, verdicts=("PROCESS_STOPPED",), ranks=(5,), blamed_hosts=NODE2),
]


# Rules that come with the job or while it runs, and what else is wrong: nobody behind them may be blamed. A rank of
# node1 is late or stopped, so that behind the rules of one and two hosts it is on a host that is reached. A late one
# is named where its host is reached, by node0 or by node1 itself. Where no host reaches another each part tells what it
# sees, and the records hold it all.
WALLED = {"one": ("node2",), "two": ("node2", "node3"), "all": ALL_FOUR}


def reset_in_silence(host):
    """When all wait for the rank that is late."""
    def inject(_):
        time.sleep(2)
        vcluster("reset", host)
    return inject


def walled_fault(late, how, behind, beside):
    put_up = firewalls(*WALLED[behind], how=how)
    then = {"late_rank": None, "stop": stop(3), "term": terminate}[beside]

    def inject(cluster):
        if late:
            put_up(cluster)
            time.sleep(1)
        if then:
            then(cluster)
    hosts = {"one": "one host", "two": "two of four hosts", "all": "all hosts"}[behind]
    rules = {"drop": "dropped", "reject": "refused"}[how]
    what = f"watchers {rules} {'after' if late else 'from'} the start at {hosts}, " + {
        "late_rank": "a rank late", "stop": "a rank stopped", "term": "the job ended by SIGTERM"}[beside]
    expected = {
        "late_rank": {"options": (*BRIEF, *busy(3, "late:60s")), "verdicts": ("RANK_LAGGING",), "ranks": (3,),
                      "blamed_hosts": ("node1",)},
        "stop": {"verdicts": ("PROCESS_STOPPED",), "ranks": (3,), "blamed_hosts": ("node1",)},
        "term": {"codes": (1, 143, 137)}}[beside]
    # Who was never met is not judged by others; and where node1 alone knows, it may be ended before it has said so.
    if beside == "late_rank" and not late or beside == "stop" and behind == "all":
        expected.update(verdicts=(*expected["verdicts"], "UNKNOWN", "STUCK_INSIDE"), ranks=(), blamed_hosts=(),
                        at_most=(3,))
    return Fault(f"firewall_{'late_' if late else ''}{how}_{behind}_{beside}", what, inject,
                 None if late else put_up, keeps=ALL_FOUR, unheard=("PROCESS_DEAD", "HOST_UNREACHABLE"),
                 **BEHIND_FIREWALLS, **expected)


FAULTS += [walled_fault(late, how, behind, beside) for late in (True, False) for how in ("reject", "drop")
           for behind in WALLED for beside in ("late_rank", "stop", "term")]
FAULTS += [
    # mpirun ends a job that loses a daemon; one that waits for a rank sends nothing, so that nothing is reset.
    Fault("full_reset_one", "all TCP of a host is reset", command("reset", "node2"), launchers=("mpirun",),
          codes=(1, 205, 137), keeps=ALL_FOUR, unheard=("PROCESS_DEAD",)),
    Fault("full_reset_one_late_rank", "all TCP of a host is reset, a rank of another late", reset_in_silence("node2"),
          launchers=("mpirun",), options=(*BRIEF, *busy(3, "late:60s")), verdicts=("RANK_LAGGING",), ranks=(3,),
          blamed_hosts=("node1",), codes=(4, 1, 205, 137), launcher_waits=True, keeps=ALL_FOUR,
          unheard=("PROCESS_DEAD",)),
]
AT_16_HOSTS = ("healthy", "stop", "kill", "link_down", "too_late")
FAULTS += [dataclasses.replace(fault, name=f"{fault.name}_16", what=f"{fault.what}, 16 hosts", hosts=16, rate="200mbit",
                               wait_s=2 * fault.wait_s) for fault in FAULTS if fault.name in AT_16_HOSTS]
BY_NAME = {fault.name: fault for fault in FAULTS}

# Where one rank dies Hydra kills all others at once: nobody is left to tell, and nothing on disk says who was first.
KILLS_ALL = {"verdicts": ("UNKNOWN",), "nobody": True, "ranks": (), "blamed_hosts": (), "keeps": ALL_FOUR}
# What a launcher makes of a fault itself (docs/evidence/mpi_measured.md).
UNDER = {"hydra": {
    "stop_host": {"launcher_waits": True, "wait_s": 25, "repair": signal_ranks("node2", signal.SIGCONT)},
    "kill": {**KILLS_ALL, "says": "RUNNING AT node2"},
    "kill_0": {**KILLS_ALL, "says": "RUNNING AT node0"},
    "kill_host_ranks": {**KILLS_ALL, "says": "RUNNING AT node2"},
    # It does not notice; the job goes on, and whoever ends it reads why it had no end of its own.
    "kill_daemon": {"inject": kill_daemon_and_terminate("node2")},
}}


def fault_of(name, launcher):
    return dataclasses.replace(BY_NAME[name], **UNDER.get(launcher, {}).get(name, {}))
