"""Catches: a report that is lost, too large or made of what is none, and a bad name that costs a result. What a browser
makes of it is looked at in report_page_test.py."""

import json
import os

import suite
from suite import Case, perf

STAT, PLAIN = (os.path.join(suite.SCRATCH.name, name) for name in ("stat.json", "plain.json"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def setUpModule():
    """Two runs of a benchmark for all tests."""
    options = ["-b", "8", "-e", "1M", "-f", "8"]
    for result in (perf("all_reduce", 2, *options, "--stat", "--per-rank", "--max-time", "2", "-J", STAT),
                   perf("all_reduce", 2, *options, "-n", "5", "-J", PLAIN)):
        assert result.code == 0, str(result)


class Files(Case):
    def test_a_report_of_two_runs(self):
        out = self.path("r.html")
        self.assertIn("wrote " + out, self.ok(suite.report(STAT, PLAIN, "-o", out)).out)
        page = read(out)
        self.assertLess(len(page), 2_000_000)
        self.assertIn("plain.json against stat.json", page)
        self.assertIn("What was run", page)
        # An earlier report is kept.
        self.ok(suite.report(STAT, "-o", out, "--title", "Ours"))
        self.assertEqual(read(out), page)
        self.assertIn("<h1>Ours</h1>", read(out + ".0"))

    def test_it_needs_no_launcher_and_speaks_once_under_one(self):
        result = self.ok(suite.mpirun(2, [os.path.join(suite.BUILD, f"busbar{suite.SUFFIX}"), "report", PLAIN, "-o",
                                          self.path("r.html")]))
        self.assertEqual(result.out.count("wrote"), 1)
        self.assertEqual(os.listdir(self.folder.name), ["r.html"])

    def test_what_is_no_result_is_an_error_with_what_is_taken(self):
        self.fails(suite.report(self.write("x.txt", "hello")), 255, "x.txt", "-J of a benchmark")
        self.fails(suite.report(self.write("y.json", '{"results": []}')), 255, "y.json", "nccl-tests")
        self.fails(suite.report("/nonexistent.json"), 255, "/nonexistent.json")
        self.fails(suite.report(PLAIN, "-o", "/nonexistent/r.html"), 255, "/nonexistent/r.html")
        self.fails(suite.report(), 255, "name the result files")
        self.fails(suite.report(PLAIN, "--titel", "x"), 255, "--title")
        self.fails(suite.report(PLAIN, "-n", "3"), 255, "-n")

    def test_4096_ranks_fit(self):
        document = json.loads(read(STAT))
        half = document["results"][0]["busbar"]["out_of_place"]["stats"]
        half["ranks"] = [dict(half["ranks"][0], rank=rank, host=f"a-long-host-name-{rank // 8}") for rank in range(4096)]
        document["results"] = [document["results"][0]] * 20
        out = self.path("r.html")
        self.ok(suite.report(self.write("big.json", json.dumps(document)), "-o", out))
        self.assertLess(os.path.getsize(out), 2_000_000)


if __name__ == "__main__":
    suite.main()
