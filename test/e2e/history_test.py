#!/usr/bin/env python3
"""The bugs this would catch: a run does not arrive in the history, runs that end at once lose one, a history that cannot be
written is found out after hours, or `busbar history` calls noise a change."""

import csv
import json
import os
import re
import sqlite3
import subprocess
import unittest
import xml.etree.ElementTree as ET

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GOLDEN = os.path.join(SOURCE, "test", "unit", "golden")


def history(*words):
    return suite.execute([BUSBAR, "history", *words])


def alone(collective, *options):
    """One rank without a launcher, which starts sooner."""
    return suite.execute([suite.program(collective), "--backend", "mpi", *options])


class History(suite.Case):
    def test_runs_arrive_and_are_read(self):
        file = self.path("h.db")
        for _ in range(2):
            self.ok(suite.perf("all_reduce", 2, "-b", "1K", "-e", "64K", "-f", "64", "--stat", "--max-time", "1",
                               "--history", file))
        self.ok(suite.perf("broadcast", 2, "-b", "8", "-e", "8", "-n", "2", "--history", file))

        listed = self.ok(history("list", "--history", file, "-J", self.path("list.json")))
        self.assertEqual(len(listed.rows()), 3, str(listed))
        with open(self.path("list.json"), encoding="utf-8") as text:
            runs = json.load(text)["runs"]
        self.assertEqual([run["outcome"] for run in runs], ["PASS"] * 3)
        self.assertEqual([run["nranks"] for run in runs], [2] * 3)

        shown = self.ok(history("show", "1", "--history", file, "-J", self.path("show.json")))
        self.assertIn("all_reduce_perf", shown.out)
        with open(self.path("show.json"), encoding="utf-8") as text:
            cells = json.load(text)["runs"][0]["cells"]
        self.assertEqual([(c["nbytes"], c["in_place"]) for c in cells],
                         [(1024, False), (1024, True), (65536, False), (65536, True)])
        self.assertTrue(all(c["median_s"] > 0 and c["wrong"] == 0 for c in cells), cells)

        trend = self.ok(history("trend", "all_reduce", "-b", "64K", "--placement", "in", "--history", file,
                                "-J", self.path("trend.json")))
        with open(self.path("trend.json"), encoding="utf-8") as text:
            trends = json.load(text)["trends"]
        self.assertEqual([(t["nbytes"], t["in_place"], len(t["points"])) for t in trends], [(65536, True, 2)], str(trend))
        self.assertEqual(trends[0]["points"][1]["run"], 2)

        compared = history("compare", "1", "2", "--history", file, "-J", self.path("compare.json"))
        self.assertIn(compared.code, (0, 7, 8), str(compared))
        with open(self.path("compare.json"), encoding="utf-8") as text:
            comparison = json.load(text)
        self.assertEqual(len(comparison["cells"]), 4)
        # Two launches cannot tell how launches differ.
        self.assertTrue(all(c["launch_deviation_assumed"] for c in comparison["cells"]))
        self.assertEqual(compared.code, {"PASS": 0, "FAIL": 7, "INCONCLUSIVE": 8}[comparison["outcome"]])

        self.fails(history("compare", "2", "3", "--history", file), 5, "did not measure the same")
        self.fails(history("trend", "alltoall", "--history", file), 255, "alltoall")
        self.assert_whole(file, 3)

    def assert_whole(self, file, runs):
        database = sqlite3.connect(file)
        self.addCleanup(database.close)
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        self.assertEqual(database.execute("SELECT count(*) FROM runs").fetchone()[0], runs)

    def test_compare_with_a_known_history(self):
        file = self.path("h.db")
        self.ok(alone("all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "--placement", "out", "--history", file))
        database = sqlite3.connect(file)
        columns = [c[1] for c in database.execute("PRAGMA table_info(runs)") if c[1] not in ("id", "time")]

        def add(number, median_s):
            database.execute(f"INSERT INTO runs(id,time,{','.join(columns)}) SELECT ?,?,{','.join(columns)} FROM runs "
                             "WHERE id=1", (number, f"2026-07-{number:02} 10:00:00"))
            database.execute("INSERT INTO cells SELECT ?,stage,cell,scope,collective,dtype,op,root,nbytes,in_place,"
                             "algorithm,?,NULL,NULL,busbw,wrong,epochs_s FROM cells WHERE run=1", (number, median_s))

        for number, median_s in enumerate([10.0e-6, 10.1e-6, 9.9e-6, 10.1e-6, 9.9e-6, 10.0e-6, 10.02e-6, 12e-6], 2):
            add(number, median_s)
        database.execute("DELETE FROM runs WHERE id=1")
        database.commit()
        database.close()
        same = history("compare", "8", "--history", file)
        self.assertEqual(same.code, 0, str(same))
        self.assertIn("verdict: PASS", same.out)
        slower = history("compare", "9", "--history", file)
        self.assertEqual(slower.code, 7, str(slower))
        self.assertIn("verdict: FAIL: of 1 cells 1 slower by more than 5 %", slower.out)
        wide = history("compare", "9", "--history", file, "--delta", "50%")
        self.assertEqual(wide.code, 0, str(wide))
        self.assertIn("run 9 is slow", self.ok(history("trend", "--kind", "perf", "--history", file)).out)
        self.fails(history("compare", "2", "--history", file), 5, "no other run within 30 days")

    def test_runs_that_end_at_once_all_arrive(self):
        file = self.path("h.db")
        command = [suite.program("all_reduce"), "--backend", "mpi", "-b", "8", "-e", "8", "-n", "1", "--history", file]
        runs = [subprocess.Popen(command, cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True) for _ in range(4)]
        for run in runs:
            _, said = run.communicate(timeout=suite.LIMIT_S)
            self.assertEqual(run.returncode, 0, said)
        self.assert_whole(file, 4)

    def test_a_bad_history_is_one_error_before_anything_is_measured(self):
        text = self.write("text.db", "not a database, and not to be lost\n" * 40)
        newer = self.path("newer.db")
        database = sqlite3.connect(newer)
        database.executescript("PRAGMA application_id=1651864418; PRAGMA user_version=99; CREATE TABLE runs(id)")
        database.close()
        for file, words in ((text, "not a database"), (newer, "version 99"),
                            (self.path("none/h.db"), "unable to open"), (self.folder.name, "unable to open")):
            with self.subTest(file=file):
                done = alone("all_reduce", "-b", "8", "-e", "8", "--history", file)
                self.fails(done, 255, "--history", words)
                self.assertEqual(done.rows(), [], str(done))
        # And no rank waits for the one that found it out.
        self.fails(suite.perf("all_reduce", 2, "-b", "8", "-e", "8", "--history", text), 255, "not a database")
        with open(text, encoding="utf-8") as kept:
            self.assertIn("not to be lost", kept.read())
        for file, words in ((text, "not a database"), (newer, "version 99"), (self.path("absent"), "no such file")):
            self.fails(history("list", "--history", file), 255, words)
        self.assertFalse(os.path.exists(self.path("absent")))

    def test_a_command_line_that_is_wrong_says_so(self):
        self.fails(history(), 255, "list show trend compare")
        self.fails(history("lst", "--history", "x"), 255, "did you mean list?")
        self.fails(history("list"), 255, "--history FILE")
        self.fails(history("list", "--history", "x", "-n", "3"), 255, "--iters")
        self.fails(history("list", "--history", "x", "--kind", "prof"), 255, "perf compare accept")
        self.assertIn("usage: busbar history", self.ok(history("--help")).out)


class Files(unittest.TestCase):
    """The golden files, which the unit tests hold against the writers, as other programs read them."""

    def test_junit_is_what_servers_read(self):
        root = ET.parse(os.path.join(GOLDEN, "accept.junit.xml")).getroot()
        self.assertEqual(root.tag, "testsuites")
        kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        for suite_element in root:
            self.assertEqual(suite_element.tag, "testsuite")
            # What the schema of the Ant task wants.
            for name in ("name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"):
                self.assertIn(name, suite_element.attrib)
            self.assertRegex(suite_element.get("timestamp"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
            cases = list(suite_element)
            self.assertEqual(int(suite_element.get("tests")), len(cases))
            for attribute, tag in kinds.items():
                self.assertEqual(int(suite_element.get(attribute)), sum(case.find(tag) is not None for case in cases))
            names = [(case.get("classname"), case.get("name")) for case in cases]
            self.assertEqual(len(set(names)), len(names))
            for case in cases:
                self.assertEqual(case.tag, "testcase")
                self.assertTrue(case.get("classname") and case.get("name") and case.get("time"))
                self.assertLessEqual(len(case), 1)
        for attribute in ("tests", *kinds):
            self.assertEqual(int(root.get(attribute)), sum(int(s.get(attribute)) for s in root))
        self.assertIn("slow\nhost", root.find(".//failure").get("message"))
        self.assertIsNotNone(root.find("testsuite[@name='verdict']/testcase/failure"))

    def test_metrics_are_what_node_exporter_takes(self):
        label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
        sample = re.compile(rf"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({label}(?:,{label})*)\}})? (\S+)$")
        seen, families, current = set(), [], None
        with open(os.path.join(GOLDEN, "accept.prom"), encoding="utf-8", newline="") as file:
            text = file.read()
        self.assertTrue(text.endswith("\n"))
        lines = text.split("\n")[:-1]
        while lines:
            line = lines.pop(0)
            if line.startswith("# HELP "):
                current = line.split(" ")[2]
                self.assertNotIn(current, families)  # all series of a metric together
                families.append(current)
                self.assertEqual(lines.pop(0), f"# TYPE {current} gauge")
                continue
            match = sample.match(line)
            self.assertTrue(match, line)  # no timestamp either
            self.assertEqual(match[1], current)
            self.assertTrue(current.startswith("busbar_"))
            series = (match[1], frozenset(re.findall(label, match[2] or "")))
            self.assertNotIn(series, seen, line)
            seen.add(series)
            float(match[3])
        self.assertIn("busbar_last_run_timestamp_seconds", families)

    def test_csv_is_one_table(self):
        with open(os.path.join(GOLDEN, "accept.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        self.assertEqual([row["record"] for row in rows], ["cell"] * 2 + ["criterion"] * 5)
        self.assertTrue(all(None not in row and None not in row.values() for row in rows))
        self.assertEqual(rows[4]["reason"], "slow host")
        self.assertEqual(rows[4]["source"], 'a \\ table, "measured"')
        self.assertEqual(rows[1]["busbw_gbps"], "1.5")


if __name__ == "__main__":
    suite.main()
