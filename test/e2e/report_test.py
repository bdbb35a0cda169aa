"""Catches: JSON or CSV that downstream tools cannot read, or that says something else than the table."""

import csv
import json
import os

import suite
from suite import Case, perf


class Json(Case):
    def run_json(self, *options, collective="all_reduce", nranks=2, **settings):
        path = self.path("r.json")
        result = self.ok(perf(collective, nranks, "-J", path, *options, **settings))
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_the_contract_s_keys_and_types(self):
        result, document = self.run_json("-b", "1K", "-e", "2K", "-f", "2", "-n", "3", "-I", "1")
        self.assertEqual(document["version"], 3)
        for key in ("start_time", "end_time"):
            self.assertRegex(document[key], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertIn("-I", document["args"])
        self.assertIsInstance(document["nccl_version"], int)
        config = document["config"]
        self.assertEqual((config["minimum_bytes"], config["maximum_bytes"], config["step_factor"]), (1024, 2048, 2))
        self.assertEqual((config["iterations"], config["blocking_collectives"]), (3, "false"))
        self.assertEqual([device["rank"] for device in config["devices"]], [0, 1])
        self.assertEqual(len(document["results"]), len(result.rows()))
        for row, entry in zip(result.rows(), document["results"]):
            self.assertEqual((int(row[0]), int(row[1])), (entry["size"], entry["count"]))
            self.assertEqual(entry["root"].strip(), "-1")
            self.assertEqual(entry["out_of_place"]["nwrong"], 0)
            self.assertAlmostEqual(entry["out_of_place"]["time"], float(row[5]), delta=0.01 * float(row[5]) + 0.01)
            per_iteration = entry["out_of_place_per_iter"]
            self.assertEqual(len(per_iteration["times_us"]), 3)
            self.assertEqual(len(per_iteration["per_process_max_times_us"]), 2)
            self.assertEqual(entry["actual_iterations"], 3)
        self.assertEqual(document["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual(document["average_bus_bandwidth"]["okay"], "unchecked")
        self.assertEqual(document["errors"], [])

    def test_halves_that_do_not_exist_are_null(self):
        _, document = self.run_json("-b", "1K", "-e", "1K", collective="pingpong")
        self.assertIsNone(document["results"][0]["in_place"])

    def test_what_was_verified_is_said(self):
        _, document = self.run_json("-b", "1K", "-e", "1K")
        half = document["results"][0]["busbar"]
        text = json.dumps(half)
        self.assertIn("timed_verified", text)

    def test_what_was_not_checked_is_null(self):
        _, document = self.run_json("-b", "1K", "-e", "1K", "-c", "0")
        self.assertIsNone(document["results"][0]["out_of_place"]["nwrong"])

    def test_secrets_stay_out_of_the_environment_list(self):
        _, document = self.run_json("-b", "1K", "-e", "1K", "-n", "1",
                                    env={"NCCL_API_KEY": "geheim", "NCCL_DEBUG": "WARN", "MY_TOKEN": "geheim"})
        self.assertIn("NCCL_DEBUG=WARN", document["env"])
        self.assertNotIn("geheim", json.dumps(document))

    def test_skipped_cases_are_listed_with_the_reason(self):
        _, document = self.run_json("-b", "1K", "-e", "1K", "-o", "avg")
        self.assertEqual(document["results"], [])
        self.assertEqual(document["busbar"]["skipped"][0]["op"], "avg")
        self.assertIn("average", document["busbar"]["skipped"][0]["reason"])

    def test_an_existing_file_is_kept(self):
        path = self.write("r.json", "precious")
        self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "1", "-J", path))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        with open(path + ".0", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["version"], 3)

    def test_other_suffixes_and_folders_are_errors_before_the_run(self):
        self.fails(perf("all_reduce", 2, "-J", self.path("r.xml")), 255, ".json")
        self.fails(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-J", "/nonexistent/r.json"), 255, "/nonexistent/r.json")


class Csv(Case):
    def test_one_line_per_half(self):
        path = self.path("r.csv")
        result = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "4K", "-f", "2", "-n", "2", "--csv", path))
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), 2 * len(result.rows()))
        self.assertEqual([line["size_bytes"] for line in lines], ["1024", "1024", "2048", "2048", "4096", "4096"])
        self.assertEqual({line["placement"] for line in lines}, {"out", "in"})
        self.assertTrue(all(float(line["time_us"]) > 0 for line in lines))

    def test_nothing_else_is_written(self):
        self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "1", cwd=self.folder.name))
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    suite.main()
