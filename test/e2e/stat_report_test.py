"""Catches: --stat's reports that contradict each other, a table whose rows lose a column, and an order of cells that
the seed in JSON does not give."""

import csv
import itertools
import json
import re

import suite
from suite import Case, perf

MASK = 2**64 - 1
QUICK = ("--stat", "--rel-ci", "20%", "--max-time", "3", "--epochs", "12")


class Mt19937_64:
    """The generator that JSON names, after Nishimura (2000), independent of the one under test."""

    def __init__(self, seed):
        self.state = [seed & MASK]
        for i in range(1, 312):
            last = self.state[-1]
            self.state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & MASK)
        self.at = 312

    def draw(self):
        if self.at == 312:
            for i in range(312):
                x = (self.state[i] & 0xFFFFFFFF80000000) | (self.state[(i + 1) % 312] & 0x7FFFFFFF)
                self.state[i] = self.state[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            self.at = 0
        x = self.state[self.at]
        self.at += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            n = i + 1
            x = self.draw()
            while x > MASK - (MASK % n + 1) % n:
                x = self.draw()
            items[i], items[x % n] = items[x % n], items[i]


def cell_name(cell):
    return cell["nbytes"], "in" if cell["in_place"] else "out"


class Reports(Case):
    def test_the_generator_is_the_one_that_json_names(self):
        generator = Mt19937_64(5489)  # the C++ standard's own check value, [rand.predef]
        self.assertEqual([generator.draw() for _ in range(10000)][-1], 9981545732273789042)

    def test_every_option_adds_its_columns_to_every_row(self):
        added = {"--skew": 2, "--show-algo": 3, "-S1": 2}
        for collective, options in [("alltoall", ()), ("all_reduce", ("--skew", "--show-algo", "-S1"))]:
            result = self.ok(perf(collective, 2, "-b", "8", "-e", "32", "-f", "2", *QUICK, *options))
            rows = result.rows()
            self.assertEqual(len(rows), 3, str(result))
            for row in rows:
                self.assertEqual(len(row), 13 + 10 + sum(added[option] for option in options), str(result))
            before = result.out[:result.out.index("# Out of bounds")]
            self.assertNotIn("FAILED", before)
            self.assertNotIn("andwidth", before)
            self.assertRegex(before, r"(?m)^# \d+ of \d+ cells (reached|did not reach) \+-20 %")
            self.assertRegex(before, r"(?m)^# (Und|D)isturb")

    def test_table_json_csv_and_samples_tell_the_same_run_in_the_order_of_its_seed(self):
        files = [self.path(name) for name in ("r.json", "r.csv", "s.csv")]
        result = self.ok(perf("all_reduce", 3, "-b", "8", "-e", "2K", "-f", "4", *QUICK, "--max-time", "30", "--seed", "7",
                              "--per-rank", "-J", files[0], "--csv", files[1], "--samples", files[2]))
        with open(files[0], encoding="utf-8") as file:
            document = json.load(file)
        with open(files[1], encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        with open(files[2], encoding="utf-8") as file:
            samples = list(csv.DictReader(file))
        self.assertRegex(document["busbar"]["launch_uuid"], r"^[0-9a-f]{32}$")
        self.assertIn("seed 7,", result.out)

        halves = {(row["size"], short): row["busbar"][long] for row in document["results"]
                  for short, long in (("out", "out_of_place"), ("in", "in_place"))}
        self.assertEqual(len(lines), len(halves))
        for line in lines:
            name = (int(line["size_bytes"]), line["placement"])
            stats = halves[name]["stats"]
            taken = [sample for sample in samples if (int(sample["bytes"]), sample["placement"]) == name]
            self.assertEqual(len(taken), stats["samples"])
            self.assertEqual(int(line["samples"]), stats["samples"])
            self.assertAlmostEqual(float(line["median_us"]), 1e6 * stats["median_s"], places=5)
            self.assertEqual(len({sample["epoch"] for sample in taken}), len(stats["epoch_medians_s"]))
            self.assertEqual(sorted(rank["rank"] for rank in stats["ranks"]), [0, 1, 2])
            self.assertRegex(result.out, rf"(?m)^# {name[0]} B {'in' if name[1] == 'in' else 'out-of'}-place: ")
        for row, entry in zip(result.rows(), document["results"]):
            self.assertAlmostEqual(float(row[13]), 1e6 * entry["busbar"]["out_of_place"]["stats"]["mean_s"], delta=0.01)

        stat = document["busbar"]["stat"]
        self.check_order(stat, samples)

    def check_order(self, stat, samples):
        visits = [(int(epoch), name) for (epoch, name), _ in itertools.groupby(
            samples, lambda s: (s["epoch"], (int(s["bytes"]), s["placement"])))]
        generator = Mt19937_64(stat["seed"])
        order = [cell_name(cell) for cell in stat["cells"]]
        passes = 0
        for epoch, visited in itertools.groupby(visits, lambda visit: visit[0]):
            names = [name for _, name in visited]
            order = [name for name in order if name in names]
            generator.shuffle(order)
            self.assertEqual(names, order, f"pass {epoch}")
            passes += 1
        self.assertGreaterEqual(passes, 2)

    def test_files_of_an_earlier_run_stay(self):
        old = self.write("s.csv", "mine")
        result = self.ok(perf("all_reduce", 1, "-b", "8", "-e", "8", *QUICK, "--samples", old))
        with open(old, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.assertTrue(re.search(r"s\.csv exists; writing .*s\.csv\.0", result.err), str(result))


if __name__ == "__main__":
    suite.main()
