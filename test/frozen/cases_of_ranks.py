"""What ranks print and write, with the times and counts of the moment masked. Short runs: the words, columns, keys and exit
codes are kept, no figure is."""

import os
import sys

import cases as frozen
from cases import Case, compiled

sys.path.insert(0, os.path.join(frozen.HERE, "..", "e2e"))
from launch_test import LAUNCHER  # noqa: E402  # pylint: disable=wrong-import-position

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "gather",
               "scatter", "sendrecv", "hypercube", "all_gatherv", "reduce_scatterv", "gatherv", "scatterv",
               "barrier", "pingpong"]
# What a machine with few or busy cores adds.
BUSY = compiled(r"^# \d+ ranks on \d+ cores?: ", r"DISTURBED|^# Disturbance|drifted while measured|did not reach|"
                r"\d+ (noisy|time)[:,]|slowed down|late rank|straggler|^#  *(of|who|rank)\b.*(late|last)", r"^busbar: slow:")
KEYS = ("python3 -c \"import json,sys; d=json.load(open(sys.argv[1])); [print(k, '' if not isinstance(v, dict) else "
        "' '.join(v)) for k, v in d.items()]\"")
PLAN = """schema: 1
title: a frozen plan
stages: [per-host, whole]
locate-on-fail: false
defaults:
  rel-ci: 45%
  cell-time: 0.2
  placement: out
  criteria: {wrong: 0}
cells:
  - {name: inside, collective: all_reduce, stages: per-host, sizes: 4K}
  - {name: one, collective: all_reduce, stages: whole, sizes: [8, 4K]}
  - {name: two, collective: broadcast, stages: whole, sizes: 4K}
"""
ONE_CELL = """schema: 1
title: one cell
stages: [whole]
locate-on-fail: false
defaults: {cell-time: 0.2, placement: out, criteria: {wrong: 0}}
cells:
  - {name: one, collective: all_reduce, sizes: 4K}
"""


def ranks(name, *steps, needs=(), dropped=BUSY, **more):
    return Case(name, list(steps), needs=("busbar", "mpirun", *needs), measured=True, dropped=dropped, **more)


def perf(options, nranks=2, collective="all_reduce"):
    return f"mpirun -n {nranks} {collective}_perf --backend mpi {options}"


