#!/usr/bin/env python3
"""How often does `busbar accept` fail a healthy cluster, really? Launches of a shipped plan on virtual hosts of one
machine (scripts/vcluster), quiet and beside processes that take a share of every core, in random order.

    scripts/experiments/healthy.py [build] [--launches 20] [--hosts 4] [--plan configs/acceptance-quick.yaml]
                                   [--share 0.3] [--rows healthy.jsonl]

Wanted: no FAIL in either, PASS or WARN in at least 15 of 20 quiet ones. Exact intervals beside. Rows are kept in
--rows, one launch to a line; an experiment that is started again goes on with what is missing. A quiet launch beside
other work is disturbed by the rule of experiment.py, fixed beforehand, and made again; others have their load."""

import collections
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "faults"))
from experiment import (BURNER, Canaries, OtherWork, arguments, is_disturbed, library_version,  # noqa: E402
                        machine, measure_rows, percent_of, read_rows, table)  # pylint: disable=wrong-import-position
from run_acceptance import run  # noqa: E402  # pylint: disable=wrong-import-position

KINDS = ("quiet", "loaded")


def launch(args, kind):
    burners = [subprocess.Popen([sys.executable, "-c", BURNER, str(args.share)])
               for _ in os.sched_getaffinity(0)] if kind == "loaded" else []
    canaries, work = [Canaries.measure()], OtherWork()
    try:
        result = run(args.build, "healthy", args.hosts, args.plan)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    if "skipped" in result:
        sys.exit(result["skipped"])
    # The burners are children too, and waited for by now.
    other = work.since()
    criteria = [{name: c.get(name) for name in ("criterion", "cell", "stage", "outcome", "reason", "hosts")}
                for c in result.get("criteria", [])]
    return {"what": kind, "at": time.strftime("%Y-%m-%d %H:%M:%S"), "other_work": other,
            "canaries": canaries + [Canaries.measure()], "outcome": result["outcome"], "seconds": result["seconds"],
            "hosts": result["hosts"], "ranks": result["ranks"], "criteria": criteria, "wrong": result["wrong"]}


def print_kind(kind, rows):
    outcomes = collections.Counter(row["outcome"] for row in rows)
    good = outcomes["PASS"] + outcomes["WARN"]
    return [kind, len(rows), percent_of(outcomes["FAIL"], len(rows)), percent_of(good, len(rows)),
            ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common()),
            sum(bool(row["hosts"] or row["ranks"]) for row in rows)]


def main():
    parser = arguments(__doc__)
    parser.add_argument("--launches", type=int, default=20, help="undisturbed ones of each kind (20)")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--plan", default=os.path.join(HERE, "..", "..", "configs", "acceptance-quick.yaml"))
    parser.add_argument("--share", type=float, default=0.3, help="of every core that the foreign load takes (0.3)")
    parser.add_argument("--rows", default="healthy.jsonl")
    args = parser.parse_args()
    print(machine())
    settings = {"hosts": args.hosts, "plan": os.path.basename(args.plan), "share": args.share,
                "library": library_version(args.mpirun)}
    rows = read_rows(args.rows, settings)

    def disturbed(row):
        return row["what"] == "quiet" and is_disturbed([row["other_work"]], row["canaries"])

    measure_rows(args, rows, KINDS, lambda row: row["what"], launch, disturbed)
    print(table(["", "launches", "FAIL [95 %]", "PASS or WARN [95 %]", "verdicts", "blaming somebody"],
                [print_kind(kind, [row for row in rows if row["what"] == kind and not disturbed(row)])
                 for kind in KINDS]))
    for row in rows:
        for c in row["criteria"]:
            if c["outcome"] in ("FAIL", "INCONCLUSIVE"):
                print(f"{row['what']}: {c['outcome']} {c['criterion']} {c['cell']}: {c['reason']}")


if __name__ == "__main__":
    main()
