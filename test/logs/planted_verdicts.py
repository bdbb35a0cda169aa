"""Jobs with a verdict planted: how each rank behaves, and what a reader of the logs must find.

The expectations follow from what was planted, never from what `busbar diagnose` says.
"""

import dataclasses
from typing import Callable

import nccl_warnings as words
from job_model import Behaviour, Call, Communicator, Job
from nccl_shapes import Shapes

EXIT_CODES = {"OK": 0, "HW_FAULT": 3, "HOST_UNREACHABLE": 3, "PROCESS_DEAD": 3, "RESOURCE": 3, "CONFIG": 3,
              "INIT_NOT_JOINED": 4, "INIT_STUCK": 4, "ARG_MISMATCH": 4, "ORDER_MISMATCH": 4, "RANK_LAGGING": 4,
              "STUCK_INSIDE": 4, "SLOW_NOT_HUNG": 7, "UNKNOWN": 6}


@dataclasses.dataclass
class Planted:
    """`blame`: groups of words; what is said must hold one of each group. "rank 7" also matches a list of ranks."""

    job: Job
    verdict: str
    behave: Callable
    blame: list = dataclasses.field(default_factory=list)
    given: Callable = lambda rank: True  # whose logs the reader gets
    other_files: dict = dataclasses.field(default_factory=dict)

    @property
    def exit_code(self):
        return EXIT_CODES[self.verdict]


def _victims(job, culprit, kind=words.connection_closed):
    """How all others end when a rank, or a host, goes away: they are told by the network, and say so."""
    v = job.shapes.v
    tail = [(6, "warn", kind(v, culprit.ip))] + [(0, "info", text) for text in job.shapes.unwinding(6)]
    return Behaviour(tail=tail, end="abort")


def _some_rank(job):
    return job.random.choice(job.ranks)


def _rank(rank):
    return [f"rank {rank.rank}", f"{rank.host}:{rank.pid}"]


def ok(job):
    return Planted(job, "OK", lambda rank: Behaviour())


def hw_fault_ib(job):
    bad = _some_rank(job)
    peer = job.ranks[bad.rank - 8]  # on another host
    stop = job.random.randrange(4, len(job.calls))
    error = Behaviour(calls=job.calls[:stop], end="abort",
                      tail=[(1, "warn", words.ib_error(job.shapes.v, peer.ip))] +
                      [(0, "info", text) for text in job.shapes.unwinding(6)])
    victims = dataclasses.replace(_victims(job, bad), calls=job.calls[:stop])
    return Planted(job, "HW_FAULT", lambda rank: error if rank is bad else victims, [_rank(bad) + [bad.host]])


def hw_fault_xid(job):
    bad = _some_rank(job)
    stop = job.random.randrange(4, len(job.calls))
    silent = Behaviour(calls=job.calls[:stop], end="none")
    victims = dataclasses.replace(_victims(job, bad), calls=job.calls[:stop])
    log = [f"Nov 21 09:59:58 {bad.host} kernel: [ 3998.000001] mlx5_core 0000:17:00.0: firmware version: 28.39.1002",
           words.xid(bad.host, 7, bad.pid)]
    return Planted(job, "HW_FAULT", lambda rank: silent if rank is bad else victims, [["Xid 79", "XID 79"]],
                   other_files={f"kern-{bad.host}.log": log})


def host_unreachable(job):
    """Not by a message of the host itself: its ranks just fall silent, all of them."""
    bad = _some_rank(job)
    stop = job.random.randrange(4, len(job.calls))
    silent = Behaviour(calls=job.calls[:stop], end="none")
    victims = dataclasses.replace(_victims(job, bad, words.no_route), calls=job.calls[:stop])
    return Planted(job, "HOST_UNREACHABLE", lambda rank: silent if rank.host == bad.host else victims,
                   [[bad.host, bad.ip]])


def process_dead(job):
    bad = _some_rank(job)
    stop = job.random.randrange(4, len(job.calls))
    dead = Behaviour(calls=job.calls[:stop], end="torn")
    victims = dataclasses.replace(_victims(job, bad), calls=job.calls[:stop])
    return Planted(job, "PROCESS_DEAD", lambda rank: dead if rank is bad else victims, [_rank(bad)])


def resource_shm(job):
    bad = _some_rank(job)
    full = Behaviour(init="connecting", tail=[(0, "warn", words.shm_full(job.shapes.v)),
                                              (0, "info", "transport/shm.cc:114 -> 2"),
                                              (0, "info", "group.cc:65 -> 2 [Async thread]")], end="none")
    waits = dataclasses.replace(_victims(job, bad), init="connecting", end="none")
    return Planted(job, "RESOURCE", lambda rank: full if rank is bad else waits, [_rank(bad) + [bad.host]])


def config_version(job):
    bad = _some_rank(job)
    other = Shapes({"2.24.3": "2.24.1", "2.26.5": "2.26.2", "2.28.9": "2.28.3", "2.30.7": "2.30.4"}[job.shapes.version])
    skewed = Behaviour(init="start", shapes=other, end="none")
    return Planted(job, "CONFIG", lambda rank: skewed if rank.host == bad.host else Behaviour(init="start", end="none"),
                   [[other.version]])


