"""What the experiments share: jobs, the machine's name, tables, intervals."""

import argparse
import math
import os
import random
import subprocess
import sys

# As `make` sets them for its own runs: containers run as root, and four ranks share two cores.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
LIMIT_S = 600


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="folder of the executables (build)")
    parser.add_argument("--mpirun", default=os.environ.get("BUSBAR_MPIRUN", "mpirun"))
    return parser


def executable(build, name):
    return os.path.join(build, name + os.environ.get("BUSBAR_NAME_SUFFIX", ""))


def run_job(mpirun, nranks, command, good=(0,)):
    """stdout of `command` on `nranks` ranks; the experiment ends where the job fails."""
    full = ["timeout", "-k", "5", str(LIMIT_S), mpirun, "-n", str(nranks)] + command
    done = subprocess.run(full, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in good:
        sys.exit(f"exit code {done.returncode} of {' '.join(full)}\n{done.stdout}{done.stderr}")
    return done.stdout


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = os.getloadavg()[0]
    return f"machine: {model}, {len(os.sched_getaffinity(0))} cores; load of the last minute {load:.2f} " \
           "(other work spoils the figures)"


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def rank_interval(n, confidence=0.95):
    """The ranks (from 0) between which the median lies, exactly, whatever the values' distribution; n from 6 on."""
    low, below = 0, 0
    while (below := below + math.comb(n, low)) <= (1 - confidence) / 2 * 2 ** n:
        low += 1
    return low - 1, n - low


def paired_ratio(values, others):
    """Median of the ratios within rounds, and the ends of its exact 95 % interval."""
    ratios = sorted(value / other for value, other in zip(values, others))
    low, high = rank_interval(len(ratios))
    return median(ratios), ratios[low], ratios[high]


def share_interval(hits, n, confidence=0.95):
    """Clopper and Pearson's exact interval of a share, by bisection of the binomial distribution."""
    def at_most(k, p):
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))

    def root(function):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if function(middle) else (low, middle)
        return low

    tail = (1 - confidence) / 2
    lower = 0.0 if hits == 0 else root(lambda p: 1 - at_most(hits - 1, p) < tail)
    upper = 1.0 if hits == n else root(lambda p: at_most(hits, p) > tail)
    return lower, upper


def percent_of(hits, n):
    if n == 0:
        return "none"
    lower, upper = share_interval(hits, n)
    return f"{hits} of {n} = {100 * hits / n:.1f} % [{100 * lower:.1f}, {100 * upper:.1f}]"


def bootstrap(count, statistic, draws=2000, seed=1):
    """95 % percentile interval of `statistic(list of indices below count)`; draws of fewer than three different
    indices, of which no spread can be told, are drawn anew."""
    generator = random.Random(seed)
    values = []
    while len(values) < draws:
        indices = [generator.randrange(count) for _ in range(count)]
        if len(set(indices)) >= 3:
            values.append(statistic(indices))
    values.sort()
    return values[int(0.025 * draws)], values[int(0.975 * draws) - 1]


def size_text(nbytes):
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << power and nbytes % (1 << power) == 0:
            return f"{nbytes >> power} {unit}"
    return f"{nbytes} B"


def table(titles, rows):
    """Markdown, as docs/performance.md has it."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])
