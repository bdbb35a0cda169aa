"""Catches: a wrong verdict on a real log, a rank or host blamed that is not the culprit, findings no longer made.

The samples are excerpts of logs from public threads with a header of comments, "# verdict: OK|UNKNOWN", "# culprit: rank
3" and "# findings: a, b" among them. They are not part of the project: they are looked for in $BUSBAR_NCCL_LOGS and
$BUSBAR_NCCL_LOGS_WILD, else in ../shared/nccl_logs and ../shared/nccl_logs_wild beside the checkout, and without them
the test skips. The header is stripped into a copy with another name first, so that the answer is not in the input.
golden_findings.py says what counts as a finding that was made.

Folders with all logs of a run of the real library, and a file "truth" that says the verdict, some also the ranks to blame,
are in test/logs/real (made by test/real_nccl/real_logs_test.py, gpu_* by PyTorch on a GPU), and in $BUSBAR_NCCL_LOGS_REAL, else ../shared/nccl_logs_real.
"""

import dataclasses
import glob
import json
import os
import re
import sys

import golden_findings
import suite
from diagnosis import diagnose, named_ranks

REAL = "nccl_logs_real"

# What was reached (see the body of the commit that set it): fewer is a step back.
LEAST_RATE = 0.9

# Of each sample of the second folder, words of the line that decides; the answer has to quote it.
DECIDING = {
    "101": "uncorrectable ECC error encountered", "102": "0000:90:1c): 64", "104": "failed to extend /dev/shm/nccl-UbzKZ9",
    "106": "ibv_reg_mr_iova2 failed with error Cannot allocate memory", "107": "Cuda failure 'out of memory'",
    "109": "SequenceNumber=13, OpType=BARRIER", "111": "SequenceNumber=18",
    "117": "3748990", "119": "SeqNum=1, OpType=BROADCAST", "121": "Duplicate GPU detected : rank 0 and rank 1",
    "122": "SeqNum=1, OpType=ALLREDUCE", "126": "ncclNetPluginShim_test()", "127": "SeqNum=1, OpType=ALLREDUCE",
    "129": "Connect to 172.24.11.2<44801> failed", "132": "accept: Too many open files",
    "134": "rank 1 version 22705 rank 0 version 22703", "136": "uncorrectable ECC error encountered",
    "137": "Got completion with error 12", "139": "ibv_modify_qp failed with error No such device",
    "71": "SeqNum=16349, OpType=ALLGATHER", "72": "in _binary_roc_compute", "74": "SeqNum=1, OpType=ALLGATHER",
    "76": "SeqNum=49387, OpType=_ALLGATHER_BASE", "77": "SeqNum=59958, OpType=ALLREDUCE",
    "79": "Got completion from peer 10.144.10.2<47534> with error 5", "81": "Bootstrap : no socket interface found",
    "82": "Connect to 192.168.184.157<34630> failed : No route to host", "84": "Connection refused, retrying (3",
    "86": "offset 0 vs 1305411586", "87": "Connection refused, retrying (1/34)",
    "89": "Unable to register memory (type = 2)", "91": "Driver bnxt_re does not support the kernel ABI",
    "92": "Connect to 128::1d<40861> returned 113(No route to host)", "94": "with error 12, opcode 0, len 0, vendor err 129",
    "96": "with status=12 opcode=0", "97": "IBV_WC_RETRY_EXC_ERR(12)", "99": "0000:91:00): 79",
}


# What tools put before and around every line; of each sample one is tried, which must not change its verdict.
TIME = "2026-11-20T10:11:12.131415Z"
DRESSES = ["trainer-1  | {}", "[pod/train-0/pytorch] {}", "train-0 pytorch {}", "Nov 20 10:11:12 n07 docker[331]: {}",
           "[2026-11-20 10:11:12] {}", "- {}", f"1779264164792\t{TIME}\t{{}}", TIME + " {}", "out/slurm-44.out:117:{}",
           "117:{}", "n07: {}", "[trainer3]: {}", TIME + " 01O {}", "Nov 20  10:11:12.345  {}", TIME + " n07 train[3]: {}",
           "[1,mpirank:3,algo-2]<stderr>:{}", "2026-11-20 10:11:12,34 - run - ERROR - {}", TIME[:19] + " | INFO | run:f:8 - {}",
           lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": TIME}),
           lambda line: f"{TIME} kube.train {json.dumps({'log': line})}"]


def dressed(lines, number):
    dress = DRESSES[number % len(DRESSES)]
    return [dress.format(line) if isinstance(dress, str) else dress(line) for line in lines]


@dataclasses.dataclass
class Sample:
    name: str
    head: dict
    body: list

    @property
    def verdicts(self):
        return self.head["verdict"].split("|")


def folders():
    beside = os.path.join(os.environ.get("BUSBAR_SOURCE", "."), "..", "shared")
    for variable, name in (("BUSBAR_NCCL_LOGS", "nccl_logs"), ("BUSBAR_NCCL_LOGS_WILD", "nccl_logs_wild")):
        yield os.environ.get(variable) or os.path.join(beside, name)


