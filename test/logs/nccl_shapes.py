"""How NCCL wrote its log lines, version by version (2.4 to 2.30), from its sources and from logs in public threads.

Only shapes are here; who says what, and when, is in job_model.py.
"""

ENUM_OF_DTYPE = {"int8": 0, "uint8": 1, "int32": 2, "int64": 4, "half": 6, "float": 7, "double": 8, "bfloat16": 9}

# An answer of the RAS service.
RAS = """NCCL version 2.25.1 compiled with CUDA 12.8

Job summary
===========

Communicators... (0.05s)
=============

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 1003 on node 10.0.0.2 managing GPU 1
"""


def number(version):
    """ "2.28.9" as a tuple, which compares as versions do."""
    return tuple(int(part) for part in version.split("."))


class Shapes:
    """The wording of one version. Every method gives the text behind "NCCL INFO " or, for warnings, (where, text)."""

    def __init__(self, version):
        self.version = version
        self.v = number(version)
        # What a reader can know from this version's logs.
        self.has_start = self.v >= (2, 18, 3)
        self.has_comm_id = self.v >= (2, 16)
        self.has_end = self.v >= (2, 8)
        self.has_connected = self.v >= (2, 8)
        self.connects_late = self.v >= (2, 22)
        self.every_rank_tells_version = self.v >= (2, 24)
        self.stamps_warnings = self.v >= (2, 26)
        self.op_count_is_ordinal = self.v < (2, 27)
        self.has_split = self.v >= (2, 18)
        self.has_p2p = self.v >= (2, 7)
        self.old_torch = self.v < (2, 19)

    def version_line(self):
        cuda = "10.1" if self.v < (2, 8) else "11.8" if self.v < (2, 20) else "13.0"
        return f"NCCL version {self.version}+cuda{cuda}"

    def git_version(self):
        return "NCCL git version stable dcf2a2fbe" if self.v >= (2, 29) else None

    def bootstrap(self, ip):
        if self.v < (2, 8):
            return f"Bootstrap : Using [0]eth0:{ip}<0>"
        return f"Bootstrap{' ' if self.v < (2, 24) else ''}: Using eth0:{ip}<0>"

    def plugin(self):
        if self.v < (2, 24):
            return "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"
        return "NET/Plugin: Could not find: libnccl-net.so"

    def net_devices(self, network, ip):
        if network == "Socket":
            return f"NET/Socket : Using [0]eth0:{ip}<0>"
        relaxed = " [RO]" if self.v >= (2, 14) else " "
        return f"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB{relaxed}; OOB eth0:{ip}<0>"

    def using_network(self, network):
        return f"Using internal Network {network}" if self.v < (2, 5) else f"Using network {network}"

    def assigned(self, network):
        return f"Assigned NET plugin {network} to comm" if self.v >= (2, 27) else None

    def env(self, name, value):
        return f"{name} set by environment to {value}{'.' if self.v < (2, 30) else ''}"

    def ras(self):
        return "RAS client listening socket at 127.0.0.1<28028>" if self.v >= (2, 24) else None

    def _identity(self, comm, rank):
        text = f"comm {comm.pointer(rank):#x} rank {comm.rank_of(rank)} nranks {comm.nranks} cudaDev {rank.dev}"
        if self.v < (2, 5):
            return f"{text} nvmlDev {rank.dev}"
        if self.v >= (2, 18, 3):
            text += f" nvmlDev {rank.dev}"
        return f"{text} busId {rank.bus:x}"

    def init(self, comm, rank, complete):
        """None where this version does not tell."""
        if not complete and not self.has_start:
            return None
        text = self._identity(comm, rank)
        gap = " "
        if comm.parent is not None and self.v >= (2, 24):
            kind = "childCount" if self.v >= (2, 29) else "splitCount"
            text += f" parent {comm.parent.pointer(rank):#x} {kind} 1 color {comm.color} key {comm.rank_of(rank)}"
            gap = " " if complete else ""
        elif self.has_comm_id:
            text += f" commId {comm.comm_id:#x}"
        if self.v >= (2, 21):
            text = f"{'ncclCommSplit' if comm.parent is not None else 'ncclCommInitRank'} {text}"
        if self.v >= (2, 29) and not complete:
            text = f"[Rank {comm.rank_of(rank)}] {text}"
        return f"{text}{gap}- Init {'COMPLETE' if complete else 'START'}"

    def split(self, comm, rank):
        """The bootstrap of a child, told from 2.18 to 2.22."""
        if comm.parent is None or not (2, 18) <= self.v < (2, 23):
            return None
        r = comm.rank_of(rank)
        pointers = f"comm {comm.pointer(rank):#x} parent {comm.parent.pointer(rank):#x} " if self.v >= (2, 20) else ""
        return (f"bootstrapSplit: {pointers}rank {r} nranks {comm.nranks} color {comm.color} key {r} "
                f"prev {(r - 1) % comm.nranks} next {(r + 1) % comm.nranks} - DONE")

    def comm_shape(self, comm, rank):
        if self.v < (2, 20):
            return None
        local = comm.local_ranks(rank)
        return (f"comm {comm.pointer(rank):#x} rank {comm.rank_of(rank)} nRanks {comm.nranks} nNodes {comm.nnodes} "
                f"localRanks {len(local)} localRank {local.index(rank.rank)} MNNVL 0")

    def ring_table(self, comm, channel):
        shown = " ".join(f"{r:3d}" for r in range(min(comm.nranks, 20 if self.v < (2, 9) else 32)))
        return f"Channel {channel:02d} : {shown}" if self.v < (2, 5) else f"Channel {channel:02d}/02 : {shown}"

    def trees(self, comm, rank):
        r, n = comm.rank_of(rank), comm.nranks
        up, down = (r - 1 if r > 0 else -1), (r + 1 if r + 1 < n else -1)
        if self.v < (2, 5):
            return f"Trees [0] {up}->{r}->{down}/-1/-1"
        return f"Trees [0] {down}/-1/-1->{r}->{up} [1] {down}/-1/-1->{r}->{up}"

    def thresholds(self):
        if self.v < (2, 5):
            return None
        if self.v < (2, 6):
            return "threadThresholds 8/8/64 | 128/8/64"
        return "threadThresholds 8/8/64 | 128/8/64 | " + ("8/8/64" if self.v < (2, 14) else "512 | 512")

    def channels(self):
        if self.v < (2, 7):
            return None
        middle = "" if self.v < (2, 17) else "0 nvls channels, " if self.v < (2, 20) else \
            "0 collnet channels, 0 nvls channels, "
        return f"2 coll channels, {middle}2 p2p channels, 1 p2p channels per peer"

    def connection(self, comm, channel, src, dst, via, direction=""):
        """`src`, `dst`: ranks; `via`: "P2P" or a network; `direction`: " [send]", " [receive]" or nothing."""
        if via == "P2P":
            how = "P2P/IPC" if self.v < (2, 18, 1) else "P2P/CUMEM"
        else:
            how = f"NET/{via}/0" + ("/GDRDMA" if via == "IB" else "")
        a, b = comm.rank_of(src), comm.rank_of(dst)
        if self.v < (2, 5):
            return (f"Ring {channel:02d} : {a}[{src.dev}] -> {b}[{dst.dev}] via {how}" if via == "P2P" else
                    f"Ring {channel:02d} : {a} -> {b}{direction} via {how}")
        old = self.v <= (2, 18, 1)
        ends = f"{a}[{src.bus:x}] -> {b}[{dst.bus:x}]" if old else f"{a}[{src.dev}] -> {b}[{dst.dev}]"
        name = "Ring" if self.v < (2, 7) else "Channel"
        slash = "/0" if self.v >= (2, 10) else ""
        return f"{name} {channel:02d}{slash} : {ends}{direction} via {how}"

    def connected(self, what, gdr):
        if not self.has_connected:
            return None
        tail = f", use ring PXN 0 GDR {gdr}" if what == "rings" and self.v >= (2, 24) else ""
        return f"Connected all {what}{tail}"

    def init_timings(self, comm, rank, total=0.46):
        if self.v < (2, 22):
            return None
        head = "Init timings:" if self.v < (2, 23) else "Init timings - ncclCommInitRank:"
        alloc = "" if self.v < (2, 23) else "alloc 0.04, "
        return (f"{head} rank {comm.rank_of(rank)} nranks {comm.nranks} total {total:.2f} (kernels 0.18, {alloc}"
                "bootstrap 0.10, allgathers 0.01, topo 0.02, graphs 0.01, connections 0.08, rest 0.02)")

    def bootstrap_timings(self):
        if self.v < (2, 23):
            return None
        return "Bootstrap timings total 0.005946 (create 0.000018, send 0.000066, recv 0.000084, ring 0.004029, " \
            "delay 0.000000)"

    def call(self, op, op_count, comm, rank, count, dtype, redop, root, buffers):
        send, recv = buffers
        return (f"{op}: opCount {op_count:x} sendbuff {send} recvbuff {recv} count {count} datatype {dtype} op {redop} "
                f"root {root} comm {comm.pointer(rank):#x} [nranks={comm.nranks}] stream 0x55{rank.rank:08x}")

    def tuning(self, op, nbytes):
        ring = nbytes > 65536
        if self.v < (2, 24):
            name = f"{op}: " if self.v >= (2, 23) else ""
            return f"{name}{nbytes} Bytes -> Algo {int(ring)} proto {2 if ring else 0} time 25.214764"
        return f"{op}: {nbytes} Bytes -> Algo {'RING' if ring else 'TREE'} proto {'SIMPLE' if ring else 'LL'} " \
            "channel{Lo..Hi}={0..1}"

    def end(self, comm, rank, abort):
        if not self.has_end:
            return None
        return (f"comm {comm.pointer(rank):#x} rank {comm.rank_of(rank)} nranks {comm.nranks} cudaDev {rank.dev} "
                f"busId {rank.bus:x} - {'Abort' if abort else 'Destroy'} COMPLETE")

    def unwinding(self, code):
        thread = "[Proxy Thread]" if self.v < (2, 24) else "[Progress Thread]"
        return [f"transport/net.cc:890 -> {code}", f"proxy.cc:684 -> {code} {thread}"]
