#!/usr/bin/env python3
"""The bug this would catch: any change of what a command says, writes or ends with that nobody meant.

Every command runs over recorded inputs (test/frozen/), and all that comes out is held against test/frozen/expect/, one
file per command: what was called, exit code, stdout, stderr, the files written. Here stands the wording, and nowhere
else; what is true of it, tests of their own say. After a change that was meant:

    python3 test/e2e/frozen_test.py build --bless          # or BUSBAR_BLESS=1; then read `git diff`
    python3 test/e2e/frozen_test.py build report_ history_ # only the cases whose names begin so

What follows from the moment is masked (masks.py), JSON and pages are shortened (shown_files.py).
"""

import argparse
import concurrent.futures
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
FROZEN = os.path.join(SOURCE, "test", "frozen")
EXPECTED = os.path.join(FROZEN, "expect")
sys.path[:0] = [FROZEN, os.path.join(SOURCE, "test", "logs")]

import cases as frozen_cases  # noqa: E402
import masks as frozen_masks  # noqa: E402
import shown_files  # noqa: E402

SKIPPED = 77
LIMIT_S = 100
DIFF_LINES = 60
PASSED_ON = ("HOME", "USER", "LD_LIBRARY_PATH", "LSAN_OPTIONS", "UBSAN_OPTIONS", "ASAN_OPTIONS")
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
HEADING = "=== case "  # begins a case in the file of its command


class Runner:
    """Runs cases in folders of their own below `scratch`, with the programs of `build` on the path."""

    def __init__(self, build, scratch, suffix):
        self.build, self.scratch, self.suffix = build, scratch, suffix
        self.tells_times = False
        self.bin = os.path.join(scratch, "bin")
        os.mkdir(self.bin)
        for folder in (build, os.path.join(build, "test")):
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    os.symlink(path, os.path.join(self.bin, name.removesuffix(suffix)))
        self.environment = dict(ENVIRONMENT, PATH=self.bin + ":" + os.environ.get("PATH", ""), BUILD=build,
                                **{name: os.environ[name] for name in PASSED_ON if name in os.environ})
        version = self.output("busbar --version").split()[-1]
        self.masks = frozen_masks.Masks({build: "<build>", SOURCE: "<source>"}, version)

    @staticmethod
    def write(path, text, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)

    def output(self, command):
        return subprocess.run(command, shell=True, env=self.environment, capture_output=True, text=True,
                              check=True).stdout

    def lacks(self, case):
        """What the case needs and this build or machine does not have."""
        for need in case.needs:
            if not os.path.exists(os.path.join(self.bin, need)) and not shutil.which(need):
                return need
        return None

    def run(self, case):
        """The whole text of the case."""
        folder = os.path.join(self.scratch, case.name)
        os.mkdir(folder)
        # Of its own: accept believes reports of hangs that it finds there.
        os.makedirs(self.tmp(case))
        for name, target in case.links.items():
            os.symlink(target if os.path.isabs(target) else os.path.join(SOURCE, target), os.path.join(folder, name))
        for name, text in case.files.items():
            self.write(os.path.join(folder, name), text)
        case.prepare(folder)
        blocks, before = [], shown_files.contents(folder)
        for step in case.steps:
            blocks.append(self.step(case, step, folder, before))
        shutil.rmtree(folder)
        shutil.rmtree(self.tmp(case), ignore_errors=True)
        return "\n".join(blocks)

    def tmp(self, case):
        return os.path.join(self.scratch, "tmp", case.name)

    def step(self, case, command, folder, before):
        done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S), "sh", "-c", command], cwd=folder,
                              env=dict(self.environment, TMPDIR=self.tmp(case), **case.env),
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        said = [("stdout", done.stdout), ("stderr", done.stderr)]
        after = shown_files.contents(folder)
        said += [("file " + name, after[name]) for name in sorted(after) if after[name] != before.get(name)]
        said += [("gone " + name, b"") for name in sorted(before) if name not in after]
        before.clear()
        before.update(after)
        text = f"$ {command}\nexit {done.returncode}\n"
        for what, content in said:
            content = self.mask(case, what, content, folder)
            if content or what[:4] in ("file", "gone"):
                text += f"-- {what}\n{content}" + ("" if content.endswith("\n") or not content
                                                                                 else "\n-- (no end of line)\n")
        return text

    def mask(self, case, what, content, folder):
        text = self.masks.of(shown_files.text(what, content).replace(folder, "<cwd>").replace(self.scratch, "<scratch>"))
        for pattern, replacement in case.replaced:
            text = pattern.sub(replacement, text)
        return text


