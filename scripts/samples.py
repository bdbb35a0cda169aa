#!/usr/bin/env python3
"""Are the samples of output in README and docs still what the programs print? (`make samples`)

    scripts/samples.py [build] [NAME...] [--list]

A sample is a fenced block below the comment `<!-- sample NAME -->`; how it is made stands in MAKE. Its commands run in
an empty folder, and each line of the block must come in what they print, in that order, numbers aside; `[...]` is what
was left out. What a quiet machine prints and a busy one does not, or the reverse (the reasons why a cell stopped, marks
of a comparison, DISTURBED), is aside too. Takes two minutes."""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAT = "--placement out --stat --max-time 2"
LAGGING = """python3 - <<'END'
import os, sys
sys.path.insert(0, os.path.join(os.environ["ROOT"], "test", "e2e"))
from diagnose_test import call, init
os.mkdir("logs")
for rank in range(4):
    with open(f"logs/nccl.node{rank // 2}.{1000 + rank}.log", "w", encoding="utf-8") as file:
        calls = [call(rank, n, count=1048576) for n in range(412 - (rank == 2))]
        file.write("\\n".join(init(rank) + calls) + "\\n")
END
busbar diagnose logs; echo $?"""
# NAME: commands; what the last prints is looked at, stdout and stderr.
MAKE = {
    "table": "mpirun -n 4 all_reduce_perf -b 8 -e 64M -f 8",
    "stat": "mpirun -n 2 all_reduce_perf -b 8 -e 8M -f 32 --placement out --stat --max-time 20",
    "compare": "mpirun -n 2 busbar compare all_reduce -b 64 -e 1M -f 4 --vary ompi.algorithm=recursive_doubling,ring",
    "wrong": "mpirun -n 4 all_reduce_perf -b 64K -e 64K -w 0 -n 1 --inject rank=1,op=2,kind=drop",
    "mismatch": "mpirun -n 8 all_reduce_perf -b 8 -e 8 -w 0 -n 1 --paranoid --inject rank=3,op=3,kind=count",
    "repeat": f"busbar repeat --rel-ci 5% mpirun -n 2 all_reduce_perf -b 64K -e 1M -f 4 {STAT}",
    "merge": f"for n in 1 2 3 4 5 6; do mpirun -n 2 all_reduce_perf -b 64K -e 1M -f 4 {STAT} -J run-$n.json; done "
             ">/dev/null; busbar merge run-*.json",
    "fingerprint": 'busbar fingerprint all_reduce -b 64K --launch "mpirun -n 4"',
    "history": "for n in 1 2 3 4 5 6 7 8 9; do mpirun -n 2 all_reduce_perf -b 1K -e 8K -f 8 --placement out --stat "
               "--max-time 0.5 --history h.db; done >/dev/null; busbar history compare last --history h.db",
    "lagging": LAGGING,
    "shipped": 'cd "$ROOT"; busbar diagnose docs/samples/rank_lagging.log',
}
MARK = re.compile(r"^<!-- sample (\w+) -->\n\n?```\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Lines that come and go with the machine.
ASIDE = re.compile(r"^#( DISTURBED| Disturbance| Undisturbed| \d+ of \d+ cells|   \d+ | \d+ launches began| launch \d+ "
                   r"| ring passes| sd[: ]| the library's own choice| Stragglers| cells:| after \d+| \d+ ranks on)")


def masked(line):
    """What must agree: words and their order."""
    line = re.sub(r"\b(ci|noisy|time)$", "STOP", line.rstrip())
    line = re.sub(r"(?<=  )(default|ring|recursive_doubling)\b.*?(?= +(-|#|[\d.]+)$)", "WINNER", line)
    line = re.sub(r"\b(undecided|equivalent|slower|faster)$", "VERDICT", line)
    line = re.sub(r"verdict: [A-Z]+: .*", "verdict", line)
    line = re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.:]*(e[-+]?\d+)?", "#", line)
    line = re.sub(r"(#\+#%|#)[?<>=*]?(?= |$)", "#", line)  # +-1.1 has become +#
    return " ".join(re.sub(r"(?<= )-(?= |$)", "#", line).split())


def samples():
    """(page, name, lines) of every marked block."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for name, block in MARK.findall(page.read_text(encoding="utf-8")):
            yield page.relative_to(ROOT), name, block.rstrip("\n").split("\n")


def printed(build, name):
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", ROOT=str(ROOT), COLUMNS="200",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["timeout", "-k", "5", "300", "bash", "-c", MAKE[name]], cwd=folder, env=environment,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors="replace", check=False)
    return done.stdout.split("\n")


def missing(lines, output):
    """The first line of the sample that did not come where it should have; None: all came."""
    at, known = 0, [masked(line) for line in output]
    for line in lines:
        if line in ("", "[...]") or line.startswith("$ ") or ASIDE.match(line):
            continue
        wanted = masked(line)
        if wanted not in known[at:]:
            return line
        at = known.index(wanted, at) + 1
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    found = [sample for sample in samples() if not args.names or sample[1] in args.names]
    if unknown := {name for _, name, _ in found} - set(MAKE) | set(args.names) - set(MAKE):
        sys.exit(f"no such sample: {', '.join(sorted(unknown))}; there are: {' '.join(MAKE)}")
    if args.list:
        for page, name, lines in found:
            print(f"{name:12} {page}, {len(lines)} lines")
        return 0
    outputs, wrong = {}, 0
    for page, name, lines in found:
        if name not in outputs:
            outputs[name] = printed(os.path.abspath(args.build), name)
        line = missing(lines, outputs[name])
        print(f"{'as printed' if line is None else 'NOT AS PRINTED':14} {page}: {name}", flush=True)
        if line is not None:
            wrong += 1
            near = difflib.get_close_matches(line, outputs[name], 2, 0.3)
            print("\n".join([f"  sample: {line}", *(f"  now:    {now}" for now in near or outputs[name][-5:])]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
