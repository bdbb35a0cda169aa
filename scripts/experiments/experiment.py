"""What the experiments share: jobs, the machine's name, tables, intervals."""

import argparse
import hashlib
import json
import math
import os
import random
import resource
import subprocess
import sys
import time

# As `make` sets them for its own runs: containers run as root, and four ranks share two cores.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
LIMIT_S = 600

# Takes a share of one core, by its own CPU clock: what it lost to others it catches up on.
BURNER = """
import sys, time
share, start = float(sys.argv[1]), time.monotonic()
while True:
    while time.process_time() < share * (time.monotonic() - start):
        pass
    time.sleep(0.003)
"""


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="folder of the executables (build)")
    parser.add_argument("--mpirun", default=os.environ.get("BUSBAR_MPIRUN", "mpirun"))
    return parser


def executable(build, name):
    return os.path.join(build, name + os.environ.get("BUSBAR_NAME_SUFFIX", ""))


def run_job(mpirun, nranks, command, good=(0,), options=()):
    """stdout of `command` on `nranks` ranks, 0: without a launcher, which else has these `options`; the experiment ends
    where the job fails."""
    launcher = [mpirun, *options, "-n", str(nranks)] if nranks > 0 else []
    full = ["timeout", "-k", "5", str(LIMIT_S), *launcher, *command]
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


def library_version(mpirun):
    """What the launcher calls itself: "mpirun (Open MPI) 4.1.4"."""
    done = subprocess.run([mpirun, "--version"], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.partition("\n")[0].strip()


class Canaries:
    """Two pieces of work that never change, so that only the machine can change their times."""

    FROM, TO = bytes(8 << 20), bytearray(8 << 20)

    @classmethod
    def measure(cls):
        """The fastest of three [us]."""
        def fastest(work):
            times = []
            for _ in range(3):
                begin = time.perf_counter()
                work()
                times.append(1e6 * (time.perf_counter() - begin))
            return min(times)

        def copy():
            cls.TO[:] = cls.FROM

        return {"spin_us": fastest(lambda: hashlib.sha256(memoryview(cls.FROM)[:1 << 20]).digest()),
                "copy_us": fastest(copy)}


class OtherWork:
    """What the machine does from now on beside this process and the children for which it has waited."""

    def __init__(self):
        self.before = self._read()

    @staticmethod
    def _read():
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        with open("/proc/stat", encoding="utf-8") as file:
            # user nice system idle iowait irq softirq steal: proc(5)
            ticks = [int(word) for word in file.readline().split()[1:9]]
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return (time.monotonic(), tick_s * (sum(ticks[:3]) + sum(ticks[5:7])), tick_s * ticks[7],
                sum(usage.ru_utime + usage.ru_stime for usage in ours))

    def since(self):
        """Cores that others kept busy, and that the hypervisor took."""
        now, busy, steal, ours = self._read()
        wall_s = now - self.before[0]
        return {"foreign": (busy - self.before[1] - (ours - self.before[3])) / wall_s,
                "steal": (steal - self.before[2]) / wall_s}


# A row is disturbed where other processes, or the hypervisor, took more than so many cores during one of its launches,
# or where the slowest spin canary between them took so much longer than the fastest.
FOREIGN_CORES, STOLEN_CORES, SPIN_SPREAD = 0.10, 0.10, 1.25
DISTURBED_WORDS = f"beside more than {FOREIGN_CORES:g} foreign or {STOLEN_CORES:g} stolen cores, or with canaries " \
                  f"{SPIN_SPREAD:g} apart"


def is_disturbed(other_works, canaries):
    """`other_works`: what OtherWork.since() said of each launch of the row."""
    spins = [canary["spin_us"] for canary in canaries]
    return any(work["foreign"] > FOREIGN_CORES or work["steal"] > STOLEN_CORES for work in other_works) \
        or max(spins) > SPIN_SPREAD * min(spins)


def read_rows(path, settings):
    """The rows of an earlier sitting in `path`, which must have had the same settings."""
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"settings": settings}) + "\n")
        return []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    # A sitting that was cut short may have left half a line.
    rows = [json.loads(line) for line in lines[:-1] if line]
    if lines[-1]:
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
    if not rows or rows[0].get("settings") != settings:
        sys.exit(f"{path} is of other settings: {rows[0] if rows else 'none'}, now {settings}; name another file "
                 "(--rows)")
    return rows[1:]


def add_row(path, row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def observed_job(args, nranks, command, good=(0,)):
    """stdout of one launch, and what its row tells of the machine meanwhile."""
    canaries, work = [Canaries.measure()], OtherWork()
    text = run_job(args.mpirun, nranks, command, good)
    other = work.since()
    return text, {"at": time.strftime("%Y-%m-%d %H:%M:%S"), "other_work": other,
                  "canaries": canaries + [Canaries.measure()]}


def was_disturbed(row):
    return is_disturbed([row["other_work"]], row["canaries"])


def measure_rows(args, rows, kinds, kind_of, launch, disturbed=was_disturbed):
    """Launches each kind, in an order drawn by lot, until args.launches of its rows are undisturbed, or twice as many are
    made; each row is kept at once."""
    def missing():
        for kind in kinds:
            of = [row for row in rows if kind_of(row) == kind]
            if sum(not disturbed(row) for row in of) < args.launches and len(of) < 2 * args.launches:
                yield kind

    generator = random.Random(len(rows))
    while todo := list(missing()):
        for kind in generator.sample(todo, len(todo)):
            rows.append(launch(args, kind))
            add_row(args.rows, rows[-1])
            print(f"{len(rows)} launches, {sum(map(disturbed, rows))} disturbed", file=sys.stderr, flush=True)


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
        # By logarithms: thousands of launches are beyond a float's binomials.
        return sum(math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p)
                            + (n - i) * math.log1p(-p)) for i in range(k + 1))

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
    """Markdown, as docs/evidence/performance.md has it."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])
