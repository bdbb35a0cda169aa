"""Catches: a statistical mode whose figures contradict each other, that calls good data wrong or misses wrong data and
late ranks, or that stops for another reason than it says. No figure of the machine is judged, only how they relate."""

import collections
import csv
import json
import math
import os

import suite
from suite import Case, mpirun, perf

FAULTY = os.path.join(suite.BUILD, "test", "faulty_perf")
QUICK = ("--stat", "--max-time", "0.3")


def exact_ranks(n, confidence):
    """1-based order statistics between which the median lies so often or more, from the binomial distribution."""
    tail, k = 0.0, 0
    while 2 * (tail + math.comb(n, k) / 2**n) <= 1 - confidence:
        tail += math.comb(n, k) / 2**n
        k += 1
    return k, n + 1 - k


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


class Cells(Case):
    """What JSON says of each cell, against the table and the samples."""

    def run_all(self, nranks, *options):
        report, samples = self.path(f"{nranks}.json"), self.path(f"{nranks}.csv")
        result = self.ok(perf("all_reduce", nranks, "--stat", "--skew", "--per-rank", "--show-algo", "-J", report,
                              "--samples", samples, *options))
        with open(report, encoding="utf-8") as file:
            document = json.load(file)
        with open(samples, encoding="utf-8", newline="") as file:
            return result, document, list(csv.DictReader(file))

    def test_the_figures_of_a_cell_follow_from_its_samples(self):
        result, document, samples = self.run_all(2, "-b", "64", "-e", "64K", "-f", "32", "--seed", "7", "--max-time",
                                                 "2", "--rel-ci", "0.1%")
        self.check_table(result, document)
        self.check_samples(document, samples)
        for half in self.halves(document):
            self.check_cell(half["stats"], nranks=2)

    def halves(self, document):
        return [entry["busbar"][half] for entry in document["results"] for half in ("out_of_place", "in_place")]

    def check_table(self, result, document):
        self.assertIn("# Statistical mode: seed 7, cadence isolated", result.out)
        rows = result.rows()
        # nccl-tests' 13, six for each placement, three for --show-algo.
        self.assertEqual([len(row) for row in rows], [13 + 6 + 6 + 3] * 3, str(result))
        self.assertTrue(all(row[8] == "0" and row[12] == "0" for row in rows), str(result))
        for row, entry in zip(rows, document["results"]):
            for at, half in ((13, "out_of_place"), (19, "in_place")):
                cell = entry["busbar"][half]["stats"]
                self.assertAlmostEqual(float(row[at]), 1e6 * cell["mean_s"], delta=0.006 + 1e4 * cell["mean_s"])
                self.assertEqual((int(row[at + 3]), row[at + 4]), (cell["samples"], cell["stop"]))
        self.assertEqual(result.line("# Out of bounds values"), "# Out of bounds values : 0 OK")
        self.assertEqual(result.line("# Collective test concluded"), "# Collective test concluded: all_reduce_perf")
        self.assertEqual(result.out.count("late p99 (us)"), 6, str(result))
        self.assertRegex(result.out, r"(?m)^# (Undisturbed|Disturbance): foreign cpu \d")

    def check_cell(self, cell, nranks):
        epochs = cell["epoch_medians_s"]
        self.assertEqual(cell["samples"], len(epochs) * cell["samples_per_epoch"])
        self.assertAlmostEqual(cell["median_s"], median(epochs), delta=1e-12)
        values = [quantile["value_s"] for quantile in cell["quantiles"]]
        self.assertEqual([quantile["q"] for quantile in cell["quantiles"]], [0.5, 0.9, 0.95, 0.99, 0.999, 1])
        # The largest is kept as it came, the others as floats.
        self.assertEqual(values[:-1], sorted(values[:-1]))
        self.assertGreaterEqual(values[-1] * (1 + 1e-6), values[-2])
        for quantile in cell["quantiles"]:
            if quantile["interval_s"]:
                self.assertLessEqual(quantile["interval_s"]["low"], quantile["value_s"])
                self.assertGreaterEqual(quantile["interval_s"]["high"], quantile["value_s"])
        if len(epochs) < 6:
            self.assertIsNone(cell["interval_s"])
        else:
            low, high = cell["interval_s"]["low"], cell["interval_s"]["high"]
            self.assertLessEqual(low, cell["median_s"])
            self.assertGreaterEqual(high, cell["median_s"])
            # A prediction of the next minute has no order statistics as its bounds; it says no less than half of them do.
            below, above = exact_ranks(len(epochs), 0.5)
            self.assertLessEqual(low, sorted(epochs)[below - 1] + 1e-12)
            self.assertGreaterEqual(high, sorted(epochs)[above - 1] - 1e-12)
        self.assertEqual(sorted(rank["rank"] for rank in cell["ranks"]), list(range(nranks)))
        self.assertGreaterEqual(cell["skew_median_s"], 0)

    def check_samples(self, document, samples):
        rows = collections.defaultdict(list)
        for sample in samples:
            rows[sample["bytes"], sample["placement"]].append(float(sample["time_us"]))
        for entry in document["results"]:
            for half, placement in (("out_of_place", "out"), ("in_place", "in")):
                cell = entry["busbar"][half]["stats"]
                times = rows[str(entry["size"]), placement]
                self.assertEqual(len(times), cell["samples"])
                self.assertAlmostEqual(max(times), 1e6 * cell["quantiles"][-1]["value_s"], delta=1e-2)
                first = times[: cell["samples_per_epoch"]]
                self.assertAlmostEqual(median(first), 1e6 * cell["epoch_medians_s"][0], delta=2e-3)

    def test_other_numbers_of_ranks(self):
        for nranks in (1, 3, 4):
            with self.subTest(nranks):
                result, document, samples = self.run_all(nranks, "-b", "1K", "-e", "8K", "-f", "8", "--max-time", "0.5")
                self.assertEqual([len(row) for row in result.rows()], [28, 28], str(result))
                self.check_samples(document, samples)
                for half in self.halves(document):
                    self.check_cell(half["stats"], nranks)


