"""Thousands of small logs with a verdict planted, as they reach people who help: cut, mixed, wrapped, decorated.

    python3 test/logs/made_corpus.py SEED COUNT        # what `busbar diagnose` of $BUSBAR_BUILD says of them

Each plant marks the lines that decide. "The evidence is there" where one of them survives whole (of a plant that only
all lines together tell: where none was touched). Nothing here follows from what the program says.
"""

import collections
import concurrent.futures
import dataclasses
import os
import random
import re
import sys
import tempfile

import verdict_matrix
from job_model import Behaviour, Job
from log_layouts import DECORATIONS
from planted_verdicts import Planted
from rank_log import RankLog

OPS = ["ALLREDUCE", "_ALLGATHER_BASE", "BROADCAST", "REDUCE_SCATTER", "ALLGATHER"]


@dataclasses.dataclass
class Plant:
    """`lines`: (rank or None, text, whether it decides). `blame`: ranks and hosts that may be blamed."""

    name: str
    verdicts: set
    lines: list
    ranks: set = dataclasses.field(default_factory=set)
    hosts: set = dataclasses.field(default_factory=set)
    whole: bool = False  # only all lines together tell


def _glog(rng, version, rank, line):
    stamp = "" if version < (2, 4) else f"1003 18:37:{rng.randrange(60):02d}.{rng.randrange(10**9):09d}"
    prefix = "" if version < (2, 2) else f"[rank{rank}]:"
    return f"{prefix}[E{stamp} ProcessGroupNCCL.cpp:{line}] "


def _torch_timeout(rng, version, rank, seq, op, numel, ms=600000):
    return (_glog(rng, version, rank, 607) + f"[Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)={ms}) ran for "
            f"{ms + 17} milliseconds before timing out.")


def _torch_state(rng, version, rank, seq, enqueued, completed):
    if version < (2, 3):
        return None
    if version < (2, 7):
        group = f"[PG 0{' (default_pg)' if version >= (2, 4) else ''} Rank {rank}]"
        return (_glog(rng, version, rank, 1664) + f"{group} Exception (either an error or timeout) detected by watchdog at "
                f"work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.")
    return (_glog(rng, version, rank, 2395) + f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at "
            f"work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}")


def _torch_version(rng):
    return rng.choice([(1, 13), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 6), (2, 7), (2, 9), (2, 11)])


def torch_stuck(rng):
    n, version, seq, op = rng.choice([2, 4, 8]), _torch_version(rng), rng.randrange(1, 9999), rng.choice(OPS[:3:2])
    lines = []
    for rank in range(n):
        lines.append((rank, _torch_timeout(rng, version, rank, seq, op, 1024), True))
        lines.append((rank, _torch_state(rng, version, rank, seq, seq, seq - 1), True))
    return Plant("torch_stuck", {"STUCK_INSIDE"}, lines, whole=True)


def torch_lagging(rng):
    n, version, seq = rng.choice([4, 8]), rng.choice([(2, 4), (2, 7), (2, 11)]), rng.randrange(50, 9999)
    late = rng.randrange(n)
    lines = []
    for rank in range(n):
        if rank == late:
            lines.append((rank, _glog(rng, version, rank, 1890) + f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump "
                          f"signal due to a collective timeout from  rank {(late + 1) % n} and we will try our best to dump the "
                          f"debug info. Last enqueued NCCL work: {seq - 3}, last completed NCCL work: {seq - 3}.This is most "
                          "likely caused by incorrect usages of collectives", True))
        else:
            lines.append((rank, _torch_timeout(rng, (2, 4), rank, seq, "ALLREDUCE", 1024).replace("[Rank", "[Rank"), True))
            lines.append((rank, _glog(rng, version, rank, 2395) + f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure "
                          f"detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last "
                          f"completed work: {seq - 1}", True))
    return Plant("torch_lagging", {"RANK_LAGGING"}, lines, ranks={late}, whole=True)


