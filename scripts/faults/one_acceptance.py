"""`busbar accept` over one planted fault, inside a sandbox of its own: `one_acceptance.py BUILD FAULT HOSTS` prints
what came of it as one line of JSON. Started by run_acceptance.py."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time

from acceptance_list import BY_NAME, PLAN, RATES
from cluster import RUN, VCLUSTER, Cluster, vcluster

FOLDER = f"{RUN}/job"
PROGRAM = "busbar"
OUTCOMES = {0: "PASS", 7: "FAIL", 8: "INCONCLUSIVE"}


class AcceptCluster(Cluster):
    """Two ranks a host; with 16 hosts, one."""

    def __init__(self, nhosts):
        super().__init__(nhosts, "mpirun", RATES[nhosts], PROGRAM)
        self.slots = 1 if nhosts >= 16 else 2
        self.nranks = self.slots * nhosts

    def find_rank(self, rank):
        """Its process; None where there is none now."""
        for pid in self.ranks(f"node{rank // self.slots}"):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if re.search(rb"(^|\0)OMPI_COMM_WORLD_RANK=%d\0" % rank, file.read()):
                        return pid
            except OSError:
                pass  # it has just ended
        return None


def command_line(cluster, fault, build, plan):
    busbar = os.path.join(os.path.abspath(build), "busbar" + os.environ.get("BUSBAR_NAME_SUFFIX", ""))
    accept = [busbar, "accept", plan, "--backend", "mpi", "-J", "accept.json", *fault.options]
    wrap = []
    if fault.env:
        script = f"{FOLDER}/ranks.sh"
        with open(script, "w", encoding="utf-8") as file:
            file.write("\n".join([f"export VC_SANDBOX={os.environ['VC_SANDBOX']}", *fault.env, 'exec "$@"']) + "\n")
        wrap = ["sh", script]
    if fault.launch:
        hostfile = f"{FOLDER}/hosts"
        with open(hostfile, "w", encoding="utf-8") as file:
            file.write(vcluster("hostfile", cluster.slots))
        launch = [VCLUSTER, "mpirun", "-np", "{ranks}", "--hostfile", hostfile, *wrap, "{cmd}"]
        return [*accept, "--ranks", str(cluster.nranks), "--launch", " ".join(map(shlex.quote, launch))]
    return [VCLUSTER, "mpirun", "-np", str(cluster.nranks), *wrap, *accept]


def named(document):
    """The hosts and ranks that the result blames."""
    hosts, ranks = set(), set()
    of_rank = {rank: host["name"] for host in document["hosts"] for rank in host["ranks"]}
    for criterion in document["criteria"]:
        if criterion["outcome"] == "FAIL":
            hosts.update(criterion["hosts"])
    for cell in document["cells"]:
        ranks.update(cell["wrong_ranks"])
    for failure in document["failures"]:
        hosts.update(failure["hosts"])
        ranks.update(failure["ranks"])
    located = document.get("located")
    if located:
        for culprit in located["finding"]["culprits"]:
            if culprit["outcome"] == "FAIL":
                hosts.update(located["units"][unit] for unit in culprit["units"])
        ranks.update(slow["rank"] for slow in located["slow_ranks"] if slow["outcome"] == "FAIL")
    if located and located["unit"] == "rank":  # units are ranks, not hosts
        hosts.intersection_update(of_rank.values())
    hosts.update(of_rank[rank] for rank in ranks if rank in of_rank)
    return sorted(hosts), sorted(ranks)


def judge(fault, result):
    wrong = []
    if result["outcome"] not in fault.outcomes:
        wrong.append(f"{result['outcome']} instead of {' or '.join(fault.outcomes)}")
    elif fault.blamed and not set(fault.blamed) & set(result["hosts"]):
        wrong.append(f"blames {', '.join(result['hosts']) or 'nobody'} instead of {', '.join(fault.blamed)}")
    elif fault.rank >= 0 and fault.rank not in result["ranks"]:
        wrong.append(f"rank {fault.rank} is not named")
    result["false_blame"] = sorted(set(result["hosts"]) - set(fault.blamed))
    if result["false_blame"]:
        wrong.append("blames " + ", ".join(result["false_blame"]))
    if result["left"]:
        wrong.append("left: " + ", ".join(result["left"]))
    return wrong


def disturb(fault, cluster, over):
    while not over.is_set():
        fault.during(cluster)


def run(fault, nhosts, build, plan):
    result = {"fault": fault.name, "hosts_total": nhosts, "hosts": [], "ranks": []}
    os.environ.update(fault.cluster_env)
    cluster = AcceptCluster(nhosts)
    os.environ["VC_SLOTS"] = str(cluster.slots)
    result["nranks"] = cluster.nranks
    os.makedirs(FOLDER)
    if fault.before:
        fault.before(cluster)
    command = command_line(cluster, fault, build, plan)
    result["command"] = shlex.join(command)
    over = threading.Event()
    thread = threading.Thread(target=disturb, args=(fault, cluster, over), daemon=True)
    begun = time.monotonic()
    try:
        if fault.during:
            thread.start()
        done = subprocess.run(["timeout", "-k", "5", str(fault.wait_s), *command], cwd=FOLDER,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", check=False)
    finally:
        over.set()
    result["seconds"] = round(time.monotonic() - begun, 1)
    result["code"] = done.returncode
    result["outcome"] = "TIMEOUT" if done.returncode in (124, 137) else \
        OUTCOMES.get(done.returncode, f"exit code {done.returncode}")
    try:
        with open(f"{FOLDER}/accept.json", encoding="utf-8") as file:
            document = json.load(file)
        if document["outcome"] == "WARN" and done.returncode == 0:
            result["outcome"] = "WARN"
        result["hosts"], result["ranks"] = named(document)
        result["criteria"] = [c for c in document["criteria"] if c["outcome"] not in ("PASS", "SKIP")]
        result["located"] = (document.get("located") or {}).get("finding")
        result["failures"] = document["failures"]
    except (OSError, ValueError, KeyError) as e:
        result["no_json"] = f"{type(e).__name__}: {e}"
    if fault.during:
        thread.join(10)
    result["left"] = [] if fault.launch or nhosts > 8 else cluster.left()
    result["wrong"] = judge(fault, result)
    result["output"] = done.stdout[-6000:].splitlines()
    result["errors"] = done.stderr[-4000:].splitlines()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("fault", choices=BY_NAME)
    parser.add_argument("hosts", type=int, choices=RATES)
    parser.add_argument("--plan", default=PLAN)
    arguments = parser.parse_args()
    print(json.dumps(run(BY_NAME[arguments.fault], arguments.hosts, arguments.build, arguments.plan)))
    sys.stdout.flush()
    vcluster("hosts", check=False)


if __name__ == "__main__":
    main()
