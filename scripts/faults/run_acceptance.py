"""`busbar accept` over every fault that it must find, on virtual hosts (`make faults ARGS=--acceptance`): each run has
a sandbox of its own (scripts/vcluster). Used by run_faults.py."""

import json
import os
import statistics
import subprocess
import sys

from acceptance_list import BY_NAME, FAULTS, PLAN
from cluster import VCLUSTER

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 300
MARK = "<!-- acceptance, by scripts/faults/run_faults.py -->"
HEALTHY_RUNS = {4: 8, 8: 6, 16: 6}
HEADER = ["fault", "hosts, ranks", "launched", "runs", "right", "blames another host", "verdicts", "named",
          "median time [s]"]


def run(build, fault, nhosts, plan=PLAN):
    """What one_acceptance.py says, or why it said nothing."""
    command = [VCLUSTER, "sandbox", sys.executable, os.path.join(HERE, "one_acceptance.py"), os.path.abspath(build),
               fault, str(nhosts), "--plan", os.path.abspath(plan)]
    done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S + 30)] + command,
                          env=dict(os.environ, VC_LIMIT=str(LIMIT_S)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if "SKIPPED" in done.stderr:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        last = done.stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
        return {"fault": fault, "hosts_total": nhosts, "nranks": 0, "outcome": "no result", "hosts": [], "ranks": [],
                "false_blame": [], "seconds": 0.0, "wrong": [f"no result: {last[0]} (exit code {done.returncode})"],
                "errors": done.stderr[-4000:].splitlines()}


def plan_of_runs(names, sizes, repeat, healthy):
    runs = []
    for name in names:
        for nhosts in set(BY_NAME[name].hosts) & sizes:
            runs += [(name, nhosts)] * (healthy.get(nhosts, 1) if name == "healthy" else repeat)
    return runs


def names_of(result):
    return ", ".join([f"rank {rank}" for rank in result["ranks"]] + result["hosts"]) or "nobody"


def counted(words):
    order = sorted(set(words), key=lambda word: -words.count(word))
    return ", ".join(f"{word} ({words.count(word)})" if len(order) > 1 else word for word in order)


def row(results):
    first = results[0]
    fault = BY_NAME[first["fault"]]
    right = sum(not result["wrong"] for result in results)
    return [fault.what, f"{first['hosts_total']}, {max(r['nranks'] for r in results)}",
            "each stage" if fault.launch else "once", str(len(results)), f"{right} of {len(results)}",
            str(sum(bool(result["false_blame"]) for result in results)), counted([r["outcome"] for r in results]),
            counted([names_of(r) for r in results]), f"{statistics.median(r['seconds'] for r in results):.0f}"]


def table(results):
    groups = {}
    names = list(BY_NAME)
    for result in sorted(results, key=lambda r: (names.index(r["fault"]), r["hosts_total"])):
        groups.setdefault((result["fault"], result["hosts_total"]), []).append(result)
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    return "\n".join(lines + ["| " + " | ".join(row(group)) + " |" for group in groups.values()])


def healthy_rule(results):
    """Of 20 healthy runs none may fail and at most one be inconclusive."""
    outcomes = [result["outcome"] for result in results if result["fault"] == "healthy"]
    unsure = outcomes.count("INCONCLUSIVE")
    bad = [outcome for outcome in outcomes if outcome not in ("PASS", "WARN", "INCONCLUSIVE")]
    return not bad and unsure * 20 <= max(20, len(outcomes))


def is_as_it_must_be(results):
    return healthy_rule(results) and not any(result["wrong"] for result in results if result["fault"] != "healthy")


def run_all(arguments):
    names = arguments.only.split(",") if arguments.only else [fault.name for fault in FAULTS]
    healthy = HEALTHY_RUNS if not arguments.only else {n: arguments.repeat for n in HEALTHY_RUNS}
    results = []
    sizes = {int(size) for size in arguments.hosts.split(",")}
    for name, nhosts in plan_of_runs(names, sizes, arguments.repeat, healthy):
        result = run(arguments.build, name, nhosts, arguments.plan)
        if "skipped" in result:
            print(f"{name}: {result['skipped']}", file=sys.stderr)
            continue
        result["load"] = round(os.getloadavg()[0], 1)
        results.append(result)
        print(f"{name} | {nhosts} hosts | {result['outcome']} | {names_of(result)} | {result['seconds']} s | "
              f"load {result['load']} | {'; '.join(result['wrong']) or 'right'}", file=sys.stderr, flush=True)
        if arguments.details:
            with open(arguments.details, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
    return results