def benchmarks():
    few = "--sizes 4K -n 1 -w 0"
    wrong = "-b 64K -e 64K -w 0 -n 1 --inject rank=1,op="
    return [
        ranks("table", perf("-b 8 -e 64K -f 32 -n 2 -J r.json --csv r.csv --history h.db"),
              perf("-b 8 -e 8 -n 1 -J r.json --csv r.csv"), "busbar history list --history h.db"),
        ranks("table_of_collectives", *[perf("--sizes 16,4K -n 1", 3, name) for name in COLLECTIVES]),
        ranks("table_of_pairs", perf(f"{few} --pattern both --window 3 -J p.json", 2, "pingpong"),
              perf("--sizes 4K,64K -n 1 --pairs all --csv q.csv", 4, "pingpong"),
              perf(f"{few} --pairs all --dry-run", 4, "pingpong"), perf(f"{few} --window 3", 2, "pingpong"),
              perf(f"{few} --pairs all")),
        ranks("table_nonblocking", perf(f"{few} --nonblocking -J n.json"), perf(f"{few} --nonblocking", 2, "hypercube"),
              perf(f"{few} --nonblocking -m 2")),
        ranks("table_of_types", f"all_reduce_perf --backend mpi {few} -d all -o all",
              perf(f"{few} -d int8,half -o sum,avg -r all", 2, "reduce"), perf(f"{few} -o avg -J r.json")),
        ranks("table_of_options", perf(f"{few} -n 4 -I 1 -K 1 -J i.json"), perf(f"{few} -S 1 -M 1"), perf(f"{few} -C 1 -a 3 -u 1"),
              perf(f"{few} -z 1 -m 2 -N 2"), perf(f"{few} -z 3 -a 0 -c 0 -J c.json"), perf(f"{few} --placement in --csv p.csv"),
              perf(f"{few} --paranoid", 3), perf(f"{few} --show-algo -J a.json")),
        ranks("table_of_settings", f"NCCL_TESTS_SPLIT='MOD 2' {perf(few, 4)}", f"NCCL_TESTS_MIN_BW=100000 {perf(few)}",
              f"NCCL_TESTS_ALLTOALLV_SPREAD=0 {perf(few, 2, 'alltoallv')}", perf("--config run.yaml -e 2K"),
              files={"run.yaml": "schema: 1\nminbytes: 1K\nmaxbytes: 4K\nstepfactor: 2\niters: 2\n"}),
        ranks("table_without_launcher", f"all_reduce_perf --backend mpi {few}", f"all_reduce_perf --backend mpi -g 2 {few}",
              f"PMI_RANK=0 PMI_SIZE=4 all_reduce_perf --backend mpi {few}"),
        ranks("refused_by_ranks", *[perf(f"-b 1K -e 1K {options}") for options in (
            "-G 1", "-R 1", "-g 4", "--backend nccl -D 1 -R 2", "-r 7", "-b 8T -e 8T")],
            perf("--inject rank=4,op=1,kind=skip"), perf("--inject rank=1,op=1,kind=op", 2, "broadcast")),
        ranks("dry_runs", perf("-b 1K -e 64K -f 2 --dry-run"), perf("-b 1K -e 1K --dry-run --stat", 1),
              *[f"all_reduce_perf --backend mpi --dry-run {taken}" for taken in (
                  "-o sum,sum", "--minbyte 8", "--rel-ci 1% -n 3", "--stat -n 5", "--config empty.yaml", "--config none.yaml")],
              "mpirun -n 2 busbar locate --backend mpi --dry-run --unit rank",
              "mpirun -n 4 busbar compare all_gather --backend mpi --sizes 1K --vary ompi.algorithm=all --dry-run",
              *[f"busbar accept {plan} --backend mpi --dry-run" for plan in
                ("acceptance", "acceptance-quick", "health-check", "burn-in", "plan.yaml")],
              "mpirun -n 2 busbar accept plan.yaml --backend mpi --dry-run",
              files={"plan.yaml": PLAN, "empty.yaml": "", "none.yaml": "minbytes: 8\n"}),
        ranks("wrong_data", *[perf(f"{wrong}2,kind={kind}", 4) for kind in ("flip", "drop", "double", "shift")],
              perf(f"{wrong}4,kind=overrun -J in_place.json", 4), perf(f"{wrong}1000,kind=kill"),
              perf(f"{wrong}3,kind=count --paranoid", 3), perf(f"{wrong}3,kind=op --paranoid", 3)),
        ranks("faulty_data", *[f"mpirun -n 4 faulty_perf {what} --backend mpi -b 64K -e 64K -w 0 -n 1 -J f.json; rm -f f.json"
                               for what in ("all_reduce stale:1:1", "all_gather flip:1:3", "sendrecv drop:1:1",
                                            "reduce double:1:1", "all_reduce throw:1:1")],
              "mpirun -n 2 faulty_perf compare:ring flip:1:0 --backend mpi all_reduce --sizes 64 --max-time 1 --vary "
              "ompi.algorithm=ring | grep -v '^#.*slower\\|faster\\|beaten\\|^ '", needs=("faulty_perf",)),
        ranks("statistics", perf("--sizes 64,4K --stat --max-time 1 --rel-ci 45% --epochs 8 --seed 7 --per-rank --skew "
                                 "--show-algo -J s.json --csv s.csv --samples x.csv >/dev/null") +
              "; head -1 x.csv; head -1 s.csv; rm x.csv s.csv"),
    ]


HANG_SAYS = compiled(r"^busbar:   (evidence|try next)", r"^busbar:     (ssh|rank \d+ on|py-spy|gdb|kill|dmesg|host)",
                     r"^busbar:   job |^busbar: all of it|has advanced")


