"""How a job's lines reach a reader: a file per rank or host, or all in one, decorated by a launcher, cut, broken.

Nothing is held but one line per rank.
"""

import os
import random

from rank_log import RankLog

LAYOUTS = ["per_rank", "per_host", "merged", "broken", "cut"]
DECORATIONS = {
    "none": None,
    "mpirun": lambda rank, s: f"[1,{rank.rank}]<stdout>:",
    "srun": lambda rank, s: f"{rank.rank}: ",
    "torchrun": lambda rank, s: f"[default{rank.dev}]:",
    "ray": lambda rank, s: f"(RayTrainWorker pid={rank.pid}, ip={rank.ip}) ",
    "kubernetes": lambda rank, s: f"2026-11-21T{int(s) // 3600:02d}:{int(s) // 60 % 60:02d}:{int(s) % 60:02d}."
                                  f"{int(s % 1 * 1e9):09d}Z stdout F ",
    "bracket": lambda rank, s: f"[{rank.rank}] ",
    "host": lambda rank, s: f"{rank.ip}: ",
}


class Writer:
    """One of the files. A broken line: its beginning got in front of another rank's line, its end thereafter."""

    def __init__(self, path, broken=0.0, seed=0, torn=False):
        self.file = open(path, "w", encoding="utf-8", buffering=1 << 20)  # pylint: disable=consider-using-with
        self.random = random.Random(seed)
        self.broken, self.torn, self.first = broken, torn, torn
        self.held = None  # a line to break, if the next one is another rank's: (rank, beginning, end)

    def line(self, rank, text):
        if self.first and text:
            # The beginning of a log that was rotated away.
            self.first, text = False, text[self.random.randrange(len(text)):]
        if self.held:
            whose, head, tail = self.held
            self.held = None
            if whose is not rank and text:
                self.file.write(f"{head}{text}\n{tail}\n")
                return
            self.file.write(f"{head}{tail}\n")
        if self.broken and "NCCL INFO" in text and self.random.random() < self.broken:
            at = text.index("NCCL INFO ") + len("NCCL INFO ")
            self.held = (rank, text[:at], text[at:])
        else:
            self.file.write(text + "\n")

    def close(self):
        if self.held:
            self.file.write(self.held[1] + self.held[2] + "\n")
        if self.torn:
            text = "node0:20000:20000 [0] NCCL INFO Connected to proxy localRank 0 -> connection 0xfd9a68000d20"
            self.file.write(text[:self.random.randrange(1, len(text))])
        self.file.close()


def _merged(streams, rng):
    """The lines of several ranks, each rank's in its order, one rank's in a row for a while as buffered pipes give."""
    alive = list(streams)
    while alive:
        at = rng.randrange(len(alive))
        for _ in range(rng.randrange(1, 8)):
            item = next(alive[at], None)
            if item is None:
                alive[at] = alive[-1]
                alive.pop()
                break
            yield item


def write(planted, folder, layout="per_rank", decoration="none", seed=1):
    """Writes the logs of a planted job into `folder`; returns the paths, in random order."""
    rng = random.Random(seed)
    decorate = DECORATIONS[decoration]
    os.makedirs(folder, exist_ok=True)
    groups: dict = {}
    for rank in planted.job.ranks:
        if not planted.given(rank):
            continue
        if layout in ("per_rank", "cut"):
            name = f"nccl.{rank.host}.{rank.pid}.log"  # threads of a process share its file
        elif layout == "per_host":
            name = f"{rank.host}.log"
        else:
            name = "job.log"
        groups.setdefault(name, []).append(rank)

    def stream(rank):
        for seconds, line in RankLog(planted.job, rank, planted.behave(rank)).lines():
            yield rank, (decorate(rank, seconds) + line) if decorate else line

    paths = []
    for index, (name, ranks) in enumerate(groups.items()):
        paths.append(os.path.join(folder, name))
        out = Writer(paths[-1], 0.02 if layout == "broken" else 0, seed + index, layout == "cut")
        for whose, line in (stream(ranks[0]) if len(ranks) == 1 else _merged([stream(r) for r in ranks], rng)):
            out.line(whose, line)
        out.close()
    for name, lines in planted.other_files.items():
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    rng.shuffle(paths)
    return paths
