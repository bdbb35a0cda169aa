#!/usr/bin/env python3
"""Every fault that busbar must name, on virtual hosts: the table fault x launcher x verdict x seconds as Markdown on
stdout, progress on stderr. Each fault has a sandbox of its own (scripts/vcluster). `make faults` and `make soak` run
it. With --acceptance: what `busbar accept` makes of faults (run_acceptance.py).

Ends with 0 where all came out as it must, with 1 where something did not, with 77 where there can be no sandbox."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import run_acceptance
from cluster import VCLUSTER
from fault_list import BY_NAME, FAULTS

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
LIMIT_S = 300
MARK = "<!-- by scripts/faults/run_faults.py -->"
# srun's own start of MPI is flaky where salloc's is not: it shows that the exit codes and the end are right. MPICH's
# Hydra shows what concerns a launcher; a healthy job of MPICH 4.0 over TCP mostly hangs in MPI_Finalize, without busbar
# too (docs/evidence/mpi_measured.md).
ONLY = {"srun": ("healthy", "stop", "kill", "link_down"),
        "hydra": ("link_down", "power_cut", "stop", "stop_term", "stop_0", "stop_init", "stop_host",
                  "freeze_host", "kill", "kill_0", "kill_host_ranks", "kill_daemon", "too_late")}


def run(build, fault, launcher, busy=0):
    """What one_fault.py says, or why it said nothing."""
    command = [VCLUSTER, "sandbox", sys.executable, os.path.join(HERE, "one_fault.py"), build, fault, launcher,
               "--busy", str(busy)]
    done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S + 30)] + command,
                          env=dict(os.environ, VC_LIMIT=str(LIMIT_S)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if "SKIPPED" in done.stderr:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]), busy=busy)
    except (IndexError, json.JSONDecodeError):
        last = done.stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
        return {"fault": fault, "launcher": launcher, "wrong": [f"no result: {last[0]} (exit code {done.returncode})"],
                "output": done.stderr[-4000:].splitlines()}


def cells(result):
    """Of one run: what of the table is a word."""
    if "verdict" not in result:
        return ["", "", "", ""]
    if result["by"] == "error":
        result = dict(result, verdict="(refused before the call)", ranks=[5])
    blamed = [f"rank {rank}" for rank in result["ranks"]] + result["hosts"]
    return [result["verdict"] or "none", ", ".join(blamed), result["by"] or "",
            "" if result["code"] is None else str(result["code"])]


def row(results):
    """Of all runs of one fault under one launcher."""
    first = results[0]
    what = BY_NAME[first["fault"]].what + (", all cores busy" if first.get("busy") else "")
    launcher = first["launcher"] + (" (retried)" if any(result.get("retries") for result in results) else "")
    verdict, named, by, code = [" or ".join(dict.fromkeys(filter(None, words))) for words in zip(*map(cells, results))]
    times = [sorted(result[key] for result in results if result.get(key) is not None) for key in ("report_s", "end_s")]
    report_s, end_s = [f"{statistics.median(some):.1f}" if some else "" for some in times]
    wrong = [result["wrong"] for result in results if result["wrong"]]
    right = "yes" if len(results) == 1 else f"{len(results) - len(wrong)} of {len(results)}"
    if wrong:
        right = f"**{'no' if len(results) == 1 else right}:** " + "; ".join(text[:80] for text in sum(wrong, []))
    return [what, launcher, verdict, named, by, report_s, end_s, code, right]


HEADER = ["fault", "launcher", "verdict", "named", "by", "report [s]", "end [s]", "exit code", "as it must be"]


def table(results):
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    alike = {}
    for result in results:
        alike.setdefault((result["fault"], result["launcher"], result.get("busy", 0)), []).append(result)
    lines += ["| " + " | ".join(row(some)) + " |" for some in alike.values()]
    return "\n".join(lines)


def write_between_marks(path, text, mark):
    with open(path, encoding="utf-8") as file:
        parts = file.read().split(mark)
    if len(parts) != 3:
        sys.exit(f"{path} needs two lines {mark}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{parts[0]}{mark}\n\n{text}\n{mark}{parts[2]}")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores, " \
           f"Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="folder of the executables (build)")
    parser.add_argument("--launchers", default="mpirun,salloc,srun", help="%(default)s; or hydra, of a build with MPICH")
    parser.add_argument("--only", default="", help="faults, with commas between; there are: " + " ".join(BY_NAME) +
                        "; with --acceptance: " + " ".join(run_acceptance.BY_NAME))
    parser.add_argument("--acceptance", action="store_true", help="`busbar accept`: its faults, and 20 healthy runs")
    parser.add_argument("--plan", default=run_acceptance.PLAN, help="of --acceptance (%(default)s)")
    parser.add_argument("--hosts", default="4,8,16", help="of --acceptance (%(default)s)")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--soak", type=int, default=0, metavar="N",
                        help="first N healthy runs while other work takes every core, then each fault --repeat times")
    parser.add_argument("--write", metavar="FILE", help="put the table between the two marks of this file")
    parser.add_argument("--details", metavar="FILE", help="all that is known of each run, a line of JSON each")
    parser.add_argument("--resume", action="store_true", help="run only what the file of --details does not hold yet")
    parser.add_argument("--from", dest="earlier", metavar="FILE", nargs="+",
                        help="run nothing: the table of such files")
    arguments = parser.parse_args()
    known = run_acceptance.BY_NAME if arguments.acceptance else BY_NAME
    unknown = [name for name in arguments.only.split(",") if name and name not in known]
    if unknown:
        parser.error(f"--only: no such fault: {unknown[0]}; there are: {' '.join(known)}")
    if arguments.acceptance:
        sys.exit(acceptance(arguments))

    begun = time.monotonic()
    results = read_details(arguments.earlier) if arguments.earlier else run_all(arguments)
    if not results:
        sys.exit(SKIPPED)
    bad = sum(bool(result["wrong"]) for result in results)
    retries = sum(result.get("retries", 0) for result in results)
    took = "" if arguments.earlier else f" in {time.monotonic() - begun:.0f} s"
    text = f"{table(results)}\n\n{len(results)} runs{took}, {bad} not as they must be, {retries} tried again under " \
           f"srun. {machine()}.\n"
    print(text)
    if arguments.write:
        write_between_marks(arguments.write, text, MARK)
    sys.exit(1 if bad else 0)


def acceptance(arguments):
    """The exit code."""
    results = read_lines(arguments.earlier) if arguments.earlier else run_acceptance.run_all(arguments)
    if not results:
        return SKIPPED
    loads = sorted(result.get("load", 0) for result in results)
    text = f"{run_acceptance.table(results)}\n\n{len(results)} runs, load {loads[0]:.0f} to {loads[-1]:.0f}. " \
           f"{machine()}.\n"
    print(text)
    if arguments.write:
        write_between_marks(arguments.write, text, run_acceptance.MARK)
    return 0 if run_acceptance.is_as_it_must_be(results) else 1


def read_lines(paths):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file]
    return lines


def read_details(paths):
    names = list(BY_NAME)
    return sorted(read_lines(paths), key=lambda result: (names.index(result["fault"]), result["launcher"]))


def run_all(arguments):
    runs = [("healthy", "mpirun", 2 * len(os.sched_getaffinity(0)))] * arguments.soak
    names = arguments.only.split(",") if arguments.only else [fault.name for fault in FAULTS]
    for name in names:
        for launcher in arguments.launchers.split(","):
            if launcher in (*BY_NAME[name].launchers, "hydra") and name in ONLY.get(launcher, BY_NAME):
                runs += [(name, launcher, 0)] * arguments.repeat
    results = []
    done = read_lines([arguments.details]) if arguments.resume and os.path.exists(arguments.details or "") else []
    for name, launcher, busy in runs:
        same = [one for one in done if (one["fault"], one["launcher"], one.get("busy", busy)) == (name, launcher, busy)]
        if same:  # a row that was interrupted left no line
            done.remove(same[0])
            results.append(same[0])
            continue
        result = run(arguments.build, name, launcher, busy)
        if "skipped" in result:
            print(f"{name} under {launcher}: {result['skipped']}", file=sys.stderr)
            continue
        results.append(result)
        print(" | ".join(row([result])), file=sys.stderr, flush=True)
        if arguments.details:
            with open(arguments.details, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
    return results


if __name__ == "__main__":
    main()