def failures():
    hang = "-b 64K -e 64K -n 20 -T 2 --inject rank=1,op=8,kind="
    return [
        ranks("hangs", *[f"{perf(hang + kind, 3)}; code=$?; mv hang-*.json {kind}.json; exit $code" for kind in ("stop", "skip")],
              # Its flight records stay, for people; those of other jobs are not ours to remove.
              f"{perf(hang + 'kill', 3)}; code=$?; for f in hang-*.json; do job=${{f#hang-}}; "
              "rm -f $f /dev/shm/busbar.*.${job%.json}.*; done; exit $code",
              dropped=BUSY + HANG_SAYS),
    ]


def comparisons():
    launched = ("busbar compare all_reduce --launch 'python3 launcher.py' --launches 6 --sizes 1K,64K --seed 3 --vary "
                "NCCL_BUFFSIZE=4M,8M")
    fake = {"launcher.py": LAUNCHER}
    env = {"LOG": "log", "TIMES": '{"8388608": 80}'}
    estimate = compiled_pairs((r"about [\d.]+ m?s\b|about \d+:\d+", "about <s>"))
    return [
        Case("compare_launched", [f"{launched} --emit-env best.sh -J out.json --csv out.csv --history h.db; rm log",
                                  f"{launched} --emit-ompi-rules r", f"{launched} --verify"],
             files=fake, env=env, replaced=estimate),
        Case("compare_launched_failing", [f"FAILS=4194304 {launched}; rm log", f"WRONG=4194304 {launched} -J w.json; rm log",
                                          f"FAILS=default {launched}; rm log"],
             files=fake, env=env, replaced=estimate),
        Case("compare_launched_tuner", [launched.replace("NCCL_BUFFSIZE=4M,8M", "NCCL_MIN_CTAS=8") + " --emit-tuner t.csv; rm log"],
             files=fake, env=dict(env, TIMES='{"default": 200}'), replaced=estimate),
        ranks("compare", "mpirun -n 2 busbar compare all_reduce --backend mpi --sizes 64,4K --max-time 2 --seed 3 --vary "
              "ompi.algorithm=ring,segmented_ring,two_proc -J c.json", "mpirun -n 3 busbar compare all_gather --backend mpi "
              f"--sizes 64 --max-time 1 --vary ompi.algorithm=two_proc,bruck -J c.json --csv c.csv >/dev/null; {KEYS} c.json; "
              "head -1 c.csv; cut -d, -f1-8 c.csv | tail -1; rm c.*"),
        ranks("fingerprint", "busbar fingerprint all_reduce -b 4K --launch 'mpirun -n 2' -J f.json",
              "busbar fingerprint all_gather --algorithm two_proc --launch 'mpirun -n 3'",
              "busbar fingerprint gather -b 1K --rules rules --launch 'mpirun -n 2'", files={"rules": "1 2 1 4 1 0 4 0"}),
    ]


def questions():
    accept = "busbar accept plan.yaml --backend mpi"
    launch = "--launch 'mpirun -n {ranks} {cmd}' --ranks 2"
    outputs = "--junit a.xml --csv a.csv --markdown a.md --prometheus a.prom --history h.db"
    plan = {"plan.yaml": PLAN, "one.yaml": ONE_CELL}
    return [
        ranks("locate", "mpirun -n 1 busbar locate --backend mpi -J one.json --junit one.xml",
              f"mpirun -n 4 busbar locate --backend mpi -b 4K --repetitions 3 --seed 3 --looks 1 -J l.json --csv l.csv >/dev/null; {KEYS} l.json; "
              "head -1 l.csv; rm l.*"),
        ranks("accept", f"mpirun -n 2 {accept} {outputs}", f"mpirun -n 2 {accept} --resume busbar-accept.json",
              f"mpirun -n 2 {accept} -b 8", f"mpirun -n 2 {accept} --inject rank=1,op=10,kind=drop -J w.json", files=plan),
        ranks("accept_launched", f"{accept} {launch}", f"{accept} {launch} --resume busbar-accept.json --strict",
              "busbar accept one.yaml --backend mpi --launch false -J f.json",
              f"busbar accept one.yaml --backend mpi {launch} -T 2 --inject rank=1,op=8,kind=stop -J h.json; code=$?; "
              "rm hang-*.json; exit $code", files=plan),
        ranks("doctor_here", f"busbar doctor -J d.json | sed 's/:.*//' | head -1; {KEYS} d.json; rm d.json",
              f"mpirun -n 2 busbar doctor -J d.json >/dev/null; {KEYS} d.json; rm d.json",
              "mpirun -n 2 busbar doctor --local | sed 's/:.*//' | head -1"),
        ranks("accept_plans", *[f"mpirun -n 2 busbar accept {name}.yaml --backend mpi --dry-run" for name in PLANS],
              files={f"{name}.yaml": text for name, text in PLANS.items()}),
    ]


