"""Catches: a verdict that is wrong, or blames the wrong rank, for one version of NCCL, size of job or kind of log file.

Jobs with a planted verdict (test/logs/) are written and given to `busbar diagnose`. All that was found wrong is told at
the end. --full (make soak, a quarter of an hour): every plant in every version and layout, and all at 4096 ranks.
"""

import itertools
import os
import shutil
import sys
import time

import suite
from diagnosis import diagnose

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "logs"))
# pylint: disable=wrong-import-position
import generate_logs  # noqa: E402
import log_layouts  # noqa: E402
import verdict_matrix  # noqa: E402

# What reading may need, whatever the length of the log.
MEMORY_LIMIT = 64 << 20
DECORATIONS = list(log_layouts.DECORATIONS)


def run(name, version, nranks, layout, decoration, seed, folder):
    """What is wrong with the answer, or nothing."""
    # Threads of one process share its file, and where lines are broken only pointers tell whose an end is.
    one_process, containers = seed % 3 == 0 and name != "init_not_joined", seed % 2 == 0 and layout != "broken"
    planted = verdict_matrix.make(name, version, nranks, seed, one_process_per_host=one_process, containers=containers,
                                  stamps=seed % 4 == 1, tuning=seed % 4 == 2,
                                  network="Socket" if seed % 5 == 0 else "IB")
    paths = log_layouts.write(planted, folder, layout, decoration, seed)
    answer = diagnose(paths if len(paths) < 500 else [folder])
    wrong = []
    # The one call that the laggard lacks may be what was torn off the end of its file.
    torn = layout == "cut" and name == "rank_lagging" and answer.verdict == "OK"
    if torn:
        wrong += [] if answer.says("ahead by up to 1 calls") else ["does not tell who is ahead"]
    elif answer.verdict != planted.verdict:
        wrong.append(f"verdict {answer.verdict!r}, not {planted.verdict}")
    elif answer.code != planted.exit_code:
        wrong.append(f"exit code {answer.code}, not {planted.exit_code}")
    elif layout != "broken" or not name.startswith("init_stuck"):  # "Connected all rings" may have lost whose it is
        wrong += [f"does not name {' or '.join(group)}" for group in planted.blame
                  if not any(answer.says(words) for words in group)]
    if answer.code < 0 or answer.code > 7 or not answer.json:
        wrong.append(f"crashed or no JSON: {answer}")
    if wrong:
        wrong.append(f"said: {answer.claims()[:700]}")
    return wrong


def small():
    """Each plant in three versions at 16 ranks and once at 512; some at 4096."""
    number = 0
    for name in verdict_matrix.PLANTS:
        versions = [v for v in verdict_matrix.VERSIONS if verdict_matrix.can_tell(name, v)]
        for version in sorted({versions[0], versions[number % len(versions)], versions[-1]}):
            yield (name, version, 16, log_layouts.LAYOUTS[number % 5], DECORATIONS[number % len(DECORATIONS)], number)
            number += 1
        yield (name, versions[number % len(versions)], 512, log_layouts.LAYOUTS[number % 5], "none", number)
        number += 1
    yield "arg_mismatch_count", "2.28.9", 4096, "merged", "mpirun", 1
    yield "rank_lagging", "2.30.7", 4096, "per_rank", "none", 2


def full():
    every = itertools.product(verdict_matrix.PLANTS, verdict_matrix.VERSIONS, log_layouts.LAYOUTS)
    for number, (name, version, layout) in enumerate(every):
        if verdict_matrix.can_tell(name, version):
            for seed in (number, number + 1000):
                yield name, version, 16, layout, DECORATIONS[(seed + seed // 8) % len(DECORATIONS)], seed
            if number % 5 == verdict_matrix.VERSIONS.index(version) % 5:
                yield name, version, 512, layout, "none", number
    for number, name in enumerate(verdict_matrix.PLANTS):
        yield name, "2.28.9", 4096, log_layouts.LAYOUTS[number % 5], "none", number


def sweep(test, cases):
    """Runs the cases; says all that is wrong at once."""
    wrong, tried, begun = [], 0, time.time()
    for case in cases:
        folder = os.path.join(test.folder.name, "logs")
        tried += 1
        for sentence in run(*case, folder):
            wrong.append(f"{' '.join(str(part) for part in case)}: {sentence}")
        shutil.rmtree(folder)
    print(f"{tried} jobs in {time.time() - begun:.0f} s", file=sys.stderr)
    test.assertEqual(wrong, [], "\n".join(wrong))


class SyntheticLogs(suite.Case):
    def test_planted_verdicts_are_found(self):
        sweep(self, full() if "--full" in ARGUMENTS else small())

    def test_memory_does_not_grow_with_the_log(self):
        nbytes = (2 << 30) if "--full" in ARGUMENTS else (200 << 20)
        paths = generate_logs.bulk(self.folder.name, nbytes, layout="merged")
        self.assertGreater(sum(os.path.getsize(path) for path in paths), nbytes * 0.9)
        begun = time.time()
        answer = diagnose(paths)
        print(f"{nbytes >> 20} MiB: {answer.maxrss >> 20} MiB, {time.time() - begun:.2f} s", file=sys.stderr)
        self.assertEqual((answer.verdict, answer.code), ("OK", 0), str(answer))
        self.assertLess(answer.maxrss, MEMORY_LIMIT)


ARGUMENTS = sys.argv[1:]

if __name__ == "__main__":
    suite.main()
