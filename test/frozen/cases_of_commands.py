"""Help, versions and all kinds of wrong input, before any rank starts."""

from cases import Case

SUBCOMMANDS = ["accept", "compare", "diagnose", "doctor", "fingerprint", "history", "locate", "merge", "repeat",
               "report"]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "gather",
               "scatter", "sendrecv", "hypercube", "all_gatherv", "reduce_scatterv", "gatherv", "scatterv",
               "barrier", "pingpong"]
LONG = "x" * 300


def perf(*options, program="all_reduce_perf"):
    return [f"{program} {option}" for option in options]


def busbar(subcommand, *options):
    return [f"busbar {subcommand} {option}".rstrip() for option in options]


HELP = [
    Case("busbar_help", ["busbar", "busbar --help >/dev/null", "busbar -h >/dev/null", "busbar help >/dev/null",
                         "busbar --version", "busbar acept", "busbar ''", "busbar 'a b'", "busbar --verbose"]),
    # `doctor --version` looks at this machine.
    *[Case(f"{name}_help", busbar(name, "--help", "-h >/dev/null", "--help --nonsense >/dev/null",
                                  *["--version"] * (name != "doctor"))) for name in SUBCOMMANDS],
    Case("diagnose_help_capture", ["busbar diagnose --help-capture"]),
    Case("perf_help", perf("--help", "-h >/dev/null", "--version"), needs=("all_reduce_perf",)),
    Case("comm_help", ["comm_perf --help", "comm_perf --version"], needs=("comm_perf",)),
    Case("perf_help_each", [f"for name in {' '.join(COLLECTIVES)}; do ${{name}}_perf --help | head -2; done"],
         needs=tuple(f"{name}_perf" for name in COLLECTIVES)),
]

OPTIONS = [
    Case("perf_wrong_numbers", perf("-n abc", "-n 0", "-n -1", "-n 1.5", "-n 99999999999999999999", "-n ''", "-b 0", "-b -8",
                               "-b 12Q", "-b 1e400", "-b ''", "-i 0 -b 8 -e 64", "-b 64M", "-b 64K -e 8", "-f nan -b 8",
                               "-f -2 -b 8", "-f 1.0000001 -b 8 -e 64M", "-w -1", "-m 0", "-N -1", "-T -1", "-T abc",
                               "-c -1", "-a 4", "-a x", "-z 4", "-R 3", "-x 3", "-V 0", "-D 5", "-K 3", "-K 3 -I 1 -n 3",
                               "-I 2", "-S 2", "-u -1", "-G -1", "--rel-ci 0", "--rel-ci 200%", "--rel-ci abc",
                               "--epochs 0", "--seed x", "--max-time 0", "--max-time abc", "--ranks-per-gpu 0",
                               "-i 8 -b 8 -e 1G"), needs=("all_reduce_perf",)),
    Case("perf_wrong_names", perf("-d floaty", "-d ''", "-d float,", "-d float,floaty", "-o mean", "-o ''",
                             "--backend ucc", "--placement inn", "--cadence often", "-r x", "-r -2", "-y 2", "-p 2",
                             "--sizes ''", "--sizes 8,,8", "--sizes 8,x", "--sizes 8 -b 8"),
         needs=("all_reduce_perf",)),
    Case("perf_wrong_options", perf("--itres 3", "--min", "-Z", "-b", "--minbytes", "stray", "-- stray", "-q 3",
                               "--dry-run=3", "--stat=yes", "-b8x", "--config", f"--{LONG}", f"-d {LONG}",
                               "--nthreads 0", "-g 0", "-t 3000000000", "--samples x.csv", "--stat -I 1", "--stat -G 1", "--show-prediction", "--per-rank", "--skew",
                               "--mpi-threads two", "--buffers both"),
         needs=("all_reduce_perf",)),
    Case("perf_wrong_outputs", perf("-J r.xml", "-J ''", "-J /nonexistent/r.json", "--csv ''", "--csv /nonexistent/r.csv",
                               "--history ''", "-J r.json --stat --samples ''"), needs=("all_reduce_perf",)),
    Case("perf_wrong_injections", perf(*[f"--inject {fault}" for fault in (
        "''", "rank=1", "rank=1,op=0,kind=skip", "rank=x,op=1,kind=skip", "rank=1,op=1,kind=skpi", "rank=1,op=1",
        "rank=1,op=1,kind=late", "rank=1,op=1,kind=late:x", "rank=1,op=1,kind=skip,op=2", "rank=1,op=1,kind=flip:3",
        "rnk=1,op=1,kind=skip", "rank=0,op=1,kind=skip -G 1")]), needs=("all_reduce_perf",)),
    Case("perf_wrong_yaml", perf(*[f"--config {name}" for name in (
        "absent.yaml", "slip.yaml", "type.yaml", "schema.yaml", "twice.yaml", "list.yaml",
        "broken.yaml", "tabs.yaml", "map.yaml", "value.yaml", "nul.yaml", "nested.yaml", "alias.yaml")]),
         files={"slip.yaml": "schema: 1\nminbytes: 8\nmaxbyte: 8\n",
                "type.yaml": "schema: 1\niters: [1, 2]\n", "schema.yaml": "schema: 2\niters: 3\n",
                "twice.yaml": "schema: 1\niters: 3\niters: 4\n", "list.yaml": "- 1\n- 2\n",
                "broken.yaml": "schema: 1\niters: [3\nop: sum\n", "tabs.yaml": "schema: 1\n\titers: 3\n",
                "map.yaml": "schema: 1\nop: {a: b}\n", "value.yaml": "schema: 1\ndatatype: [float, floaty]\n",
                "nul.yaml": b"schema: 1\niters: \0\n", "nested.yaml": "schema: " + "[" * 60 + "]" * 60 + "\n",
                "alias.yaml": "schema: &a 1\niters: *a\nop: *b\n"}, needs=("all_reduce_perf",)),
    Case("perf_wrong_environment", [f"{setting} all_reduce_perf --backend mpi -b 8 -e 8 --dry-run" for setting in (
        "NCCL_TESTS_DEVICE=x", "NCCL_TESTS_MIN_BW=x", "NCCL_TESTS_SPLIT=FOO", "NCCL_TESTS_SPLIT='MOD 0'",
        "NCCL_TESTS_SPLIT_MASK=zz", "NCCL_TESTS_ALLTOALLV_SPREAD=3")],
         needs=("all_reduce_perf",)),
]