def torch_one_voice(rng):
    version, rank = _torch_version(rng), rng.randrange(1, 8)
    return Plant("torch_one_voice", {"UNKNOWN", "RANK_LAGGING"},
                 [(rank, _torch_timeout(rng, version, rank, rng.randrange(1, 99), "ALLREDUCE", 7), True)])


def raised(rng):
    n, seq, bad = 4, rng.randrange(5, 99), rng.randrange(4)
    error = rng.choice(["KeyError: 'labels'", "ValueError: loss is nan", "AssertionError", "IndexError: list index out of range"])
    lines = [(bad, f"[rank{bad}]: Traceback (most recent call last):", False),
             (bad, f"[rank{bad}]:   File \"/srv/train.py\", line 77, in step", False), (bad, f"[rank{bad}]: {error}", True)]
    lines += [(rank, _torch_timeout(rng, (2, 4), rank, seq, "ALLREDUCE", 1), True) for rank in range(n) if rank != bad]
    return Plant("raised", {"PROCESS_DEAD"}, lines, ranks={bad}, whole=True)


def killed(rng):
    bad, pid, host = rng.randrange(8), rng.randrange(1000, 99999), f"node{rng.randrange(9)}"
    line = rng.choice([
        f"srun: error: {host}: task {bad}: Killed",
        f"mpirun noticed that process rank {bad} with PID {pid} on node {host} exited on signal 9 (Killed).",
        f"srun: error: {host}: task {bad}: Segmentation fault (core dumped)"])
    return Plant("killed", {"PROCESS_DEAD"}, [(None, line, True)], ranks={bad}, hosts={host})


def torchrun_killed(rng):
    bad, pid = rng.randrange(8), rng.randrange(1000, 99999)
    return Plant("torchrun_killed", {"PROCESS_DEAD"},
                 [(None, f"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: {bad} "
                         f"(pid: {pid}) of binary: /usr/bin/python3", True),
                  (None, "Traceback (most recent call last):", False),
                  (None, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", False),
                  (None, "Root Cause (first observed failure):", False), (None, "  host      : node1", False),
                  (None, f"  rank      : {bad} (local_rank: {bad})", False),
                  (None, f"  exitcode  : -9 (pid: {pid})", True)], ranks={bad}, hosts={"node1"})


def oom_killed(rng):
    host = f"node{rng.randrange(9)}"
    line = rng.choice([f"slurmstepd: error: Detected {rng.randrange(1, 4)} oom_kill event in StepId=77.0. Some of the step tasks "
                       "have been OOM Killed.",
                       f"Nov 21 09:59:58 {host} kernel: [ 3998.1] Out of memory: Killed process 4242 (python) "
                       "total-vm:1kB, anon-rss:1kB"])
    return Plant("oom_killed", {"RESOURCE"}, [(None, line, True)], hosts={host})


MESSAGES = [
    ({"HW_FAULT"}, ["torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
                    "Cuda failure 'uncorrectable ECC error encountered'",
                    "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
                    "NET/IB: Got completion from peer 10.0.0.9<47534> with status=IBV_WC_RETRY_EXC_ERR(12) hca mlx5_3",
                    "[1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
                    "[1234.5] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63 LTSSM Fault Up"]),
    ({"RESOURCE"}, ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB free",
                    "OSError: [Errno 24] Too many open files", "OSError: [Errno 28] No space left on device",
                    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
                    "workers are out of shared memory.",
                    "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
                    "node1:7:8 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-UbzKZ9 to 96 bytes"]),
    ({"CONFIG"}, ["RuntimeError: Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703",
                  "node1:7:8 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
                  "node1:7:8 [0] init.cc:738 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
                  "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
                  "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 8 (supports 1 to 1) for device x"]),
    ({"HOST_UNREACHABLE"}, ["node1:7:8 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.9<40861> returned "
                            "113(No route to host) errno 11(Resource temporarily unavailable)",
                            "node1:7:8 [0] NCCL INFO socketPollConnect: connect returned Connection refused, retrying (30/34) "
                            "after sleep for 3000 msec",
                            "node1:7:8 [0] include/socket.h:390 NCCL WARN Connect to 10.0.0.9<34630> failed : Network is "
                            "unreachable"]),
    ({"UNKNOWN", "HW_FAULT"}, ["NET/IB : Got completion from peer 10.0.0.9<4> with error 5, opcode 48, len 32764, vendor err 244",
                               "ncclInternalError: Internal check failed.", "RuntimeError: NCCL error: internal error",
                               "node1:7:8 [0] enqueue.cc:1 NCCL WARN an invariant that nobody knows was violated",
                               "node1:7:8 [0] NCCL INFO init.cc:1263 -> 3"]),
]


