"""A job as its logs show it: ranks on hosts, communicators, the calls that all make, and how one rank behaves.

Deterministic by seed. rank_log.py makes lines of it.
"""

import dataclasses
import random
from typing import Optional

import nccl_shapes

GPUS_PER_HOST = 8


@dataclasses.dataclass
class Rank:
    rank: int
    host: str
    ip: str
    pid: int
    tid: int
    dev: int

    @property
    def bus(self):
        return 0x1a000 + 0x11000 * self.dev


class Communicator:
    def __init__(self, members, comm_id, parent=None, color=0):
        self.members, self.comm_id, self.parent, self.color = members, comm_id, parent, color
        self._ranks = {rank.rank: index for index, rank in enumerate(members)}
        self.nranks = len(members)
        self.nnodes = len({rank.host for rank in members})

    def __contains__(self, rank):
        return rank.rank in self._ranks

    def rank_of(self, rank):
        return self._ranks[rank.rank]

    def pointer(self, rank):
        return 0x7f0000000000 + (rank.pid << 24) + (rank.dev << 20) + (self.comm_id & 0xfffff0)

    def local_ranks(self, rank):
        first = rank.rank - rank.rank % GPUS_PER_HOST
        return [r for r in range(first, first + GPUS_PER_HOST) if r in self._ranks]

    def ring_neighbour(self, rank, step):
        return self.members[(self.rank_of(rank) + step) % self.nranks]


@dataclasses.dataclass
class Call:
    """`op` "Exchange": each rank sends to the next and receives from the one before; "Pipeline": the ends do not."""

    comm: Communicator
    op: str
    count: int = 1024
    dtype: int = 7
    redop: int = 0
    root: int = 0


@dataclasses.dataclass
class Behaviour:
    """How one rank departs from the others, and where its log ends."""

    init: str = "complete"  # or: none, start, connecting, rings
    shapes: Optional[nccl_shapes.Shapes] = None  # of another version
    env: dict = dataclasses.field(default_factory=dict)  # besides the job's
    calls: Optional[list] = None  # instead of the job's
    tail: list = dataclasses.field(default_factory=list)  # (seconds later, ...) see RankLog._tell
    end: str = "destroy"  # or: abort, none, torn


class Job:
    """`one_process_per_host`: its ranks are threads. `containers`: processes of different hosts share pids, and with
    them pointers. `split`: two children too. `p2p`: Send and Recv among the calls. `stamps`: on every line, where NCCL
    can. `tuning`: the TUNING subsystem is on.
    """

    def __init__(self, version, nranks, seed, one_process_per_host=False, containers=False, split=True, p2p=True,
                 stamps=False, tuning=False, network="IB", ncalls=24):
        self.shapes = nccl_shapes.Shapes(version)
        self.random = random.Random(seed)
        self.network = network
        self.tuning = tuning
        self.stamps = stamps and self.shapes.stamps_warnings
        self.ranks = [self._rank(r, one_process_per_host, containers) for r in range(nranks)]
        self.env = {"NCCL_IB_TIMEOUT": "22", "NCCL_SOCKET_IFNAME": "eth0"}
        self.world = Communicator(self.ranks, self.random.getrandbits(63) | 1 << 62)
        self.comms = [self.world]
        if split and self.shapes.has_split and nranks > GPUS_PER_HOST:
            for color in range(2):
                members = [r for r in self.ranks if r.rank % 2 == color]
                self.comms.append(Communicator(members, self.random.getrandbits(63) | 1 << 62, self.world, color + 1))
        self.calls = [self._call(i, p2p and self.shapes.has_p2p) for i in range(ncalls)]

    def _rank(self, r, one_process_per_host, containers):
        host, dev = divmod(r, GPUS_PER_HOST)
        pid = 20000 + (0 if containers else 97 * host) + (0 if one_process_per_host else 5 * dev)
        ip = f"10.0.{host // 250}.{host % 250 + 1}"
        return Rank(r, f"node{host}", ip, pid, pid + (dev + 1 if one_process_per_host else 0), dev)

    def _call(self, i, p2p):
        comm = self.comms[1 + i % 2] if len(self.comms) > 1 and i % 5 in (3, 4) else self.world
        if p2p and i % 7 == 5:
            return Call(self.world, self.random.choice(["Exchange", "Pipeline"]), 4096)
        op = self.random.choice(["AllReduce", "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"])
        root = self.random.randrange(comm.nranks) if op in ("Broadcast", "Reduce") else 0
        # Counts rise, so that no two calls are equal: a rank that is one behind cannot look like one that is not.
        return Call(comm, op, 1000 + 512 * i + self.random.randrange(500), self.random.choice([7, 9, 6]), 0, root)

    def world_collectives(self):
        """Where in `calls` all ranks meet."""
        return [i for i, call in enumerate(self.calls) if call.comm is self.world and call.op not in
                ("Exchange", "Pipeline")]