def samples():
    for folder in folders():
        for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            # A table's own '#' lines come later; the header ends with its first other line.
            end = next(i for i, line in enumerate(lines) if not re.match(r"#( \w|  )", line))
            head = {line[2:].split(":", 1)[0]: line.split(":", 1)[1].strip() for line in lines[:end] if ":" in line}
            yield Sample(os.path.basename(path), head, lines[end:])


def runs():
    """Folders of whole runs: name, allowed verdicts, the ranks to blame (None: not said), paths of the logs."""
    beside = os.path.join(os.environ.get("BUSBAR_SOURCE", "."), "..", "shared", REAL)
    own = os.path.join(suite.ROOT, "test", "logs", "real")
    found = [glob.glob(os.path.join(folder, "*", "truth")) for folder in
             (own, os.environ.get("BUSBAR_NCCL_LOGS_REAL") or beside)]
    for truth in sorted(sum(found, [])):
        with open(truth, encoding="utf-8") as file:
            said = file.read()
        verdicts = re.search(r"^verdict: (\S+)", said, re.MULTILINE)[1].split("|")
        ranks = re.search(r"^ranks: (.*)", said, re.MULTILINE)
        folder = os.path.dirname(truth)
        logs = sorted(path for path in glob.glob(os.path.join(folder, "*")) if path != truth)
        yield os.path.basename(folder), verdicts, ranks and [int(rank) for rank in re.findall(r"\d+", ranks[1])], logs


def wrong_blame(sample, answer):
    """What is wrong with whom the answer blames, by the header's line."""
    culprit = sample.head.get("culprit")
    if culprit is None:
        return []
    said = []
    others = [f"rank {rank}" for rank in answer.get("ranks", []) if rank not in named_ranks(culprit)]
    others += [host for host in answer.get("hosts", []) if host not in culprit]
    if others:
        said.append(f"blames {others}, the culprit being {culprit!r}")
    # Who is to be named: the first rank, and each host, peer and bus address.
    first = re.search(r"\branks? \d+(?: and \d+)?", culprit.split(" versus ")[0])
    ranks = [] if culprit.startswith("none") else sorted(named_ranks(first[0] if first else ""))
    said += [f"does not blame rank {rank}" for rank in ranks if rank not in answer.get("ranks", [])]
    names = re.findall(r"(?:host|peers?|hca|GPU|PCI|on|<->|and) ([\w.:-]*[\d][\w.:-]*[\w])", culprit)
    return said + [f"does not name {name}" for name in names
                   if not culprit.startswith("none") and not name.isdigit() and not answer.says(name)]


class GoldenLogs(suite.Case):
    def test_verdicts_culprits_and_findings_of_real_logs(self):
        if not any(samples()):
            self.skipTest("no samples")
        wrong, misses, made, all_findings = [], [], 0, 0
        for number, one in enumerate(samples()):
            answer = diagnose([self.write(f"sample{number}.log", "\n".join(one.body))])
            if answer.verdict not in one.verdicts:
                wrong.append(f"{one.name}: {answer.verdict or answer}, not {one.head['verdict']}; "
                             f"said: {answer.claims()[:400]}")
                continue
            other = diagnose([self.write(f"dressed{number}.log", "\n".join(dressed(one.body, number)))])
            if other.verdict not in one.verdicts:
                wrong.append(f"{one.name}: {other.verdict} with {dressed(['text'], number)}; said: {other.claims()[:400]}")
            wrong += [f"{one.name}: {what}; said: {answer.claims()[:400]}" for what in wrong_blame(one, answer)]
            deciding = DECIDING.get(one.name.split("_")[0])
            if deciding and not answer.says(deciding):
                wrong.append(f"{one.name}: does not quote {deciding!r}; said: {answer.claims()[:900]}")
            if not answer.get("next") and answer.verdict != "OK":
                wrong.append(f"{one.name}: {answer.verdict} without a word on what to do")
            if not answer.get("evidence"):
                wrong.append(f"{one.name}: {answer.verdict} without evidence")
            if one.head.get("culprit"):
                continue  # findings of the second folder name what decides, not what a table must hold
            sample = golden_findings.Sample(one.body, answer)
            for finding in one.head["findings"].split(", "):
                all_findings += 1
                was_made = golden_findings.found(finding, sample)
                made += bool(was_made)
                if not was_made:
                    misses.append(f"{one.name}: {finding}" + (" (no rule)" if was_made is None else ""))
        print("\n".join(["findings not made:"] + misses), file=sys.stderr)
        print(f"{made} of {all_findings} findings ({made / all_findings:.1%})", file=sys.stderr)
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreaterEqual(made / all_findings, LEAST_RATE)

    def test_verdicts_of_whole_runs_of_the_real_library(self):
        for name, verdicts, ranks, logs in runs():
            with self.subTest(name):
                answer = diagnose(logs)
                self.assertIn(answer.verdict, verdicts, answer.claims()[:400])
                self.assertTrue(answer.get("evidence"), str(answer))
                if ranks is not None:
                    self.assertEqual(answer.get("ranks"), ranks)


if __name__ == "__main__":
    if not any(samples()) and not any(runs()):
        print(f"SKIPPED: no samples of real logs in {' or '.join(folders())} (set BUSBAR_NCCL_LOGS)", file=sys.stderr)
        sys.exit(77)
    suite.main()