def message(rng):
    verdicts, texts = rng.choice(MESSAGES)
    text = rng.choice(texts)
    lines = [(None, text, True)]
    if not re.search(r"NCCL (WARN|INFO)|^\[", text) and rng.random() < 0.4:
        lines = [(None, "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
                  False), (None, "Last error:", False)] + lines
    return Plant(f"message_{min(verdicts).lower()}", verdicts, lines, ranks={0, 1}, hosts={"node1", "10.0.0.9"})


def fingerprint(rng):
    a, b = rng.sample(range(8), 2)
    seq, other = rng.randrange(5, 99), rng.randrange(100, 999)
    shapes = rng.random() < 0.5
    one = f"CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[10], TensorDtypes=Float)"
    two = (one.replace("[10]", "[20]") if shapes else one.replace(f"SequenceNumber={seq}", f"SequenceNumber={other}"))
    return Plant("fingerprint_args" if shapes else "fingerprint_order", {"ARG_MISMATCH"} if shapes else {"ORDER_MISMATCH"},
                 [(None, f"RuntimeError: Detected mismatch between collectives on ranks. Rank {a} is running collective: {one}, "
                         f"but Rank {b} is running collective: {two}.", True)], ranks={a, b})


def barrier(rng):
    absent = sorted(rng.sample(range(1, 8), rng.randrange(1, 3)))
    who = f"Rank {absent[0]}" if len(absent) == 1 else "Ranks " + ", ".join(map(str, absent))
    return Plant("monitored_barrier", {"RANK_LAGGING"},
                 [(None, f"[Rank 0]: {who} failed to pass monitoredBarrier in 30000 ms", True)], ranks=set(absent))


CHATTER = ["step {0} loss 2.{0} lr 1e-4", "Loading checkpoint shards: {0}%", "epoch {0} validation error 0.{0}",
           "[INFO] saved to /ckpt/step{0}", "Using auto half precision backend", "tokens/s {0}, mfu 0.41"]


def healthy(rng):
    job = Job(rng.choice(verdict_matrix.VERSIONS), 8, rng.randrange(10**6), ncalls=3)
    lines = [(rank.rank, text, True) for rank in job.ranks for _, text in RankLog(job, rank, Behaviour()).lines() if text]
    lines += [(None, rng.choice(CHATTER).format(rng.randrange(99)), False) for _ in range(5)]
    return Plant("healthy", {"OK"}, lines)


# Lines of a planted job that decide; where there is none, all together do.
DECIDES = {"hw_fault_ib": r"completion", "hw_fault_xid": r"Xid", "resource_shm": r"/dev/shm",
           "host_unreachable": None, "process_dead": None}
OF_JOBS = [name for name in verdict_matrix.PLANTS if name != "ok"]


