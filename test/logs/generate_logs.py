"""Writes the NCCL logs of a made-up job with a verdict planted, and prints what a reader must find.

    python3 test/logs/generate_logs.py /tmp/logs --plant rank_lagging --nccl 2.28.9 --ranks 512
    python3 test/logs/generate_logs.py /tmp/logs --bulk 200M       # one file of that size, mostly calls
"""

import argparse
import os

import log_layouts
import verdict_matrix
from job_model import Behaviour, Job
from planted_verdicts import Planted


def bulk(folder, nbytes, nranks=16, version="2.28.9", layout="merged", seed=1):
    """A healthy job with so many calls that its log has about `nbytes`."""
    job = Job(version, nranks, seed, p2p=False)
    round_of_calls = job.calls
    rounds = max(1, nbytes // sum(call.comm.nranks * 190 for call in round_of_calls))

    class Repeated:  # as long as asked without being held
        def __iter__(self):
            for _ in range(rounds):
                yield from round_of_calls

    return log_layouts.write(Planted(job, "OK", lambda rank: Behaviour(calls=Repeated())), folder, layout, seed=seed)


def size(text):
    return int(float(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder")
    arguments.add_argument("--plant", choices=verdict_matrix.PLANTS, default="ok")
    arguments.add_argument("--nccl", default="2.28.9", help="any version; tried: " + " ".join(verdict_matrix.VERSIONS))
    arguments.add_argument("--ranks", type=int, default=16)
    arguments.add_argument("--layout", choices=log_layouts.LAYOUTS, default="per_rank")
    arguments.add_argument("--decoration", choices=log_layouts.DECORATIONS, default="none")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--bulk", type=size, help="instead: a healthy job's log of about this size (K, M, G)")
    given = arguments.parse_args()
    if given.bulk:
        for path in bulk(given.folder, given.bulk, given.ranks, given.nccl, given.layout, given.seed):
            print(f"{os.path.getsize(path)} bytes in {path}")
        return
    planted = verdict_matrix.make(given.plant, given.nccl, given.ranks, given.seed)
    paths = log_layouts.write(planted, given.folder, given.layout, given.decoration, given.seed)
    print(f"{len(paths)} files; verdict {planted.verdict}, exit code {planted.exit_code}; named: {planted.blame}")


if __name__ == "__main__":
    main()