class Golden:
    """The expectations: of each command a file, in it its cases by name."""

    def __init__(self, names):
        self.texts = {}
        for file in sorted({self.file_of(name) for name in names}):
            if os.path.exists(file):
                with open(file, encoding="utf-8", newline="\n") as opened:
                    parts = re.split(f"^{HEADING}(\\w+)\n", opened.read(), flags=re.MULTILINE)
                self.texts.update(zip(parts[1::2], parts[2::2]))

    @staticmethod
    def file_of(name):
        return os.path.join(EXPECTED, name.split("_", maxsplit=1)[0] + ".txt")

    def write(self, names):
        """All cases of these names, in their order; those of no name, and files of no case, go."""
        files = {}
        for name in names:
            if name in self.texts:
                files.setdefault(self.file_of(name), []).append(f"{HEADING}{name}\n{self.texts[name]}")
        for file in {os.path.join(EXPECTED, name) for name in os.listdir(EXPECTED)} - set(files):
            os.remove(file)
        for file, texts in files.items():
            with open(file, "w", encoding="utf-8", newline="\n") as opened:
                opened.write("".join(texts))


def told(name, expected, text):
    """A diff that a person can read to the end."""
    lines = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), f"expected of {name}", "now",
                                      lineterm="", n=2))
    left = "" if len(lines) <= DIFF_LINES else f"\n... {len(lines) - DIFF_LINES} more lines"
    return f"FAILED {name}\n" + "\n".join(line[:240] for line in lines[:DIFF_LINES]) + left


def timed(runner, case):
    begun = time.monotonic()
    text = runner.run(case) + "\n"
    if runner.tells_times:
        print(f"{time.monotonic() - begun:6.1f} s  {case.name}", file=sys.stderr)
    return text


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", nargs="?", default=os.environ.get("BUSBAR_BUILD", "build"))
    arguments.add_argument("names", nargs="*", help="only cases whose names begin so")
    arguments.add_argument("--bless", action="store_true", default=os.environ.get("BUSBAR_BLESS") == "1")
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("--times", action="store_true", help="say how long each case took")
    given = arguments.parse_intermixed_args()
    build, suffix = os.path.abspath(given.build), os.environ.get("BUSBAR_NAME_SUFFIX", "")
    if not os.access(os.path.join(build, "busbar" + suffix), os.X_OK):
        print(f"SKIPPED: no busbar in {build}", file=sys.stderr)
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="frozen") as scratch:
        every = frozen_cases.all_cases(scratch)
        cases = [case for case in every if not given.names or case.name.startswith(tuple(given.names))]
        if given.list:
            print("\n".join(f"{case.name}: {len(case.steps)} commands" for case in cases))
            return 0
        runner = Runner(build, scratch, suffix)
        runner.tells_times = given.times
        skipped = [f"{case.name} (no {runner.lacks(case)})" for case in cases if runner.lacks(case)]
        able = [case for case in cases if not runner.lacks(case)]
        with concurrent.futures.ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)))) as pool:
            texts = dict(zip([case.name for case in able], pool.map(lambda case: timed(runner, case), able)))
        every = [case.name for case in every]
        golden = Golden(every)
        failed = [told(name, golden.texts.get(name, ""), text) for name, text in texts.items()
                  if text != golden.texts.get(name, "")]
        if given.bless:
            golden.texts.update(texts)
            golden.write(every)
            failed = []
    if skipped:
        print("skipped: " + ", ".join(skipped), file=sys.stderr)
    print("\n".join(failed), file=sys.stderr)
    commands = sum(len(case.steps) for case in cases)
    print(f"{len(cases) - len(skipped) - len(failed)} of {len(cases)} cases ({commands} commands) as frozen, "
          f"{len(failed)} not, {len(skipped)} skipped", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