def of_job(rng):
    """One of the jobs that synthetic_logs_test.py knows, small."""
    name = rng.choice(OF_JOBS)
    version = rng.choice([v for v in verdict_matrix.VERSIONS if verdict_matrix.can_tell(name, v)])
    planted: Planted = verdict_matrix.make(name, version, 16, rng.randrange(10**6), ncalls=12)
    pattern, lines = DECIDES.get(name), []
    for rank in planted.job.ranks:
        if not planted.given(rank):
            continue
        for _, text in RankLog(planted.job, rank, planted.behave(rank)).lines():
            if text:
                lines.append((rank.rank, text, bool(pattern and re.search(pattern, text)) if pattern else True))
    for other in planted.other_files.values():
        lines += [(None, text, bool(re.search(pattern or "", text))) for text in other]
    words = [word for group in planted.blame for word in group]
    ranks = {int(word.split()[1]) for word in words if word.startswith("rank ")}
    hosts = {f"node{rank // 8}" for rank in ranks} | {word for word in words if word.startswith(("node", "10."))}
    # Whom the network names may be either end of the path, or all of a host.
    if name in ("hw_fault_ib", "host_unreachable", "resource_shm", "hw_fault_xid"):
        hosts |= {"node0", "node1", "10.0.0.1", "10.0.0.2"}
        ranks |= set(range(16))
    if name.startswith(("init_", "config", "order_cycle", "stuck", "slow", "unknown")):
        ranks |= set(range(16))
    return Plant(name, {planted.verdict}, lines, ranks, hosts, whole=pattern is None)


PLANTS = [torch_stuck, torch_lagging, torch_one_voice, raised, killed, torchrun_killed, oom_killed, message, message, message,
          fingerprint, barrier, healthy, of_job, of_job]


def _interleave(rng, lines):
    """Each rank's lines stay in order; half of the logs lose some of them, as where a collector has a rate limit."""
    loses = rng.random() < 0.5
    queues = collections.defaultdict(list)
    for line in lines:
        queues[line[0]].append(line)
    result = []
    while queues:
        key = rng.choice(list(queues))
        taken = rng.randrange(1, 5)
        result += queues[key][:taken]
        del queues[key][:4 if loses else taken]
        if not queues[key]:
            del queues[key]
    return result


def _cut(rng, lines):
    """The beginning, the end or the middle is gone."""
    if len(lines) < 3:
        return lines
    a, b = sorted(rng.sample(range(len(lines) + 1), 2))
    return rng.choice([lines[a:], lines[:b], lines[:a] + lines[b:]]) or lines


def _wrap(rng, lines):
    width, result = rng.choice([100, 120, 160]), []
    for rank, text, decides in lines:
        if len(text) <= width or rng.random() < 0.5:
            result.append((rank, text, decides))
            continue
        result += [(rank, text[i:i + width], False) for i in range(0, len(text), width)]
    return result


QUOTES = [lambda text, i: "> " + text, lambda text, i: f"{i + 40:4}  {text}", lambda text, i: "\x1b[36m" + text + "\x1b[0m",
          lambda text, i: "    " + text, lambda text, i: text + "\r"]


def make(seed):
    """(plant, text of the log, whether the evidence is there)."""
    rng = random.Random(seed)
    plant = rng.choice(PLANTS)(rng)
    plant.lines = [line for line in plant.lines if line[1] is not None]
    lines, untouched = list(plant.lines), True
    if len({line[0] for line in lines}) > 1 and rng.random() < 0.3 and plant.name != "raised":
        lines = _interleave(rng, lines)
        untouched = len(lines) == len(plant.lines)
    if rng.random() < 0.3:
        for _ in range(rng.randrange(1, 6)):
            lines.insert(rng.randrange(len(lines) + 1), (None, rng.choice(CHATTER).format(rng.randrange(99)), False))
        # Between a block's lines nothing can stand that another program wrote.
        if plant.name in ("torchrun_killed",) or any(text == "Last error:" for _, text, _ in lines):
            lines = list(plant.lines)
    if rng.random() < 0.2:
        short = _cut(rng, lines)
        untouched = untouched and len(short) == len(lines)
        lines = short
    if rng.random() < 0.15:
        wrapped = _wrap(rng, lines)
        untouched = untouched and len(wrapped) == len(lines)
        lines = wrapped
    evident = untouched if plant.whole else any(decides for _, _, decides in lines)
    decorate = DECORATIONS[rng.choice(list(DECORATIONS))] if rng.random() < 0.2 else None
    job = Job("2.28.9", 16, 1) if decorate else None
    quote = rng.choice(QUOTES) if rng.random() < 0.2 else None
    texts = []
    for i, (rank, text, _) in enumerate(lines):
        if decorate and rank is not None:
            text = decorate(job.ranks[rank], i) + text
        texts.append(quote(text, i) if quote else text)
    return plant, "\n".join(texts) + "\n", evident


