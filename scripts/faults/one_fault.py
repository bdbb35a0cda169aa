"""One fault on one job, inside a sandbox of its own: `one_fault.py BUILD FAULT LAUNCHER` prints what came of it as
one line of JSON. Started by run_faults.py."""

import argparse
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from cluster import DAEMONS, RUN, VCLUSTER, Cluster, Job, until, vcluster
from fault_list import BY_NAME, fault_of

FOLDER = f"{RUN}/job"
REPORT = re.compile(r"busbar: (?:hang|slow|terminated): ([A-Z_]+):")
BLAMED = re.compile(r"busbar:     rank (\d+) on (\S+) \(pid")
FINDING = ("verdict", "sentence", "ranks", "hosts")
MOVING = 8 * 2**20  # bytes sent by a host whose ranks are past their initialisation


def hang_files(cluster):
    """The one that speaks for the job; hosts that are cut off write hang-JOBID.HOST.json to their $TMPDIR."""
    folders = [FOLDER] + [f"{cluster.root(host)}{RUN}/tmp" for host in cluster.hosts]
    return [path for folder in folders for path in glob.glob(f"{folder}/hang-*.json")
            if not re.search(r"\.node\d+\.json$", path)]


def spoken(job):
    """The last report as it was printed; a job may be slow before it hangs."""
    ours = [(when, line) for when, line in job.lines if line.startswith("busbar: ")]
    for i, (when, line) in reversed(list(enumerate(ours))):
        found = REPORT.match(line)
        if found:
            lines = [text for _, text in ours[i:]]
            blame = lines[lines.index("busbar:   to blame:") + 1:] if "busbar:   to blame:" in lines else []
            blame = itertools.takewhile(lambda text: text.startswith("busbar:     "), blame)
            named = [BLAMED.match(text) for text in blame]
            return {"when": when, "verdict": found[1], "lines": lines,
                    "ranks": sorted({int(name[1]) for name in named if name}),
                    "hosts": sorted({name[2] for name in named if name})}
    return None


def records_tell(cluster, busbar):
    """What `busbar diagnose --flight` makes of the records that stayed on all hosts."""
    gathered = f"{RUN}/flights"
    os.makedirs(gathered, exist_ok=True)
    for host in cluster.hosts:
        for path in cluster.records(host):
            shutil.copy2(path, gathered)
    if not os.listdir(gathered):
        return None
    told = diagnose([], busbar, gathered)
    # Whose processes are gone is seen on their own host alone.
    for host in cluster.hosts if told["verdict"] != "PROCESS_DEAD" else []:
        there = diagnose([VCLUSTER, "exec", host], busbar, "/dev/shm") if cluster.records(host) else {}
        if there.get("verdict") == "PROCESS_DEAD":
            return dict(there, on=host)
    return told