HISTORY_WORDS = ("", "lst --history x", "list", "list --history absent.db", "list --history .", "list --history text.db",
                 "list --history newer.db", "list --history x -n 3", "list --history x --kind prof",
                 "list --history x --last 0", "list more --history x", "show --history x", "compare --history x",
                 "compare 1 2 3 --history x", "trend a b --history x", "compare 1 --history x --delta 100%x",
                 "compare 1 --history x --days 0", "list --history x -J x.txt", "list --history", "--last 3")

SUBCOMMAND_OPTIONS = [
    Case("accept_wrong", busbar("accept", "", "absent.yaml", "acceptence", "a b", "acceptance -b 8", "acceptance --stat",
                                "acceptance --config x", "acceptance --resume a --output_file b.json",
                                "acceptance --resume absent.json", "acceptance --baseline absent.json",
                                "acceptance --baseline-margin 80%",
                                "acceptance --launch 'mpirun -n {np} {cmd}'",
                                "acceptance --junit ''", "acceptance --strikt", "acceptance -J x.txt", "--dry-run",
                                "acceptance --report ''", "acceptance --part x", "acceptance --left x",
                                "acceptance --launch 'mpirun {cmd}' --ranks 0")),
    Case("compare_wrong", busbar("compare", "", "all_reduce", "--vary ompi.algorithm=ring",
                                 "all_reduc --vary ompi.algorithm=ring", "all_reduce,x --vary ompi.algorithm=ring",
                                 *[f"all_reduce --backend mpi --vary {rest}" for rest in (
                                     "ompi.algorithm", "ompi.algorithm=", "ompi.algorithm=rng", "NCCL_ALGO=Ring",
                                     "NCCL_BUFFSIZE=4M", "ompi.algorithm=ring --delta 90%", "ompi.algorithm=ring -n 5",
                                     "ompi.algorithm=ring --placement both", "ompi.algorithm=ring --dleta 2%",
                                     "ompi.segmentsize=x", "ompi.algorithm=ring --verify",
                                     "ompi.algorithm=ring --launches 3",
                                     "ompi.algorithm=ring --emit-env ''", "ompi.algorithm=99", "=3", "nccl.ctas=0")],
                                 "sendrecv --backend mpi --vary ompi.algorithm=ring",
                                 "all_reduce --vary ompi.algorithm=ring --emit-tuner t.csv --launch 'mpirun -n 2'",
                                 "all_reduce --vary NCCL_BUFFSIZE=4M --emit-ompi-rules r --launch 'mpirun -n 2'",
                                 "all_reduce --vary NCCL_BUFFSIZE=4M --launch 'mpirun -n 2' --launches 5",
                                 "all_reduce --vary NCCL_BUFFSIZE=4M --launch 'mpirun -n 2' --max-time 3",
                                 "--config bad.yaml", "--config cells.yaml", "all_reduce --verify-file absent"),
         files={"bad.yaml": "schema: 1\ncollectives: [all_reduce]\nvary:\n  ompi.algorithm: []\n",
                "cells.yaml": "schema: 1\ncollectives: [all_reduc]\nvary: 3\n"}),
    Case("locate_wrong", busbar("locate", "--unit hosst", "--iters 3", "all_reduce", "--fail 0.95", "--fail 0",
                                "--warn 2", "--matchings 0", "--confirmations 0", "--rail=0", "--soak x",
                                "--round-time -1", "--repetitions 2", "--expected 0", "--expected x", "--fulll",
                                "-b 8 -e 16", "--stat", "--junit ''", "-J x.txt")),
    Case("doctor_wrong", busbar("doctor", "x.json", "--merge", "--merge absent.json", "--merge broken.json",
                                "--merge broken.json --local", "-b 8", "--diff absent.json", "--diff broken.json",
                                "--locla", "-J /nonexistent/x.json", "-J x.txt", "--recorded absent.txt",
                                "--recorded bad.txt", "--recorded bad2.txt", "--recorded bad3.txt", "--junit ''",
                                "--merge list.json", "--merge kind.json", "--merge later.json",
                                "--merge old.json", "--merge oldest.json"),
         files={"broken.json": '{"schema_version":1', "bad.txt": "host node1\nfiel /proc/x 1\n",
                "bad2.txt": "limit memlock many\n", "bad3.txt": "cpus 3-1\nnow x\n", "list.json": "[1,2]",
                "kind.json": '{"document":"locate","schema":3}', "later.json": '{"document":"doctor","schema":99,"version":"9.0"}',
                "old.json": '{"document":"doctor","schema":2,"version":"0.1.0","nodes":[]}',
                "oldest.json": '{"schema_version":1,"program":"busbar doctor","nodes":[]}'}),
    Case("diagnose_wrong", busbar("diagnose", "", "-b 8 x", "absent", "--flight absent", "--flight .", "--job 1 .",
                                  "--jsn .", "--json=/nonexistent/x.json log", "--json=x.txt log", "''",
                                  "--unknown", "--flight", "log absent"), files={"log": "hello\n"}),
    Case("fingerprint_wrong", busbar("fingerprint", "", "all_reduc", "all_reduce --algorithm rng", "all_reduce -n 5",
                                     "all_reduce --segmentsize 4K", "all_reduce --launch /nonexistent/mpirun",
                                     "all_reduce --launch 'mpirun -n {np}'", "sendrecv --algorithm ring",
                                     "all_reduce --rules absent", "all_reduce --tmp /nonexistent", "all_reduce broadcast",
                                     "all_reduce --launch-timeout x",
                                     "all_reduce -d float,int32 -J x.txt")),
    Case("history_wrong", busbar("history", *HISTORY_WORDS),
         files={"text.db": "not a database, and not to be lost\n" * 40, "x": ""}),
    Case("merge_wrong", busbar("merge", "", "one.json", "absent.json other.json", "--launch-cost x a b", "-n 3 a b",
                               "broken.json broken.json", "list.json list.json", "-J x.txt a b", "--lunch-cost 3 a b"),
         files={"one.json": "{}", "broken.json": '{"version": 3, "results": [', "list.json": "[]"}),
    Case("report_wrong", busbar("report", "", "absent.json", "hello.txt", "results.json", "empty.json", "list.json",
                                "null.json", "number.json", "binary.json", ".", "results.json --titel x",
                                "results.json -n 3", "results.json -o", "results.json --output=", "-o x.html",
                                "kind.json", "nested.json", "cut.json", "types.json", "old.json"),
         files={"hello.txt": "hello", "results.json": '{"results": []}', "empty.json": "", "list.json": "[1, 2]",
                "null.json": "null", "number.json": "3", "binary.json": bytes(range(256)),
                "kind.json": '{"document":"acept","schema":3}',
                "old.json": '{"version":3,"results":[],"busbar":{"schema_version":2,"version":"0.1.0"}}', "nested.json": "[" * 200 + "]" * 200,
                "cut.json": '{"version":3,"results":[{"size":8,', "types.json": '{"version":3,"results":{"a":1}}'}),
]


def cases(_scratch):
    return HELP + OPTIONS + SUBCOMMAND_OPTIONS