def changed(old, new):
    assert old in PLAN
    return PLAN.replace(old, new, 1)


PLANS = {
    "key": changed("sizes: 4K}", "sizzes: 4K}"), "value": changed("45%", "x"), "stage": changed("per-host, ", "per-hst, "),
    "collective": changed("broadcast", "brodcast"), "twice": changed("name: two", "name: one"),
    "criterion": changed("{wrong: 0}", "{wrong: 3}"), "unknown": changed("{wrong: 0}", "{wrng: 0}"),
    "schema": changed("schema: 1", "schema: 7"), "empty": "", "list": "- 3\n", "none": changed("cells:", "cels:"),
    "platform": changed("stages:", "expect: {platform: h20}\nstages:"), "gpus": changed("stages:", "expect: {gpus: maybe}\nstages:"),
    "baseline": changed("stages:", "expect: {baseline: absent.json}\nstages:"),
    "env": changed("{name: two,", "{name: two, env: {LD_BIND_NOW: 1},"), "algo": changed("{name: two,", "{name: two, env: {ompi.algorithm: bmtree},"),
    "bound": changed("{wrong: 0}", "{busbw: {warn: 3, fail: 9}}"), "bounds": changed("{wrong: 0}", "{latency: -1}"),
    "dips": changed("{wrong: 0}", "{dips: 3%, drift: x}"), "time": changed("cell-time: 0.2", "cell-time: 0"),
    "both": changed("placement: out", "placement: inn"), "memory": changed("{name: two,", "{name: two, memory: disk,"),
    "repeat": changed("stages:", "repeat-for: 3\nmax-time: 1s\nstages:"), "name": changed("name: two", "name: a b"),
}


def fake_gpus():
    needs = ("fake_gpu_perf",)
    env = {"NCCL_HOME": "fake_nccl"}
    steps = [f"NCCL_HOME=$BUILD/test/fake_nccl {step}" for step in (
        "fake_gpu_perf all_reduce -g 4 -b 64 -e 64K -f 32 -n 2 -d int32 -J g.json", "fake_gpu_perf all_gather -t 2 -g 2 -b 4K -e 4K -n 1",
        "fake_gpu_perf all_reduce -g 2 --sizes 4K -n 1 -m 3 -G 2", "fake_gpu_perf all_reduce -g 2 --sizes 4K -n 1 -R 2 -I 1 -z 3",
        "fake_gpu_perf all_reduce -t 2 -R 1 -M 1 -C 1 -y 1 --sizes 4K -n 1", "fake_gpu_perf all_reduce -g 2 --sizes 4K --dry-run",
        "fake_gpu_perf compare all_reduce -g 2 --sizes 1K --vary ompi.algorithm=ring",
        "fake_gpu_perf compare all_reduce -g 2 --sizes 1K --vary NCCL_BUFFSIZE=4M",
        "FAKE_GPUS=2 fake_gpu_perf all_reduce -g 3 -b 8 -e 8", "FAKE_GPUS=2 fake_gpu_perf all_reduce -g 1 -b 8 -e 8 -y 1 -G 1",
        "FAKE_GPUS=2 NCCL_TESTS_DEVICE=1 fake_gpu_perf all_reduce -g 2 -b 8 -e 8",
        "FAKE_GPUS=0 fake_gpu_perf all_reduce --backend nccl -b 8 -e 8")]
    return [ranks("fake_gpus", *steps, needs=needs, env=env)]


def compiled_pairs(*pairs):
    return tuple((compiled(pattern)[0], text) for pattern, text in pairs)


def cases(_scratch):
    return [case for case in comparisons() if not case.measured]
