"""Catches: a report that a browser cannot show: errors on its console, empty charts, values that nobody can read by mouse
or keyboard, names that run as scripts, a page that says nothing without its script. Skipped, and CTest says so, where
there is no Chromium or Chrome."""

import json
import os
import re
import sys

import browser
import suite
from suite import Case, mpirun, perf

# Where a person can look at what the browser drew.
PICTURES = os.environ.get("BUSBAR_REPORT_PICTURES")
STAT = os.path.join(suite.SCRATCH.name, "stat.json")


def setUpModule():
    """A run of a benchmark for all tests."""
    result = perf("all_reduce", 2, "-b", "8", "-e", "1M", "-f", "8", "--stat", "--per-rank", "--max-time", "2",
                  "-J", STAT)
    assert result.code == 0, str(result)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class InABrowser(Case):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def show(self, *files):
        out = self.path("r.html")
        self.ok(suite.report(*files, "-o", out))
        self.browser.scheme("light")
        self.browser.open(out)
        return out

    def quiet(self):
        self.assertEqual(self.browser.console, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith("file://")], [])
        self.assertEqual(len(self.browser.requests), 1)

    def picture(self, name, least):
        path = os.path.join(PICTURES or self.folder.name, name + ".png")
        self.browser.screenshot(path)
        self.assertGreater(os.path.getsize(path), least)

    def test_it_draws_and_says_nothing_on_the_console(self):
        self.show(STAT)
        for kind in ("bandwidth", "latency", "skew"):
            self.assertGreater(self.browser.run(f"document.querySelectorAll('figure[data-kind={kind}] .mark').length"), 1)
        self.picture("light", 20_000)
        paper = "getComputedStyle(document.body).backgroundColor"
        line = "getComputedStyle(document.querySelector('figure .stroke')).stroke"
        light = [self.browser.run(paper), self.browser.run(line)]
        self.browser.scheme("dark")
        self.picture("dark", 20_000)  # after which the page has seen the change
        self.assertNotEqual(self.browser.run(paper), light[0])
        self.assertNotEqual(self.browser.run(line), light[1])
        # On paper the charts are drawn for white, even where the screen is dark.
        self.browser.scheme("dark", "print")
        self.assertEqual(self.browser.run(line), light[1])
        self.browser.scheme("dark")
        self.browser.pdf(self.path("r.pdf"))
        self.assertGreater(os.path.getsize(self.path("r.pdf")), 20_000)
        self.quiet()

    def test_the_mouse_shows_the_values_of_the_file(self):
        self.show(STAT)
        row = json.loads(read(STAT))["results"][-1]
        self.assertEqual(row["size"], 262144)
        self.browser.point_at("figure[data-kind=latency] .plot > svg", 0.97)
        shown = self.browser.run("document.querySelector('figure[data-kind=latency] .tip').innerText")
        self.assertIn("256 KiB", shown)
        median_us = 1e6 * row["busbar"]["out_of_place"]["stats"]["median_s"]
        number, unit = re.search(r"out of place\s+([\d.]+) (µs|ms|s)\b", shown).groups()
        shown_us = float(number) * {"µs": 1, "ms": 1e3, "s": 1e6}[unit]
        self.assertAlmostEqual(shown_us, median_us, delta=0.01 * median_us)  # three digits
        self.browser.point_at("figure[data-kind=bandwidth] .plot > svg", 0.97)
        self.assertIn("GB/s", self.browser.run("document.querySelector('figure[data-kind=bandwidth] .tip').innerText"))
        self.browser.point_at("h1")
        self.assertTrue(self.browser.run("document.querySelector('.tip').hidden"))
        self.quiet()

    def test_the_keyboard_switches_lines_and_reads_values_out(self):
        self.show(STAT)
        drawn = "document.querySelector('figure[data-kind=bandwidth] .stroke').getBoundingClientRect().width > 0"
        self.assertTrue(self.browser.run(drawn))
        # Tab goes through the page's links to the first switch.
        focused = "document.activeElement.matches('.legend input')"
        for _ in range(20):
            if self.browser.run(focused):
                break
            self.browser.key("Tab", 9)
        self.assertTrue(self.browser.run(focused))
        self.browser.key(" ", 32, " ")
        self.assertFalse(self.browser.run(drawn))
        self.browser.key(" ", 32, " ")
        self.assertTrue(self.browser.run(drawn))
        focused = "document.activeElement.matches('figure svg')"
        for _ in range(20):
            if self.browser.run(focused):
                break
            self.browser.key("Tab", 9)
        self.browser.key("ArrowRight", 39)
        self.browser.key("ArrowRight", 39)
        said = self.browser.run("document.querySelector('.readout').textContent")
        self.assertIn("64 B", said)
        self.assertIn("GB/s", said)
        self.quiet()

    def test_on_a_telephone_every_column_of_the_criteria_is_in_view(self):
        plan = self.write("plan.yaml", "schema: 1\nstages: [whole]\ndefaults: {cell-time: 1, placement: out}\ncells:\n"
                                       "  - {name: reach, collective: all_reduce, stages: whole, sizes: 64K,\n"
                                       "     criteria: {busbw: 1000000}}\n")
        accepted = self.path("a.json")
        result = mpirun(2, [os.path.join(suite.BUILD, "busbar" + suite.SUFFIX), "accept", plan, "--backend", "mpi", "-J",
                            accepted])
        self.assertEqual(result.code, 7, str(result))
        self.browser.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
        self.addCleanup(self.browser.call, "Emulation.clearDeviceMetricsOverride")
        self.show(accepted)
        self.assertEqual(self.browser.run("document.documentElement.scrollWidth"), 400)
        outside = self.browser.run("[...document.querySelectorAll('.stacked td')].filter((e) => e.offsetParent && "
                                   "e.getBoundingClientRect().right > 400).map((e) => e.innerText)")
        self.assertEqual(outside, [])
        labels = self.browser.run("[...document.querySelectorAll('.stacked td')].map((e) => e.dataset.label)")
        self.assertIn("found", labels)
        self.picture("telephone", 20_000)
        self.quiet()

    def test_names_do_nothing(self):
        hostile = "</script><script>window.caught = 1</script><img src=x onerror='window.caught = 1'>"
        document = json.loads(read(STAT))
        document["busbar"]["hosts"] = [hostile]
        document["busbar"]["library"] = hostile
        for row in document["results"]:
            for half in ("out_of_place", "in_place"):
                for rank in row["busbar"][half]["stats"]["ranks"]:
                    rank["host"] = hostile
        self.show(self.write("hostile.json", json.dumps(document)))
        self.browser.point_at("figure[data-kind=skew] .plot > svg", 0.3)
        self.assertIn("onerror", self.browser.run("document.querySelector('figure[data-kind=skew] .tip').innerText"))
        self.assertIsNone(self.browser.run("window.caught === undefined ? null : window.caught"))
        self.quiet()

    def test_without_its_script_it_still_says_everything(self):
        out = self.path("r.html")
        self.ok(suite.report(STAT, "-o", out))
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.addCleanup(lambda: self.browser.call("Emulation.setScriptExecutionDisabled", value=False))
        self.browser.open(out)
        text = self.browser.run("document.body.innerText")
        self.assertIn("no wrong data", text)
        self.assertIn("the tables say the same", text)
        self.assertIn("--backend mpi -b 8 -e 1M", text)
        self.assertEqual(self.browser.run("[...document.querySelectorAll('figure svg')].filter((c) => c.getBoundingClientRect().width > 0).length"), 0)


if __name__ == "__main__":
    if not browser.find():
        print("report_page_test: SKIPPED: no Chromium or Chrome to show the report's page in (make deps)", file=sys.stderr)
        sys.exit(77)
    suite.main()
