"""What `busbar diagnose` says: of logs with a planted verdict (test/logs/), of other evidence, of flight records."""

import glob
import json
import os

import log_layouts
import verdict_matrix
from nccl_shapes import RAS

import cases as frozen
from cases import Case

XID = ("Sep 01 12:00:00 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1003, GPU has fallen off the bus.\n"
       "Sep 01 12:00:01 node1 kernel: mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error\n")
TORCH = (
    "[rank{rank}]:[E813 12:25:30.948355712 ProcessGroupNCCL.cpp:670] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
    "ran for 600029 milliseconds before timing out.\n"
    "[rank{rank}]:[E813 12:25:30.948455712 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  "
    "failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed "
    "work: {done}\n")


def write_logs(folder):
    """A job of each plant, in the newest version of NCCL, in layouts that take turns."""
    for seed, name in enumerate(verdict_matrix.PLANTS):
        planted = verdict_matrix.make(name, verdict_matrix.VERSIONS[-1], 16, seed, stamps=seed % 4 == 1,
                                      network="Socket" if seed % 5 == 0 else "IB")
        log_layouts.write(planted, os.path.join(folder, name), log_layouts.LAYOUTS[seed % 5], "none", seed)


def planted():
    """Of each the verdict; of one whose report has every table, all of it, and its JSON."""
    whole = ["busbar diagnose process_dead", "busbar diagnose order_cycle_logged --json", "busbar diagnose ok --unknown"]
    first = [f"busbar diagnose {name} >out; code=$?; head -3 out; rm out; exit $code" for name in verdict_matrix.PLANTS]
    return [Case("diagnose_planted", whole + first, prepare=write_logs)]


def write_many(folder):
    job = verdict_matrix.make("rank_lagging", "2.28.9", 64, 5)
    log_layouts.write(job, os.path.join(folder, "many"), "per_rank", "none", 5)
    log_layouts.write(job, os.path.join(folder, "some"), "merged", "mpirun", 5)


def other_evidence():
    torch = {f"torch/rank{rank}.log": TORCH.format(rank=rank, seq=7, done=6) for rank in range(3)}
    torch["torch/rank3.log"] = TORCH.format(rank=3, seq=5, done=4)
    odd = {"odd/random.bin": bytes(range(256)) * 400, "odd/empty.log": "", "odd/cut.json": '{"nccl_version": "2.28.9", "com',
           "odd/hang-1.json": '{"schema":1,"kind":"hang","observed":[]}', "odd/long.log": "NCCL INFO " + "x" * 300_000,
           "odd/hostile.log": "a:1:1 [0] NCCL INFO \x1b[2J\x07 Init COMPLETE\n[0] NCCL WARN " + "%s%n" * 50 + "\n",
           "odd/hang-2.json": '{"document":"hang","schema":99}', "odd/packed.log.gz": b"\x1f\x8b\x08\0" + b"\1" * 60,
           "odd/unknown.log": "node0:1000:1000 [0] NCCL INFO a line of a version to come\n" * 3}
    return [
        Case("diagnose_other_evidence", [
            "busbar diagnose ras.txt", "busbar diagnose dmesg.txt", "busbar diagnose torch",
            "busbar diagnose torch dmesg.txt ras.txt",
            "cat torch/*.log | busbar diagnose - ras.txt --json=out.json | head -3"],
             files={"ras.txt": RAS, "dmesg.txt": XID, **torch}),
        Case("diagnose_odd_files", ["busbar diagnose odd", "busbar diagnose odd --unknown | tail -12",
                                    "busbar diagnose /dev/zero", "busbar diagnose - </dev/null",
                                    *[f"busbar diagnose {name} | head -1" for name in sorted(odd)],
                                    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 busbar diagnose odd"], files=odd),
        Case("diagnose_many", ["busbar diagnose many | head -40", "busbar diagnose many some | head -5"],
             prepare=write_many),
    ]


def records():
    """Calls that others recorded as JSON: dumps of PyTorch's Flight Recorder, lines of NCCL's Inspector."""
    def dump(last, done):
        entries = [{"collective_seq_id": seq, "process_group": ["0", "default_pg"], "profiling_name": "nccl:all_reduce",
                    "input_sizes": [[8, seq]], "output_sizes": [[8, seq]], "input_dtypes": ["Float"], "is_p2p": False,
                    "state": "completed" if seq <= done else "scheduled",
                    "frames": [{"name": "step", "filename": "/job/train.py", "line": 77}]} for seq in range(last - 4, last + 1)]
        return json.dumps({"version": "2.10", "entries": entries, "pg_status": {},
                           "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}})
    inspector = [json.dumps({
        "header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 3, "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node0", "pid": 700 + rank},
        "coll_perf": {"coll": "AllReduce", "coll_sn": sn, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 9}})
                 for rank in range(3) for sn in range(7 if rank == 2 else 9)]
    return Case("diagnose_records",
                ["busbar diagnose late", "busbar diagnose late/fr_trace_0.json late/fr_trace_2.json | head -5",
                 "busbar diagnose inside | head -5", "busbar diagnose inspector.log"],
                files={"inspector.log": "\n".join(inspector) + "\n",
                       **{f"late/fr_trace_{rank}.json": dump(40 if rank == 1 else 41, 40) for rank in range(3)},
                       **{f"inside/nccl_trace_rank_{rank}.json": dump(41, 40) for rank in range(3)}})


def recorded_hangs():
    links = {"in": frozen.RECORDED}
    hangs = [f"busbar diagnose in/{os.path.basename(path)}"
             for path in sorted(glob.glob(os.path.join(frozen.RECORDED, "hang_*.json")))]
    return [Case("diagnose_hangs", hangs + [
                "busbar diagnose in/hang_*.json | head -3", "busbar diagnose in/accept_good.json | head -3",
                "busbar diagnose in/hang_stopped.json ras.txt | head -8"], links=links, files={"ras.txt": RAS}),
            Case("diagnose_flights", [
                "busbar diagnose --flight in/flights", "busbar diagnose in/flights/*.0 in/flights/*.2 --json",
                "busbar diagnose --flight in/flights --job nobody"], links=links)]


def cases(_scratch):
    return [*planted(), *other_evidence(), records(), *recorded_hangs()]
