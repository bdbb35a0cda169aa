"""Catches: two outputs of one result with two numbers: a mean in the table and a median in the report, the last
repetition in the metrics and the median on the screen, an interval from two launches. Of every command each output is
compared with the JSON, and what JSON itself summarizes with a calculation of the test's own."""

import collections
import csv
import json
import os
import re
import sqlite3
import statistics

import suite
from suite import BUILD, SUFFIX, Case, execute, mpirun, perf

BUSBAR = os.path.join(BUILD, "busbar" + SUFFIX)
Number = collections.namedtuple("Number", "time_us busbw")

PLAN = """schema: 1
title: one number
stages: [per-host, whole]
repeat-for: 9
locate-on-fail: false
defaults: {rel-ci: 20%, cell-time: 0.1, placement: both, criteria: {wrong: 0}}
cells:
  - {name: inside, collective: all_reduce, stages: per-host, sizes: 64K}
  - {name: one, collective: all_gather, stages: whole, sizes: [64, 64K]}
"""


def size_of(text):
    """"64 KiB" of a table."""
    number, unit = text.split()
    return int(float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])


class OneNumber(Case):
    def same(self, one, other, what, digits=None):
        """Equal but for what six digits, or the decimals of a table, lose. Both may be "nothing was measured"."""
        if one is None or other is None:
            self.assertEqual((one, other), (None, None), what)
            return
        self.assertAlmostEqual(one, other, delta=3e-5 * abs(one) if digits is None else 0.51 * 10**-digits, msg=what)

    def document(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def rows_of(self, name):
        with open(self.path(name), encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def report(self, *names):
        """What the page's charts are drawn from."""
        self.ok(suite.report(*(self.path(name) for name in names), "-o", self.path("page.html")))
        with open(self.path("page.html"), encoding="utf-8") as file:
            data = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", file.read(), re.DOTALL)
        return json.loads(data[1])

    def history(self):
        """(scope, size, in place) -> Number of the last run; `history show` and its JSON must say the same."""
        shown = self.ok(execute([BUSBAR, "history", "show", "last", "--history", self.path("h.db"),
                                 "-J", self.path("shown.json")]))
        rows = [line.split() for line in shown.out.splitlines() if re.match(r" +\w+_\w+ +\d", line)]
        cells = self.document("shown.json")["runs"][0]["cells"]
        self.assertEqual(len(rows), len(cells), str(shown))
        found = {}
        for row, cell in zip(rows, cells):
            number = Number(1e6 * cell["median_s"], cell["busbw"] or None)
            self.same(number.time_us, float(row[5]), str(row), digits=2)
            self.assertEqual(row[8] == "-", number.busbw is None, str(row))
            if number.busbw:
                self.same(number.busbw, float(row[8]), str(row), digits=2)
            found[cell["scope"], cell["nbytes"], cell["in_place"]] = number
        with sqlite3.connect(self.path("h.db")) as database:
            self.assertEqual(database.execute("SELECT count(*) FROM cells").fetchone()[0], len(found))
        return found

    def benchmark(self, nranks, *options):
        result = self.ok(perf("all_reduce", nranks, "-b", "64", "-e", "64K", "-f", "32", "-J", self.path("r.json"),
                              "--csv", self.path("r.csv"), "--history", self.path("h.db"), *options))
        rows, document = result.rows(), self.document("r.json")
        lines = {(int(row["size_bytes"]), row["placement"] == "in"): row for row in self.rows_of("r.csv")}
        points = {}
        for line in self.report("r.json")["charts"][0]["series"]:
            points.update({(point[0], line["label"] == "in place"): point for point in line["points"]})
        earlier = self.history()
        stat = "--stat" in options
        self.assertEqual((len(rows), len(lines), len(points), len(earlier)), (3, 6, 6, 6), str(result))
        all_busbw = []
        for row, entry in zip(rows, document["results"]):
            for in_place, at in ((False, 5), (True, 9)):
                half = entry["in_place" if in_place else "out_of_place"]
                extra = entry["busbar"]["in_place" if in_place else "out_of_place"]
                key, what = (entry["size"], in_place), f"{row}, in place: {in_place}"
                self.same(half["time"], float(row[at]), what, digits=2)
                for value, token in ((half["alg_bw"], row[at + 1]), (half["bus_bw"], row[at + 2])):
                    self.assertEqual(value is None, token == "-", what)
                    if value is not None:
                        self.same(value, float(token), what, digits=2)
                self.same(half["time"], 1e6 * extra["time_s"], what)
                self.same(half["time"], float(lines[key]["time_us"]), what)
                self.same(half["bus_bw"], float(lines[key]["busbw_gbps"]) if lines[key]["busbw_gbps"] else None, what)
                self.same(half["time"], points[key][4], what)
                self.same(half["bus_bw"], points[key][1], what)
                self.same(half["time"], earlier["all", *key].time_us, what)
                self.same(half["bus_bw"], earlier["all", *key].busbw, what)
                all_busbw.append(half["bus_bw"] or 0)
                if not stat:
                    self.assertEqual(lines[key]["mean_us"], "")
                    continue
                self.same(extra["stats"]["median_s"], extra["time_s"], what)
                self.same(1e6 * statistics.median(extra["stats"]["epoch_medians_s"]), half["time"], what)
                self.same(half["time"], float(lines[key]["median_us"]), what)
                mean_us = 1e6 * extra["stats"]["mean_s"]
                self.same(mean_us, float(row[18 if in_place else 13]), what, digits=2)
                self.same(mean_us, float(lines[key]["mean_us"]), what)
        average = float(result.line("# Avg bus bandwidth").split(":")[1])
        self.same(statistics.fmean(all_busbw), average, str(result))
        self.same(document["average_bus_bandwidth"]["bandwidth"], average, str(result))
        return result, document

    def test_with_stat_the_median_is_the_number_and_the_mean_is_named(self):
        result, _ = self.benchmark(2, "--stat", "--max-time", "2")
        titles = next(line for line in result.out.splitlines() if "busbw" in line and "#wrong" in line).split()[1:]
        self.assertEqual((titles[5], titles[13], titles[18]), ("time", "mean", "mean"), str(result))
        self.assertIn("# time, algbw, busbw: of the median", result.out)

    def test_without_stat_the_mean_is_the_number(self):
        self.benchmark(2, "-n", "20")

    def test_one_rank_has_no_bandwidth_anywhere(self):
        result, document = self.benchmark(1, "-n", "5")
        self.assertTrue(all(row[6:8] == ["-", "-"] and row[10:12] == ["-", "-"] for row in result.rows()), str(result))
        self.assertIsNone(document["results"][0]["in_place"]["alg_bw"])

    def test_launches_together_have_one_number_and_below_six_no_interval(self):
        repeated = self.ok(execute([BUSBAR, "repeat", "-n", "2", "--keep", self.path("kept"), "-J", self.path("r.json"),
                                    "--", suite.MPIRUN, "-n", "2", suite.program("all_reduce"), "--backend", "mpi",
                                    "-b", "64", "-e", "64K", "-f", "32", "--stat", "--max-time", "1"]))
        files = [self.path(f"kept/launch{number:03}.json") for number in (1, 2)]
        merged = self.ok(execute([BUSBAR, "merge", *files, "-J", self.path("m.json")]))
        launches = [self.document(file) for file in files]
        for result, name, time in ((repeated, "r.json", "time_s"), (merged, "m.json", "median_s")):
            self.assertIn("# 2 launches give no interval: 6 do\n", result.out)
            cells = self.document(name)["cells"]
            self.assertEqual(len(result.rows()), len(cells), str(result))
            points = {}
            if name == "m.json":
                for line in self.report(name)["charts"][0]["series"]:
                    points.update({(point[0], line["label"] == "in place"): point for point in line["points"]})
            for row, cell in zip(result.rows(), cells):
                half = "in_place" if cell["in_place"] else "out_of_place"
                times = [entry["busbar"][half]["time_s"] for run in launches for entry in run["results"]
                         if entry["size"] == cell["nbytes"]]
                of_both = statistics.median if time == "median_s" else statistics.geometric_mean
                self.same(of_both(times), cell[time], str(row))
                at = 6 if time == "median_s" else 5
                self.same(1e6 * cell[time], float(row[at]), str(row), digits=2)
                self.assertEqual(row[at + 1:at + 4], ["-"] * 3, str(row))
                self.assertIsNone(cell["interval_s"])
                if points:
                    point = points[cell["nbytes"], cell["in_place"]]
                    self.same(1e6 * cell[time], point[4], str(point))
                    self.assertEqual(point[5:7], [None, None])

    def test_repetitions_of_an_acceptance_have_one_number(self):
        names = {"-J": "a.json", "--csv": "a.csv", "--prometheus": "a.prom", "--markdown": "a.md", "--report": "a.html",
                 "--history": "h.db"}
        words = [word for option, name in names.items() for word in (option, self.path(name))]
        result = mpirun(2, [BUSBAR, "accept", self.write("plan.yaml", PLAN), "--backend", "mpi", *words])
        self.assertIn(result.code, (0, 8), str(result))
        cells = collections.defaultdict(list)
        for cell in self.document("a.json")["cells"]:
            cells[cell["scope"] if cell["stage"] == "per-host" else "all", cell["nbytes"], cell["in_place"]].append(cell)
        self.assertTrue(all(len(repetitions) > 1 for repetitions in cells.values()), cells.keys())
        number = {}
        for key, repetitions in cells.items():
            time_s = statistics.median(cell["median_s"] for cell in repetitions)
            busbw = statistics.median(cell["busbw"] * cell["median_s"] for cell in repetitions) / time_s
            number[key] = Number(1e6 * time_s, busbw or None)
        self.check_terminal(result, number)
        self.check_records(cells)
        self.check_metrics(number)
        self.check_page(number)
        earlier = self.history()
        self.assertEqual(set(earlier), set(number))
        for key, one in number.items():
            self.same(one.time_us, earlier[key].time_us, str(key))
            self.same(one.busbw, earlier[key].busbw, str(key))

    def check_terminal(self, result, number):
        text = result.out[result.out.index("\nmeasured\n"):result.out.index("\nby stage\n")]
        seen = 0
        for stage, size, place, time_us, busbw in re.findall(
                r"^  (per-host|whole) .*? (\d+ [KM]?i?B) +(in|out) +(\S+) +(?:\d+\.\d )? *(\S+) +0 ", text, re.MULTILINE):
            key = next(k for k in number if k[1:] == (size_of(size), place == "in") and (k[0] == "all") == (stage == "whole"))
            self.same(number[key].time_us, float(time_us), text, digits=2)
            self.same(number[key].busbw, float(busbw), text, digits=2)
            seen += 1
        self.assertEqual(seen, len(number), text)

    def check_records(self, cells):
        """CSV has a line for each repetition, and Markdown for the first 60."""
        lines = [row for row in self.rows_of("a.csv") if row["record"] == "cell"]
        flat = self.document("a.json")["cells"]
        with open(self.path("a.md"), encoding="utf-8") as file:
            shown = re.findall(r"^\| (?:per-host|whole)[^|]*\|[^|]*\|[^|]*\|[^|]*\| (?:in|out) \| (\S+) \|[^|]*\| (\S+) \|",
                               file.read(), re.MULTILINE)
        self.assertEqual((len(lines), len(shown)), (len(flat), min(len(flat), 60)))
        self.assertEqual(sum(map(len, cells.values())), len(flat))
        for line, words, cell in zip(lines, shown, flat):
            self.same(1e6 * cell["median_s"], float(line["median_us"]), str(line))
            self.same(cell["busbw"], float(line["busbw_gbps"]), str(line))
            self.same(1e6 * cell["median_s"], float(words[0]), str(words), digits=2)
            self.same(cell["busbw"], float(words[1]), str(words), digits=2)

    def check_metrics(self, number):
        with open(self.path("a.prom"), encoding="utf-8") as file:
            text = file.read()
        for metric, value_of in (("busbar_latency_seconds", lambda n: 1e-6 * n.time_us),
                                 ("busbar_busbw_bytes_per_second", lambda n: 1e9 * n.busbw)):
            series = re.findall(rf'^{metric}{{.*?scope="([^"]*)".*?nbytes="(\d+)",placement="(in|out)"}} (\S+)$', text,
                                re.MULTILINE)
            self.assertEqual(len(series), len(number), text)
            for scope, nbytes, place, value in series:
                self.same(value_of(number[scope, int(nbytes), place == "in"]), float(value), text)

    def check_page(self, number):
        with open(self.path("a.html"), encoding="utf-8") as file:
            data = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", file.read(), re.DOTALL)
        drawn = [point for chart in json.loads(data[1])["charts"] for line in chart["series"] for point in line["points"]]
        self.assertEqual(len(drawn), len(number), drawn)
        for one in number.values():
            point = min(drawn, key=lambda p, one=one: abs(p[4] - one.time_us))
            self.same(one.time_us, point[4], str(drawn))
            self.same(one.busbw, point[1], str(drawn))

    def test_settings_compared_have_one_number(self):
        result = self.ok(mpirun(2, [BUSBAR, "compare", "all_reduce", "--backend", "mpi", "--sizes", "64,64K", "--vary",
                                    "ompi.algorithm=ring", "--max-time", "4", "-J", self.path("c.json"), "--csv",
                                    self.path("c.csv"), "--history", self.path("h.db")]))
        lines = {(row["variant"], int(row["size_bytes"])): row for row in self.rows_of("c.csv")}
        points = {(line["label"].split()[-1], point[0]): point
                  for line in self.report("c.json")["charts"][0]["series"] for point in line["points"]}
        earlier = self.history()
        sizes = self.document("c.json")["comparisons"][0]["sizes"]
        with open(self.path("page.html"), encoding="utf-8") as file:
            page = file.read()
        for row, size in zip(result.rows(), sizes):
            self.assertIn(size["verdict"], " ".join(row))
            self.assertIn(f">{size['verdict']}<", page)
            for cell in size["variants"]:
                key, time_us = (cell["variant"], size["nbytes"]), 1e6 * cell["median_s"]
                self.same(1e6 * statistics.median(cell["rounds_s"]), time_us, str(key))
                self.same(time_us, float(lines[key]["median_us"]), str(key))
                self.same(time_us, points[key][4], str(key))
                self.same(time_us, earlier[(*key, False)].time_us, str(key))
                self.same(points[key][1], earlier[(*key, False)].busbw, str(key))
            self.same(1e6 * size["variants"][0]["median_s"], float(row[1]), str(row), digits=2)
            ratio = size["variants"][1]["ratio"]
            self.assertAlmostEqual(ratio["value"], float(row[2].split("+-")[0]), delta=0.006 * ratio["value"])
            self.same(ratio["value"], float(lines["ring", size["nbytes"]]["ratio"]), str(row))

    def test_a_search_has_one_median(self):
        result = mpirun(3, [BUSBAR, "locate", "--backend", "mpi", "--no-rank-probes", "--looks", "1", "-J",
                            self.path("l.json")])
        self.assertIn(result.code, (0, 7, 8), str(result))
        found = self.document("l.json")["locate"]
        self.assertTrue(result.out.startswith(found["headline"] + "\n"), str(result))
        number, unit = re.search(r"of the median (\S+) (\S+);", result.out).groups()
        rate = float(number) * {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}[unit]
        self.assertAlmostEqual(rate, found["median_bandwidth"], delta=0.006 * rate)
        self.assertAlmostEqual(self.report("l.json")["matrices"][0]["median"] * 1e9, found["median_bandwidth"],
                               delta=1e-4 * rate)

    def test_a_communicator_s_steps_have_one_number(self):
        result = self.ok(mpirun(2, [os.path.join(BUILD, "comm_perf" + SUFFIX), "--backend", "mpi", "-n", "4", "-J",
                                    self.path("c.json"), "--csv", self.path("c.csv")]))
        lines = {row["step"]: row for row in self.rows_of("c.csv")}
        shown = {words[0]: words for words in map(str.split, result.out.splitlines()) if words and words[0] in lines}
        steps = [step for step in self.document("c.json")["steps"] if step.get("median_s")]
        self.assertGreater(len(steps), 3)
        for step in steps:
            name, time_us = step["step"], 1e6 * step["median_s"]
            self.same(time_us, float(lines[name]["median_us"]), name)
            self.same(time_us, float(shown[name][2]), name, digits=2)


if __name__ == "__main__":
    suite.main()