def config_env(job):
    bad = _some_rank(job)
    name, value = job.random.choice([("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL"), ("NCCL_BUFFSIZE", "1048576")])
    beside = job.ranks[bad.rank - 1]
    mismatch = (2, "warn", words.size_mismatch(job.shapes.v, bad.ip))
    stop = max(job.world_collectives()) + 1

    def behave(rank):
        return Behaviour(env={name: value} if rank.host == bad.host else {}, calls=job.calls[:stop], end="none",
                         tail=[mismatch] if rank is beside else [])
    return Planted(job, "CONFIG", behave, [[name]])


def init_not_joined(job):
    absent = {rank.rank for rank in job.random.sample(job.ranks, 2)}
    return Planted(job, "INIT_NOT_JOINED",
                   lambda rank: Behaviour(init="none" if rank.rank in absent else "start", end="none"),
                   [[f"rank {rank}"] for rank in sorted(absent)])


def init_stuck(job, stage):
    names = {"start": ["bootstrap"], "connecting": ["connect", "rings"], "rings": ["trees"]}[stage]
    return Planted(job, "INIT_STUCK", lambda rank: Behaviour(init=stage, end="none"), [names])


def arg_mismatch(job, field):
    bad = _some_rank(job)
    k = job.world_collectives()[-2]
    call = job.calls[k]
    value = {"count": call.count // 2, "dtype": 8, "redop": 2, "root": (call.root + 1) % job.world.nranks}[field]
    if field == "root":
        call.op = "Broadcast"
    if field == "redop":
        call.op = "AllReduce"
    wrong = job.calls[:k] + [dataclasses.replace(call, **{field: value})]
    word = {"count": ["count"], "dtype": ["datatype", "dtype"], "redop": ["op "], "root": ["root"]}[field]
    return Planted(job, "ARG_MISMATCH",
                   lambda rank: Behaviour(calls=wrong if rank is bad else job.calls[:k + 1], end="none"),
                   [_rank(bad), word])


def order_swapped(job):
    """Two calls in the other order, and everything after them waits."""
    bad = _some_rank(job)
    a = job.world_collectives()[-2]
    job.calls[a + 1:] = [Call(job.world, "AllGather" if job.calls[a].op != "AllGather" else "AllReduce", 77777)]
    swapped = job.calls[:a] + [job.calls[a + 1], job.calls[a]]
    return Planted(job, "ORDER_MISMATCH",
                   lambda rank: Behaviour(calls=swapped if rank is bad else job.calls, end="none"), [_rank(bad)])


def order_cycle(job, both_logged):
    """One rank waits in one communicator, the others in another: neither goes on."""
    bad = _some_rank(job)
    second = Communicator(job.ranks, job.random.getrandbits(63) | 1 << 62)
    job.comms.append(second)
    first_call, second_call = Call(job.world, "AllReduce", 4242), Call(second, "AllReduce", 8484)
    warmed = job.calls + [Call(second, "AllReduce", 4000), Call(job.world, "AllReduce", 4001)]
    calls = {True: [second_call, first_call], False: [first_call, second_call]}
    made = {wrong: warmed + calls[wrong][:1 + both_logged] for wrong in (True, False)}
    return Planted(job, "ORDER_MISMATCH", lambda rank: Behaviour(calls=made[rank is bad], end="none"), [_rank(bad)])


def rank_lagging(job, behind, torch):
    bad = _some_rank(job)
    meet = job.world_collectives()
    k = meet[-1]
    call = job.calls[k]
    seq = sum(c.comm is job.world for c in job.calls[:k + 1])

    def behave(rank):
        if rank is bad:
            return Behaviour(calls=job.calls[:meet[-behind]], end="none")
        said = words.torch_timeout(job.shapes.old_torch, rank.rank, seq, call.op, call.count, seq, seq - 1)
        return Behaviour(calls=job.calls[:k + 1], end="none", tail=[(600, "raw", line) for line in said] * torch)
    return Planted(job, "RANK_LAGGING", behave, [_rank(bad)])


def stuck_inside(job):
    k = job.world_collectives()[-1]
    call = job.calls[k]
    seq = sum(c.comm is job.world for c in job.calls[:k + 1])

    def behave(rank):
        said = words.torch_timeout(job.shapes.old_torch, rank.rank, seq, call.op, call.count, seq, seq - 1)
        return Behaviour(calls=job.calls[:k + 1], end="none", tail=[(300, "raw", line) for line in said])
    return Planted(job, "STUCK_INSIDE", behave, [[call.op, words.TORCH_OPS[call.op]]])


def slow_not_hung(job):
    """PyTorch complains, and yet all go on: nothing is stuck."""
    meet = job.world_collectives()
    seq, call = len(meet) // 2, job.calls[meet[len(meet) // 2]]

    def behave(rank):
        said = words.torch_timeout(job.shapes.old_torch, rank.rank, seq, call.op, call.count, seq + 3, seq)
        after = [(30, "call", later) for later in job.calls[meet[len(meet) // 2]:]]
        return Behaviour(calls=job.calls[:meet[len(meet) // 2]], end="none",
                         tail=[(0, "raw", line) for line in said] + after)
    return Planted(job, "SLOW_NOT_HUNG", behave)


def unknown_victim(job):
    """Only the log of one who was told that somebody else had gone."""
    only = job.ranks[1]
    victim = dataclasses.replace(_victims(job, job.ranks[-1]), calls=job.calls[:9])
    return Planted(job, "UNKNOWN", lambda rank: victim, given=lambda rank: rank is only)


def unknown_few(job):
    """A few of many ranks, which have begun: whether the others did nobody can tell."""
    return Planted(job, "UNKNOWN", lambda rank: Behaviour(init="start", end="none"),
                   given=lambda rank: rank.rank < 4)