def judge(seed, folder):
    from diagnosis import diagnose  # pylint: disable=import-outside-toplevel
    plant, text, evident = make(seed)
    path = os.path.join(folder, f"{seed}.log")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    answer = diagnose([path])
    os.remove(path)
    blamed = {f"rank {r}" for r in answer.get("ranks", []) if r not in plant.ranks} | \
             {h for h in answer.get("hosts", []) if h not in plant.hosts}
    return plant, answer, evident, blamed


@dataclasses.dataclass
class Outcome:
    """Of a run: what was planted against what was said, and the worst mistakes."""

    matrix: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    logs: int = 0
    evident: int = 0
    right: int = 0
    right_of_all: int = 0
    false_ok: list = dataclasses.field(default_factory=list)
    wrong_blame: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)

    def shares(self):
        return (f"{self.logs} logs, in {self.evident} of them the evidence: right {self.right / max(self.evident, 1):.1%} "
                f"of those, {self.right_of_all / max(self.logs, 1):.1%} of all; false OK {len(self.false_ok)}; wrong blame "
                f"{len(self.wrong_blame) / max(self.logs, 1):.2%}")


def run(first_seed, count):
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for seed, found in zip(range(first_seed, first_seed + count),
                               pool.map(lambda s: judge(s, folder), range(first_seed, first_seed + count))):
            plant, answer, evident, blamed = found
            good = answer.verdict in plant.verdicts
            outcome.logs += 1
            outcome.evident += evident
            outcome.right_of_all += good
            outcome.right += good and evident
            outcome.matrix["|".join(sorted(plant.verdicts)), answer.verdict] += evident
            if answer.verdict == "OK" and "OK" not in plant.verdicts and evident:
                outcome.false_ok.append((seed, plant.name, answer.claims()[:200]))
            if blamed:
                outcome.wrong_blame.append((seed, plant.name, sorted(blamed), answer.claims()[:200]))
            if evident and not good:
                outcome.wrong.append((seed, plant.name, answer.verdict, answer.claims()[:200]))
    return outcome


def matrix_text(matrix):
    """As a table of Markdown: rows what was planted, columns what was said."""
    said = sorted({column for _, column in matrix if any(matrix[r, column] for r, _ in matrix)})
    text = "| planted | " + " | ".join(said) + " |\n|---|" + "---|" * len(said) + "\n"
    for row in sorted({row for row, _ in matrix}):
        text += f"| {row.replace('|', ' or ')} | " + " | ".join(str(matrix[row, c] or "") for c in said) + " |\n"
    return text


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
    outcome = run(int(sys.argv[1]), int(sys.argv[2]))
    for kind, mistakes in (("false OK", outcome.false_ok), ("wrong blame", outcome.wrong_blame), ("wrong", outcome.wrong)):
        for mistake in mistakes[:int(os.environ.get("SHOW", "8"))]:
            print(kind, *mistake)
    print(collections.Counter((name, verdict) for _, name, verdict, _ in outcome.wrong).most_common(20))
    print(matrix_text(outcome.matrix))
    print(outcome.shares())


if __name__ == "__main__":
    main()