class Ends(Case):
    """How cells stop."""

    def statuses(self, *options):
        result = self.ok(perf("all_reduce", 2, "--stat", "-b", "4K", "-e", "64K", "-f", "16", *options))
        return result, [row[at] for row in result.rows() for at in (17, 22)]

    def test_the_bound_of_the_run_ends_it(self):
        result, stops = self.statuses("--max-time", "0.4", "--rel-ci", "0.001%")
        self.assertEqual(stops, ["time"] * 4, str(result))
        self.assertIn("4 of 4 cells did not reach", result.out)

    def test_the_bound_of_a_cell_ends_it(self):
        result, stops = self.statuses("--cell-time", "0.05", "--rel-ci", "0.001%", "--max-time", "60")
        self.assertEqual(stops, ["time"] * 4, str(result))

    def test_epochs_that_do_not_suffice_are_called_noisy(self):
        result, stops = self.statuses("--epochs", "6", "--rel-ci", "0.001%")
        self.assertEqual(stops, ["noisy"] * 4, str(result))

    def test_a_target_that_is_met_is_called_so(self):
        report = self.path("report.json")
        result, stops = self.statuses("--rel-ci", "90%", "--cell-time", "5", "--max-time", "15", "-J", report)
        # A machine that wanders or has two speeds may well keep a cell from so wide a target: then the cell says why.
        self.assertIn("4 of 4 cells reached" if set(stops) == {"ci"} else "cells did not reach", result.out)
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["results"]
        cells = [row["busbar"][half]["stats"] for row in rows for half in ("out_of_place", "in_place")]
        self.assertEqual([cell["stop"] for cell in cells], stops)
        for cell in cells:
            width, epochs = cell["relative_half_width"], len(cell["epoch_medians_s"])
            with self.subTest(cell["stop"], width=width, span_s=cell["span_s"], epochs=epochs):
                if cell["stop"] == "ci":
                    self.assertLessEqual(width, 0.9)
                    self.assertGreaterEqual(cell["span_s"], 12 * cell["correlation_time_s"])
                elif cell["stop"] == "noisy":
                    self.assertGreater(width, 0.9)
                    self.assertGreaterEqual(epochs, 30)
                else:
                    # The cells share 15 s; 400 epochs are the default's end.
                    self.assertTrue(epochs == 400 or cell["span_s"] > 2.5)


