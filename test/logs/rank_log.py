"""One rank's log, line by line: the order in which NCCL says things, of every version.

A generator, so that a job of any size streams to its files.
"""

from job_model import Behaviour, GPUS_PER_HOST, Job, Rank

START_S = 36000.0  # of the day: 10 o'clock


class RankLog:
    """Writes one rank's lines: (seconds of the day, line) in its own order."""

    def __init__(self, job: Job, rank: Rank, behaviour: Behaviour):
        self.job, self.rank, self.behaviour = job, rank, behaviour
        self.shapes = behaviour.shapes or job.shapes
        self.now = START_S + rank.rank % 97 * 1e-5
        self.op_counts: dict = {}

    def _stamp(self, digits):
        s = int(self.now)
        text = f"2026-11-21 {s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}"
        return f"[{text}.{int(self.now % 1 * 1e6):06d}] " if digits else f"[{text}] "

    def info(self, text):
        if text is None:
            return
        self.now += 1e-4
        stamp = self._stamp(True) if self.job.stamps else ""
        r = self.rank
        yield self.now, f"{stamp}{r.host}:{r.pid}:{r.tid} [{r.dev}] NCCL INFO {text}"

    def warn(self, warning):
        (where, function), text = warning
        stamp = self._stamp(self.job.stamps) if self.shapes.stamps_warnings else ""
        named = f" ({function})" if self.shapes.v >= (2, 30, 7) else ""
        r = self.rank
        yield self.now, ""
        yield self.now, f"{stamp}{r.host}:{r.pid}:{r.tid + 40} [{r.dev}] {where}{named} NCCL WARN {text}"

    def lines(self):
        yield from self._process()
        if self.behaviour.init != "none":
            for comm in self.job.comms:
                if self.rank in comm:
                    yield from self._init(comm)
        if self.behaviour.init == "complete":
            self.now = max(self.now, START_S + 2)
            for index, call in enumerate(self.job.calls if self.behaviour.calls is None else self.behaviour.calls):
                if self.rank in call.comm:
                    yield from self._call(call)
                self.now += 0.01
        for item in self.behaviour.tail:
            yield from self._tell(*item)
        if self.behaviour.end in ("destroy", "abort"):
            for comm in reversed(self.job.comms):
                if self.rank in comm:
                    yield from self.info(self.shapes.end(comm, self.rank, self.behaviour.end == "abort"))
        if self.behaviour.end == "torn":
            for time, line in self.info(self.shapes.connection(self.job.world, 1, self.rank, self.rank, "P2P")):
                yield time, line[:-9]  # torn before what it says

    def _tell(self, seconds, kind, what):
        """One thing more at the end: a warning, an unwinding, a call, or a line that is not NCCL's."""
        self.now += seconds
        if kind == "warn":
            yield from self.warn(what)
        elif kind == "info":
            yield from self.info(what)
        elif kind == "call":
            if self.rank in what.comm:
                yield from self._call(what)
        else:
            yield self.now, what

    def _process(self):
        s, ip = self.shapes, self.rank.ip
        yield from self.info(s.bootstrap(ip))
        yield from self.info(s.plugin())
        for name, value in {**self.job.env, **self.behaviour.env}.items():
            yield from self.info(s.env(name, value))
        yield from self.info(s.net_devices(self.job.network, ip))
        yield from self.info(s.using_network(self.job.network))
        yield from self.info(s.assigned(self.job.network))
        if s.every_rank_tells_version:
            yield from self.info(s.version_line())
            yield from self.info(s.git_version())
        elif self.rank.rank == 0:
            yield self.now, s.version_line()

    def _init(self, comm):
        s, stage = self.shapes, "complete" if comm is not self.job.world else self.behaviour.init
        if comm is not self.job.world and self.behaviour.init != "complete":
            return  # children are made of a parent that is there
        yield from self.info(s.init(comm, self.rank, False))
        if comm is self.job.world:
            yield from self.info(s.ras())
        yield from self.info(s.split(comm, self.rank))
        if stage == "start":
            return
        yield from self.info(s.bootstrap_timings())
        yield from self.info(s.comm_shape(comm, self.rank))
        if comm.rank_of(self.rank) == 0:
            for channel in range(2):
                yield from self.info(s.ring_table(comm, channel))
        yield from self.info(s.trees(comm, self.rank))
        yield from self.info(s.thresholds())
        late = s.connects_late and stage == "complete"
        if not late:
            yield from self._connect(comm, stage)
        if stage != "complete":
            return
        yield from self.info(s.channels())
        yield from self.info(s.init(comm, self.rank, True))
        yield from self.info(s.init_timings(comm, self.rank))
        if late:
            yield from self._connect(comm, stage)

    def _connect(self, comm, stage):
        s, here = self.shapes, self.rank
        after, before = comm.ring_neighbour(here, 1), comm.ring_neighbour(here, -1)
        for channel in range(2):
            if before.host != here.host:
                yield from self.info(s.connection(comm, channel, before, here, self.job.network, " [receive]"))
            if after.host != here.host:
                yield from self.info(s.connection(comm, channel, here, after, self.job.network, " [send]"))
            else:
                yield from self.info(s.connection(comm, channel, here, after, "P2P"))
        if stage == "connecting":
            return
        yield from self.info(s.connected("rings", int(self.job.network == "IB")))
        if stage != "rings":
            yield from self.info(s.connected("trees", 0))

    def _call(self, call):
        if call.op in ("Exchange", "Pipeline"):
            ends = {"Pipeline": (call.comm.nranks - 1, 0)}.get(call.op, (-1, -1))
            r = call.comm.rank_of(self.rank)
            if r != ends[0]:
                yield from self._one_call(call, "Send", (r + 1) % call.comm.nranks)
            if r != ends[1]:
                yield from self._one_call(call, "Recv", (r - 1) % call.comm.nranks)
        else:
            yield from self._one_call(call, call.op, call.root)

    def _one_call(self, call, op, root):
        s, n = self.shapes, self.op_counts.get(call.comm.comm_id, 0)
        send = f"0x7f{self.rank.rank:04x}{call.count:06x}"
        buffers = {"Send": (send, "(nil)"), "Recv": ("(nil)", send)}.get(op, (send, send))
        yield from self.info(s.call(op, n, call.comm, self.rank, call.count, call.dtype, call.redop, root, buffers))
        if self.job.tuning and op not in ("Send", "Recv"):
            yield from self.info(s.tuning(op, call.count * 4))
        # From 2.27 on only calls with work for a proxy count, and only ranks with a remote neighbour have such.
        if s.op_count_is_ordinal or self.rank.dev in (0, GPUS_PER_HOST - 1):
            self.op_counts[call.comm.comm_id] = n + 1
