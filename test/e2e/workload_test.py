#!/usr/bin/env python3
"""Catches: `busbar workload` that counts a trace wrongly, reads one that it must refuse, or writes a job that it cannot
show; and traces that are compressed, in archives, cut or of another job. The traces and their numbers are ours."""

import gzip
import json
import os
import re
import shutil
import subprocess

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workload")
TWO = [os.path.join(TRACES, f"kineto_rank{rank}.json") for rank in (0, 1)]


def workload(*words):
    return suite.execute([BUSBAR, "workload", *words])


class Workload(suite.Case):
    def imported(self, *files):
        """What stdout and the JSON say."""
        path = self.path("job.json")
        if os.path.exists(path):
            os.remove(path)
        result = self.ok(workload("import", *files, "-J", path))
        with open(path, encoding="utf-8") as file:
            return result, json.load(file)

    def test_two_ranks_of_a_training_job(self):
        result, job = self.imported(*TWO)
        self.assertIn("Bound by computing, 55 % of a step.", result.out)
        self.assertEqual(job["nranks"], 2)
        calls = {o["call"]: o for o in job["operations"]}
        self.assertEqual(calls["all_reduce"]["in_bytes"], 4 << 20)
        self.assertEqual(calls["all_reduce"]["calls"], 6)
        self.assertEqual((calls["all_gather"]["in_bytes"], calls["all_gather"]["out_bytes"]), (1 << 19, 1 << 20))
        self.assertEqual(calls["all_gather"]["dtype"], "bfloat16")
        # Rank 1 comes 1 ms later to an all_reduce that takes 2 ms from then on.
        self.assertAlmostEqual(calls["all_reduce"]["times"]["from_last_s"], 2e-3)
        self.assertAlmostEqual(calls["all_reduce"]["times"]["busbw"], (4 << 20) / 2e-3 / 1e9)
        self.assertEqual((job["late"][0]["rank"], job["late"][0]["last"]), (1, 3))
        step = job["steps"][0]
        parts = [step[part] for part in ("computing_s", "exposed_s", "copying_s", "idle_s")]
        for part, by_hand in zip(parts, (5.5e-3, 2e-3, 0.3e-3, 2.2e-3)):
            self.assertAlmostEqual(part, by_hand)
        self.assertAlmostEqual(step["input_s"], 1e-3)

    def test_each_kind_of_trace(self):
        for name, rank, calls in (("kineto_old.json", 3, {"alltoallv": 3}),
                                  ("kineto_old.json.gz", 3, {"alltoallv": 3}),
                                  ("dump_rank_0.json", 0, {"all_reduce": 4, "reduce_scatter": 4, "alltoallv": 4, "send": 4}),
                                  ("dump_rank_1.pickle", 1, {"all_reduce": 4, "reduce_scatter": 4, "alltoallv": 4, "recv": 4}),
                                  ("inspector_rank2.log", 2, {"all_reduce": 4, "reduce_scatter": 4})):
            _, job = self.imported(os.path.join(TRACES, name))
            counted = {}
            for o in job["operations"]:
                counted[o["call"]] = counted.get(o["call"], 0) + o["calls"]
            self.assertEqual(counted, calls, name)
            self.assertEqual([s["rank"] for s in job["sources"]], [rank], name)
        for name in ("two_ranks.log", "two_ranks.log.zst"):
            result, job = self.imported(os.path.join(TRACES, name))
            self.assertEqual([s["rank"] for s in job["sources"]], [0, 1])
            self.assertIn("2 calls repeated 3 times", result.out)
            self.assertIn("24 x sends and receives (counted as alltoall)", result.out)

    def test_what_a_source_dropped_is_said_and_kept(self):
        with open(os.path.join(TRACES, "dump_rank_0.json"), encoding="utf-8") as file:
            dump = json.load(file)
        for i, entry in enumerate(dump["entries"]):
            entry["record_id"] = 90 + i
        result, job = self.imported(self.write("dump_rank_0.json", json.dumps(dump)))
        self.assertIn("90 x calls that the dump no longer has", result.out)
        self.assertEqual(job["left_out"][0]["count"], 90)
        with open(TWO[0], encoding="utf-8") as file:
            trace = json.load(file)
        trace["traceEvents"] = [e for e in trace["traceEvents"] if e["name"] != "ProfilerStep#5"]
        result, job = self.imported(self.write("kineto.json", json.dumps(trace)))
        self.assertRegex(result.out, r"\d+ calls? \([0-9.]+ % of all\) are outside the steps and in no figure per step")
        self.assertGreater(sum(o["left_out"] for o in job["operations"]), 0)

    def test_a_trace_without_a_rank_gets_a_number_that_is_left(self):
        with open(TWO[0], encoding="utf-8") as file:
            trace = json.load(file)
        del trace["distributedInfo"]
        result, job = self.imported(self.write("a.json", json.dumps(trace)), TWO[0])
        self.assertIn("rank 1: the trace does not say its rank", result.out)
        self.assertEqual([s.get("rank") for s in job["sources"]], [0, None])

    def test_the_file_is_shown_as_it_was_imported(self):
        job, page = self.path("job.yaml"), self.path("job.html")
        imported = self.ok(workload("import", *TWO, "-o", job, "--report", page))
        self.assertEqual(self.ok(workload("show", job)).out, imported.out)
        with open(page, encoding="utf-8") as file:
            self.assertIn('class="lane-exposed" d="M', file.read())
        with open(job, encoding="utf-8") as file:
            lines = file.read().splitlines()
        line = next(i for i, text in enumerate(lines) if "call: all_reduce" in text)
        lines[line] = lines[line].replace("all_reduce", "all_reduec")
        bad = self.write("bad.yaml", "\n".join(lines))
        self.fails(workload("show", bad), 255, f"bad.yaml:{line + 1}: ", "did you mean all_reduce")
        self.fails(workload("import", job), 255, "workload show")

    def test_what_is_written_before_the_events(self):
        with open(TWO[0], encoding="utf-8") as file:
            trace = json.load(file)
        said, _ = self.imported(self.write("plain.json", json.dumps(trace)))
        wrapped = {"metadata": {"model": ["layer"] * 5000}, **trace}
        self.assertEqual(self.imported(self.write("wrapped.json", json.dumps(wrapped)))[0].out, said.out)

    def test_half_of_a_size_is_no_size(self):
        with open(os.path.join(TRACES, "kineto_old.json"), encoding="utf-8") as file:
            trace = json.load(file)
        trace["traceEvents"] = [e for e in trace["traceEvents"] if not e["name"].startswith("c10d::")]
        result, job = self.imported(self.write("old.json", json.dumps(trace)))
        self.assertEqual([(o["call"], o.get("out_bytes"), o["nbytes"]) for o in job["operations"]
                          if o["call"] == "alltoallv"], [("alltoallv", None, 0)])
        self.assertIn("3 calls (100.0 % of all) have no known size", result.out)

    def test_compressed_and_in_archives(self):
        plain, _ = self.imported(*TWO)
        packed = []
        for file in TWO:
            packed.append(self.path(os.path.basename(file) + ".gz"))
            with open(file, "rb") as source, gzip.open(packed[-1], "wb") as target:
                shutil.copyfileobj(source, target)
        self.assertEqual(self.imported(*packed)[0].out, plain.out)
        archive = self.path("all.tar.gz")
        subprocess.run(["tar", "-C", TRACES, "-czf", archive, *map(os.path.basename, TWO)], check=True)
        self.assertEqual(self.imported(archive)[0].out, plain.out)

    def test_what_is_refused(self):
        for name, text, words in (
                ("et.json", '{"schema": "1.1.0-chakra.0.0.4", "nodes": []}', "an execution trace of PyTorch"),
                ("param.json", '[{"comms": "wait", "req": 1}]', "trace of PARAM"),
                ("x.et", "\x07\n\x050.0.4H\x12", "a Chakra trace"),
                ("none.txt", "hello", "none of these: a trace of PyTorch's profiler"),
                ("empty.json", "", "it is empty"),
                ("quiet.log", "h:1:1 [0] NCCL INFO cudaDriverVersion 13000\n", "no lines of calls"),
                ("other.json", '{"metadata": [1, 2]}', "no list of traceEvents"),
                ("no.json", '{"schemaVersion": 1, "traceEvents": []}', "holds no communication call")):
            self.fails(workload("import", self.write(name, text)), 255, name, words)
        self.fails(workload("import", TWO[0], TWO[0][:-6] + "1.json", os.path.join(TRACES, "dump_rank_0.json")), 255,
                   "are not of one job")
        with gzip.open(self.path("empty.json.gz"), "wb"):
            pass
        self.fails(workload("import", self.path("empty.json.gz")), 255, "empty.json.gz: it is empty")
        copy = self.path("again.json")
        shutil.copy(TWO[0], copy)
        self.fails(workload("import", TWO[0], copy), 255, "are both of rank 0")
        self.fails(workload("impot", TWO[0]), 255, "did you mean import")
        self.fails(workload(), 255, "workload import")
        self.fails(workload("import", "/no/such/file"), 255, "no such file")
        self.fails(suite.execute([BUSBAR, "diagnose", TWO[0]]), 255, "`busbar workload import`")

    def test_cut_and_hostile_traces(self):
        with open(TWO[0], encoding="utf-8") as file:
            text = file.read()
        cut = self.write("cut.json", text[:len(text) * 3 // 4])
        result, _ = self.imported(cut)
        self.assertIn("ends too early", result.out)
        self.assertIn("traces of 1 of 2 ranks: 0", result.out)
        huge = re.sub(r'"In msg nelems": \d+', '"In msg nelems": 9223372036854775807', text)
        result, _ = self.imported(self.write("huge.json", huge))
        self.assertIn("have no known size and are in no total", result.out)
        self.fails(workload("import", self.write("deep.json", '{"traceEvents": ' + "[" * 200000)), 255, "ends too early")
        evil = self.write("evil.json", text.replace("ProfilerStep#5", "ProfilerStep#\\u001b[31m5"))
        self.assertNotIn("\x1b", self.imported(evil)[0].out)

    def test_a_compressed_log_that_is_cut(self):
        with open(os.path.join(TRACES, "two_ranks.log"), "rb") as file:
            log = file.read()
        packed = gzip.compress(log * 400)
        cut = self.path("cut.log.gz")
        with open(cut, "wb") as file:
            file.write(packed[:len(packed) // 2])
        result, job = self.imported(cut)
        self.assertIn("its rest: ", result.out)
        self.assertGreater(sum(o["calls"] for o in job["operations"]), 0)

    def test_a_folder_with_other_files(self):
        folder = self.path("job")
        os.mkdir(folder)
        for file in TWO:
            shutil.copy(file, folder)
        with open(os.path.join(folder, "et.json"), "w", encoding="utf-8") as file:
            file.write('{"schema": "1.1.0", "nodes": []}')
        result, _ = self.imported(folder)
        self.assertIn("2 ranks of Kineto traces", result.out)
        self.assertIn("an execution trace of PyTorch", result.out)


if __name__ == "__main__":
    suite.main()