class Collectives(Case):
    def test_every_collective_has_the_mode(self):
        for name in suite.COLLECTIVES:
            with self.subTest(name):
                result = self.ok(perf(name, 2, *QUICK, "-b", "4K", "-e", "4K"))
                rows = result.rows()
                self.assertEqual([len(row) for row in rows], [13 + 5 + 5], str(result))
                self.assertGreater(float(rows[0][13]), 0)
                self.assertGreater(int(rows[0][16]), 0)
                if name in suite.NO_IN_PLACE:
                    self.assertEqual(rows[0][9:13] + rows[0][18:],
                                     ["0.00", "0.00", "0.00", "N/A", "0.00", "N/A", "N/A", "0", "N/A"])
                else:
                    self.assertGreater(int(rows[0][21]), 0)

    def test_one_placement_alone(self):
        result = self.ok(perf("all_reduce", 2, *QUICK, "-b", "4K", "-e", "4K", "--placement", "in", "-c", "0"))
        row = result.rows()[0]
        # The half out of place has no columns: five of the case, four of the half, five of its statistics.
        self.assertEqual((len(row), row[8]), (5 + 4 + 5, "N/A"), str(result))
        self.assertGreater(int(row[12]), 0)


class Refused(Case):
    def test_options_that_contradict_each_other_are_one_message(self):
        for options, words in (
            (["--rel-ci", "2%"], ["--rel-ci", "needs --stat"]),
            (["--samples", "s.csv"], ["--samples", "needs --stat"]),
            (["--show-prediction"], ["--show-algo"]),
            (["--stat", "-m", "2"], ["-m", "--stat"]),
            (["--stat", "-I", "1"], ["-I", "--stat"]),
            (["--stat", "-z", "1"], ["-z", "--cadence"]),
            (["--stat", "--epochs", "2"], ["--epochs", "6"]),
            (["--stat", "--cadence", "often"], ["often", "isolated"]),
            (["--stat", "--min-time", "30"], ["--min-time", "--cell-time"]),
            (["--stat", "--samples", "/nonexistent/s.csv"], ["--samples", "/nonexistent/s.csv"]),
        ):
            with self.subTest(options):
                self.fails(perf("all_reduce", 3, *options, env=suite.AT_ONCE), 255, *words)


class Faults(Case):
    def faulty(self, fault, *options):
        path = self.path(f"{len(os.listdir(self.folder.name))}.json")
        result = mpirun(2, [FAULTY, "all_reduce", fault, "--backend", "mpi", "--stat", "-J", path, *options])
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_wrong_data_of_the_timed_batch_name_the_rank(self):
        # One slot, whose send part keeps what the fault did to it until it is checked.
        result, document = self.faulty("drop:1:3", "-b", "32M", "-e", "32M", "--placement", "out", "--max-time", "0.1")
        self.assertEqual(result.code, 7, str(result))
        self.assertIn("FAILED", result.line("# Out of bounds values"))
        wrong = document["busbar"]["wrong"]
        self.assertTrue(wrong, str(result))
        for entry in wrong:
            self.assertIn("timed loop", entry["buffer"])
            self.assertEqual((entry["cause"], entry["suspect_rank"]), ("missing_contribution", 1))

    def test_the_late_rank_is_named(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("two ranks on one core are late as the scheduler chooses")
        # On a crowded machine the ranks are late by turns, and no straggler is the right answer: three attempts.
        for _ in range(3):
            result, document = self.faulty("late:1:0", "-b", "8", "-e", "8", "--placement", "out", "--cadence", "stream",
                                           "--per-rank", "--max-time", "1")
            self.ok(result)
            cell = document["results"][0]["busbar"]["out_of_place"]["stats"]
            if cell["straggler_rank"] is not None:
                break
        self.assertEqual(cell["straggler_rank"], 1, str(result))
        self.assertIn("straggler: rank 1 on ", result.out)
        late = {rank["rank"]: rank["late_median_s"] for rank in cell["ranks"]}
        self.assertGreater(late[1], late[0])


if __name__ == "__main__":
    suite.main()