def diagnose(words, busbar, folder):
    done = subprocess.run([*words, busbar, "diagnose", "--json", "--flight", folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    try:
        found = json.loads(done.stdout)
        return dict(found.get("hangs", [{}])[0], **found)
    except json.JSONDecodeError:
        return {"verdict": f"(diagnose: exit code {done.returncode})", "text": done.stdout + done.stderr}


def read_late(pipe, seconds):
    """Some lines, then nothing for so long, then the rest."""
    with open(pipe, encoding="utf-8") as stream:
        for number, _ in enumerate(stream):
            if number == 100:
                time.sleep(seconds)


def start(cluster, fault, build, result):
    program = os.path.join(os.path.abspath(build), "all_reduce_perf" + os.environ.get("BUSBAR_NAME_SUFFIX", ""))
    before = cluster.sent()
    # The launcher's own limit is the last resort.
    if fault.stall_s:
        os.mkfifo(f"{FOLDER}/pipe")
        threading.Thread(target=read_late, args=(f"{FOLDER}/pipe", fault.stall_s), daemon=True).start()
    if fault.wrap:
        with open(f"{FOLDER}/wrapped", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nset -- {program} "$@"\n{fault.wrap}\n')
        os.chmod(file.name, 0o755)
        program = file.name
    job = Job(cluster, program, ["-T", str(fault.limit_s), *fault.options], FOLDER, fault.env)
    # With -N 0 the job never ends by itself; what starts within it starts when data move.
    moving = until(lambda: cluster.sent() - before > MOVING or job.ended(), 60)
    if (not moving or job.ended()) and fault.inject:
        job.wait(0)
        result["did_not_start"] = [line for _, line in job.lines][-30:]
        return None
    result["start_s"] = round(time.monotonic() - job.begun, 1)
    return job


def judge(fault, result):
    """What is not as it must be."""
    wrong = []
    verdict = result["verdict"]
    if fault.header and not any(fault.header in line for line in result["header"]):
        wrong.append(f"no {fault.header!r} in the header")
    if fault.says and not any(fault.says in line for line in result["launcher_says"]):
        wrong.append(f"the launcher does not say {fault.says!r}")
    for verdict_of_one in fault.unheard:
        said = [line for line in result["verdict_lines"] if f": {verdict_of_one}:" in line]
        wrong += [f"somebody says {line[:100]}" for line in said]
    if fault.message and not any(fault.message in line for line in result["errors"]):
        wrong.append(f"no error with {fault.message!r}")
    if fault.quiet():
        # Ranks that the launcher ends because others have left with the error that is wanted say that they were ended,
        # and blame nobody.
        ended = verdict == "UNKNOWN" and 0 not in fault.codes and not result["ranks"] and not result["hosts"]
        if verdict not in (None, "SLOW_NOT_HUNG") and not ended:
            wrong.append(f"a false alarm: {verdict}")
    elif verdict not in fault.verdicts:
        wrong.append(f"{verdict or 'no verdict'} instead of {' or '.join(fault.verdicts)}")
    else:
        if fault.nobody and (result["ranks"] or result["hosts"]):
            wrong.append(f"blames {result['ranks']} {result['hosts']}")
        if fault.at_most and not set(result["ranks"]) <= set(fault.at_most):
            wrong.append(f"ranks {result['ranks']} instead of {list(fault.at_most)} at most")
        if fault.ranks and sorted(result["ranks"]) != sorted(fault.ranks):
            wrong.append(f"ranks {result['ranks']} instead of {list(fault.ranks)}")
        if fault.blamed_hosts and sorted(result["hosts"]) != sorted(fault.blamed_hosts):
            wrong.append(f"hosts {result['hosts']} instead of {list(fault.blamed_hosts)}")
        if result["report_s"] is not None and result["report_s"] > fault.limit_s + 10:
            wrong.append(f"reported after {result['report_s']} s")
    if result["code"] is None:
        if not fault.launcher_waits:
            wrong.append("the launcher did not end")
    elif result["launcher"] in ("srun", "hydra"):  # they make codes of their own
        if (result["code"] == 0) != (0 in fault.codes):
            wrong.append(f"exit code {result['code']}")
    elif result["code"] not in fault.codes:
        wrong.append(f"exit code {result['code']}")
    if result["gone_s"] is None:
        wrong.append("ranks that did not end")
    elif 0 not in fault.codes and not fault.repair and result["gone_s"] > fault.limit_s + 15:
        wrong.append(f"the last rank ended after {result['gone_s']} s")
    if result["left"]:
        wrong.append("left: " + ", ".join(result["left"]))
    return wrong


def run(fault, launcher, build):
    busbar = os.path.join(os.path.abspath(build), "busbar" + os.environ.get("BUSBAR_NAME_SUFFIX", ""))
    result = {"fault": fault.name, "launcher": launcher, "retries": 0}
    cluster = Cluster(fault.hosts, launcher, fault.rate)
    os.makedirs(FOLDER)
    if fault.before:
        fault.before(cluster)
    job = start(cluster, fault, build, result)
    if job is None and launcher == "srun":  # MPI_Init crashes under srun now and then
        result["retries"] = 1
        job = start(cluster, fault, build, result)
    if job is None:
        sys.exit("\n".join([*result["did_not_start"], "the job did not start"]))
    injected = time.monotonic()
    if fault.inject:
        fault.inject(cluster)
    result["code"] = job.wait(fault.wait_s)
    result["end_s"] = round(time.monotonic() - injected, 1)
    if fault.repair:
        fault.repair(cluster)
    # A host that is cut off ends its ranks by itself.
    gone = until(lambda: not cluster.all_ranks(), fault.limit_s + 20)
    result["gone_s"] = round((job.ranks_gone or time.monotonic()) - injected, 1) if gone else None

    files = hang_files(cluster)
    said = spoken(job)
    result["report_s"] = round(said["when"] - injected, 1) if said else None
    result.update(verdict=None, ranks=[], hosts=[], by=None)
    if files:
        documents = []
        for path in files:
            with open(path, encoding="utf-8") as file:
                documents.append(json.load(file))
        # Inside MPI_Init each host speaks for itself: the one that names somebody knows.
        document = next((one for one in documents if one["ranks"] or one["hosts"]), documents[0])
        result.update({key: document[key] for key in FINDING}, by="report")
    elif said:
        result.update({key: said[key] for key in ("verdict", "ranks", "hosts")}, by="report")
    result["files"] = len(files)
    result["records"] = {host: len(cluster.records(host)) for host in cluster.hosts if cluster.records(host)}
    if result["records"]:
        flight = records_tell(cluster, busbar)
        result["flight"] = flight
        unsaid = result["verdict"] is None or (result["verdict"] == "UNKNOWN" and not fault.nobody)
        if unsaid and not fault.quiet() and flight:
            result.update({key: flight.get(key, []) for key in FINDING}, by="--flight")
    # Records stay where somebody else ended the job, for `busbar diagnose --flight`; all else goes.
    by_others = result["code"] not in (0, 4)
    result["left"] = [what for what in cluster.left() if not (
        what.startswith("busbar.") and (by_others or what.split(" on ")[1] in fault.keeps))]
    result["errors"] = [line for _, line in job.lines if line.startswith("busbar: error")]
    if fault.message and result["errors"]:
        result["by"] = "error"
    result["header"] = [line for _, line in job.out if line.startswith("# ")]
    result["launcher_says"] = [line for _, line in job.out if line.startswith("=  ")]
    result["parts"] = [line for _, line in job.lines if re.match(r"busbar: \w+, as \d+ of", line)]
    result["verdict_lines"] = [line for _, line in job.lines if re.match(r"busbar: (hang|slow|terminated)[:,]", line)]
    result["wrong"] = judge(fault, result)
    result["said"] = said["lines"] if said else []
    result["output"] = [line for _, line in job.lines][-60:]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("fault", choices=BY_NAME)
    parser.add_argument("launcher", choices=tuple(DAEMONS))
    parser.add_argument("--busy", type=int, default=0, help="loops that contend for the CPU meanwhile")
    arguments = parser.parse_args()
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(arguments.busy)]
    try:
        result = run(fault_of(arguments.fault, arguments.launcher), arguments.launcher, arguments.build)
    finally:
        for loop in loops:
            loop.kill()
    print(json.dumps(result))
    sys.stdout.flush()
    vcluster("hosts", check=False)


if __name__ == "__main__":
    main()
