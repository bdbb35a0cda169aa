"""Catches: a file that ends a command by a signal instead of a sentence. `busbar report` died of SIGSEGV on an accept
result that held a list nested 200,000 deep; one that does not end filled the memory."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case, execute, mpirun, perf  # noqa: E402

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
DEEP = 200000
NESTED = {"lists": "[" * DEEP + "]" * DEEP, "objects": '{"a":' * DEEP + "1" + "}" * DEEP}
PLAN = """schema: 1
title: a test
stages: [whole]
defaults: {rel-ci: 50%, cell-time: 0.2, placement: out, criteria: {wrong: 0}}
cells:
  - {name: one, collective: all_reduce, sizes: 8}
"""
HOLE = "a hole"


def with_hole(value, place):
    """A copy of a document with HOLE as one more member, or item, of the object or list at `place`."""
    if place:
        copy = value.copy()
        copy[place[0]] = with_hole(value[place[0]], place[1:])
        return copy
    return dict(value, deep=HOLE) if isinstance(value, dict) else value + [HOLE]


class BadInput(Case):
    def refused(self, words, codes=(255,)):
        result = execute(words, cwd=self.folder.name)
        self.assertIn(result.code, codes, str(result)[:2000])
        self.assertLess(len(result.err), 2000)
        return result

    def spoiled(self, good, places):
        """Paths of files that hold the document, spoiled in one way each. (json_values_test.cpp tries all places.)"""
        for number, place in enumerate([(), *places]):
            for kind, deep in NESTED.items():
                document = json.dumps(with_hole(good, place))
                yield self.write(f"{kind}{number}.json", document.replace(json.dumps(HOLE), deep))
        text = json.dumps(good)
        yield self.write("cut.json", text[:len(text) // 2])
        yield self.write("opened.json", text[:len(text) // 2] + "[" * DEEP)
        yield self.write("zeros.json", text + "\0" * 4096)
        yield self.write("all_zeros.json", "\0" * 4096)
        yield self.write("empty.json", "")

    def every(self, good, *commands, places=(), codes=(255,)):
        for path in self.spoiled(good, places):
            for words in commands:
                with self.subTest(words=words, file=os.path.basename(path)):
                    self.refused([BUSBAR, *words, path], codes)

    def test_results_of_acceptances(self):
        plan, good = self.write("plan.yaml", PLAN), self.path("good.json")
        result = mpirun(2, [BUSBAR, "accept", plan, "--backend", "mpi", "-J", good], cwd=self.folder.name)
        self.assertIn(result.code, (0, 8), str(result))
        with open(good, encoding="utf-8") as file:
            document = json.load(file)
        self.every(document, ["report"], places=(("plan",), ("doctor",)))
        launched = ["accept", plan, "--backend", "mpi", "--launch", "false {ranks} {cmd}", "--ranks", "2"]
        deep = self.write("deep.json", json.dumps(dict(document, deep=HOLE)).replace(json.dumps(HOLE), NESTED["lists"]))
        for option in ("--resume", "--baseline"):
            with self.subTest(option):
                self.assertIn("nested too deep", self.refused([BUSBAR, *launched, option, deep]).err)

    def test_runs(self):
        good = self.path("good.json")
        self.ok(perf("all_reduce", 2, "-b", "8", "-e", "8", "-n", "2", "-J", good))
        with open(good, encoding="utf-8") as file:
            document = json.load(file)
        self.every(document, ["report"], ["merge"], places=(("busbar", "remarks"),))

    def test_doctor_s_reports(self):
        node = {"host": "node1", "ranks": [], "time": "2026-11-21 18:00:00", "time_unix_s": 1.5, "counters": {},
                "rows": [{"check": "a", "state": "OK", "value": "1"}]}
        good = {"document": "doctor", "schema": 3, "nodes": [node]}
        self.every(good, ["report"], ["doctor", "--merge"], ["doctor", "--diff"], places=(("nodes", 0, "counters"),))

    def test_runs_for_a_history(self):
        run = {"document": "history-run", "schema": 3, "run": {"cells": []}}
        self.every(run, ["history", "--history", self.path("h.db"), "add"], places=(("run",), ("run", "cells")))

    def test_what_diagnose_takes_for_a_log_is_no_crash(self):
        self.every({"document": "hang", "schema": 3, "observed": {"hosts": [], "ras": []}}, ["diagnose"],
                   places=(("observed", "ras"),), codes=(6, 255))
        self.every({"nccl_version": "2.29", "communicators": [{"ranks": []}]}, ["diagnose"],
                   places=(("communicators",),), codes=(0, 4, 6))

    def test_a_file_that_does_not_end_or_is_huge_is_refused(self):
        huge = self.write("huge.json", "")
        os.truncate(huge, 1 << 40)  # without blocks
        for words in (["report", huge], ["merge", huge], ["doctor", "--merge", huge]):
            with self.subTest(words=words):
                self.assertIn("it has more than", self.refused([BUSBAR, *words]).err)
        os.mkfifo(self.path("pipe"))  # to which nobody writes
        for path in (self.path("pipe"), "/dev/zero"):
            for words in ([BUSBAR, "report", path], [BUSBAR, "merge", path, path], [BUSBAR, "doctor", "--merge", path],
                          [BUSBAR, "accept", path, "--dry-run"], [BUSBAR, "diagnose", "--rules", path, huge],
                          [BUSBAR, "compare", "--config", path], [suite.program("all_reduce"), "--config", path]):
                with self.subTest(words=words):
                    self.assertIn("it is a pipe or a device", self.refused(words).err)


if __name__ == "__main__":
    suite.main()
