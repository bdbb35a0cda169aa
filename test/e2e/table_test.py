"""Catches: output that scripts written for nccl-tests misread, and options that do not do what the contract says."""

import json
import os
import re

import suite
from suite import Case, perf


REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatterv")


class Table(Case):
    def test_every_executable_prints_the_contract_s_table(self):
        for name in suite.WITH_DATA:
            with self.subTest(name):
                result = self.ok(perf(name, 4, "-b", "1K", "-e", "4K", "-f", "2", "-n", "3"))
                rows = result.rows()
                # By distance go 0, 1/6, 2/6 and 3/6, each rounded down to 16 B: 160 + 336 + 512 of 1 KiB.
                by_distance = name in ("alltoallv", "all_gatherv", "reduce_scatterv", "gatherv", "scatterv")
                sizes = [1008, 2032, 4080] if by_distance else [1024, 2048, 4096]
                self.assertEqual([int(row[0]) for row in rows], sizes, str(result))
                self.assertTrue(all(len(row) == 13 for row in rows), str(result))
                no_in_place = name == "pingpong"
                for row in rows:
                    self.assertEqual(row[8], "0")
                    self.assertEqual(row[12], "N/A" if no_in_place else "0")
                    if no_in_place:
                        self.assertEqual(row[9:12], ["0.00", "0.00", "0.00"])
                    else:
                        self.assertGreater(float(row[9]), 0, str(result))
                    self.assertEqual(row[3], "sum" if name in REDUCING else "none")
                    rooted = name in ("broadcast", "reduce", "gather", "scatter", "gatherv", "scatterv")
                    self.assertEqual(row[4], "0" if rooted else "-1")

    def test_readers_find_both_halves_of_what_replaces_its_input(self):
        for name in suite.REPLACING:
            for more in ((), ("-m", "3"), ("-I", "1"), ("-c", "3", "-u", "3", "-d", "int8")):
                with self.subTest(name, more=more):
                    path = self.path(f"{name}{len(os.listdir(self.folder.name))}.json")
                    result = self.ok(perf(name, 3, "-b", "64K", "-e", "1M", "-f", "4", "-n", "4", "-J", path, *more))
                    with open(path, encoding="utf-8") as file:
                        document = json.load(file)
                    busbws = []
                    for entry in document["results"]:
                        half = entry["in_place"]
                        self.assertEqual(half["nwrong"], 0)
                        self.assertTrue(entry["busbar"]["in_place"]["measured"])
                        self.assertGreater(half["time"], 0)
                        self.assertEqual("in_place_per_iter" in entry, "-I" in more)
                        busbws += [entry["out_of_place"]["bus_bw"], half["bus_bw"]]
                        # By distance nobody gets back as much as he sends: only a copy can be sent from.
                        self.assertEqual("includes a copy" in (entry["busbar"]["note"] or ""), name == "alltoallv")
                    self.assertEqual("# in place, the time includes a copy" in result.out, name == "alltoallv")
                    # Both halves enter the average, as in nccl-tests.
                    average = float(result.line("# Avg bus bandwidth").split(":")[1])
                    self.assertAlmostEqual(average, sum(busbws) / len(busbws), delta=1e-4 * average)

    def test_equal_shares_need_no_copy_in_place(self):
        result = self.ok(perf("alltoallv", 4, "-b", "64K", "-e", "64K", env={"NCCL_TESTS_ALLTOALLV_SPREAD": "0"}))
        self.assertEqual(result.rows()[0][12], "0")
        self.assertNotIn("includes a copy", result.out)

    def test_one_half_alone_of_what_replaces_its_input(self):
        for name in suite.REPLACING:
            row = self.ok(perf(name, 2, "-b", "64K", "-e", "64K", "--placement", "in")).rows()[0]
            self.assertEqual((row[5], row[8], row[12]), ("0.00", "N/A", "0"))

    def test_a_barrier_is_one_row_without_data(self):
        for more in ((), ("-d", "all"), ("-m", "4"), ("-I", "1"), ("--stat", "--max-time", "0.3"), ("-r", "1")):
            with self.subTest(more):
                path = self.path(f"{len(os.listdir(self.folder.name))}.json")
                result = self.ok(perf("barrier", 3, "-b", "1K", "-e", "4K", "-f", "2", "-J", path, *more))
                self.assertEqual(len(result.rows()), 1, str(result))
                row = result.rows()[0]
                self.assertEqual(row[:5], ["0", "0", "int8" if "all" in more else "float", "none", "-1"], str(result))
                self.assertGreater(float(row[5]), 0)
                self.assertEqual(row[6:8], ["0.00", "0.00"], str(result))
                with open(path, encoding="utf-8") as file:
                    entry = json.load(file)["results"][0]
                self.assertEqual((entry["size"], entry["count"]), (0, 0))
                self.assertEqual(entry["busbar"]["in_place"], {"measured": False})

    def test_the_fixed_lines_stand_where_parsers_look(self):
        result = self.ok(perf("all_reduce", 2, "-b", "8", "-e", "1K", "-f", "2"))
        lines = result.out.splitlines()
        self.assertRegex(lines[0], r"^# busbar version \S+ backend=mpi library=Open MPI")
        self.assertEqual(lines[1], "# Collective test starting: all_reduce_perf")
        self.assertEqual(lines[2], "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 "
                                   "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0")
        devices = [line for line in lines if re.match(r"^#  Rank +\d+ Group +0 Pid +\d+ on +\S+ device +0 \[.+\] ", line)]
        self.assertEqual(len(devices), 2, str(result))
        self.assertTrue(all("host memory" in line for line in devices))
        self.assertEqual(result.line("# Out of bounds values"), "# Out of bounds values : 0 OK")
        self.assertRegex(result.line("# Avg bus bandwidth"), r"^# Avg bus bandwidth    : [0-9.e-]+ *$")
        footer = next(i for i, line in enumerate(lines) if line.startswith("# Out of bounds"))
        self.assertFalse([line for line in lines[:footer] if "bandwidth" in line or "FAILED" in line])
        self.assertEqual(result.line("# Collective test concluded"), "# Collective test concluded: all_reduce_perf")

    def test_mpi_is_told_of_the_threads_that_were_asked_for(self):
        for level in ("single", "funneled", "serialized", "multiple"):
            with self.subTest(level):
                path = self.path(f"{level}.json")
                asked = [] if level == "single" else ["--mpi-threads", level]
                result = self.ok(perf("all_reduce", 2, "-b", "8", "-e", "8", "-J", path, *asked))
                with open(path, encoding="utf-8") as file:
                    told = json.load(file)["busbar"]["mpi_threads"]
                self.assertEqual(told["asked"], level)
                # A library may grant less, or more.
                self.assertIn(f"# MPI threads: {told['got']}", result.out)
                if "library=Open MPI" in result.out:
                    self.assertEqual(told["got"], level)

    def test_buffers_are_rotated_as_in_nccl_tests_or_reused_as_in_osu(self):
        # -n 20: 20 messages of 1 KiB, the 8 of 8 KiB for which 64 KiB have room, and 1 of 64 KiB.
        for use, messages in (("rotate", [20, 8, 1]), ("reuse", [1, 1, 1])):
            for more in ((), ("--stat", "--cell-time", "0.1")):
                with self.subTest(use, more=more):
                    path = self.path(f"{use}{len(more)}.json")
                    result = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "64K", "-f", "8", "-J", path, "--buffers", use,
                                          *more))
                    with open(path, encoding="utf-8") as file:
                        document = json.load(file)
                    # --stat takes as many as there is room for, 256 at most.
                    wanted = [64] + messages[1:] if more and use == "rotate" else messages
                    sizes = [1024, 8192, 65536]
                    self.assertEqual([row["busbar"]["buffers"] for row in document["results"]],
                                     [{"messages": n, "bytes": n * size} for n, size in zip(wanted, sizes)])
                    self.assertEqual(document["busbar"]["buffers"], {"use": use, "bytes": 65536})
                    self.assertIn(f"; buffers: {use}, ", result.out)
                    self.assertIn("0 OK", result.line("# Out of bounds values"))

    def test_bandwidths_follow_from_time_and_size(self):
        result = self.ok(perf("all_reduce", 4, "-b", "1M", "-e", "1M"))
        row = result.rows()[0]
        time_us, algbw, busbw = float(row[5]), float(row[6]), float(row[7])
        self.assertAlmostEqual(algbw, 1048576 / time_us / 1e3, delta=0.006 + algbw * 0.01)
        self.assertAlmostEqual(busbw, algbw * 1.5, delta=0.02)

    def test_sizes_below_the_chunk_stay_as_rows_of_size_zero(self):
        result = self.ok(perf("all_gather", 4, "-b", "8", "-e", "128", "-f", "2", "-n", "2"))
        self.assertEqual([row[0:2] for row in result.rows()],
                         [["0", "0"], ["0", "0"], ["0", "0"], ["64", "4"], ["128", "8"]], str(result))

    def test_loops_are_dtype_op_root_size(self):
        result = self.ok(perf("reduce", 2, "-b", "64", "-e", "128", "-f", "2", "-n", "1", "-d", "all", "-o", "all",
                              "-r", "-1"))
        rows = result.rows()
        # 12 dtypes x 4 ops that MPI has x 2 roots x 2 sizes.
        self.assertEqual(len(rows), 12 * 4 * 2 * 2, str(result))
        self.assertEqual([row[2:5] + row[0:1] for row in rows[:5]],
                         [["int8", "sum", "0", "64"], ["int8", "sum", "0", "128"], ["int8", "sum", "1", "64"],
                          ["int8", "sum", "1", "128"], ["int8", "prod", "0", "64"]])
        self.assertTrue(all(row[8] == "0" and row[12] == "0" for row in rows), str(result))
        self.assertIn("MPI has no average operation", result.err)
        self.assertIn("MPI has no pre-multiplied sum", result.err)

    def test_skipped_everything_is_good_with_the_reason(self):
        result = self.ok(perf("hypercube", 3, "-b", "1K", "-e", "1K"))
        self.assertEqual(result.rows(), [])
        self.assertIn("power-of-two", result.err)

    def test_what_a_newcomer_overlooks_is_said(self):
        result = self.ok(perf("all_reduce", 2, "-b", "8", "-e", "8", "-o", "avg"))
        self.assertIn("# Nothing was measured: every row was skipped", result.out)
        self.assertIn("nothing was measured", result.err)
        self.assertIn("# 1 rank: nothing is communicated; for more: mpirun -n N\n",
                      self.ok(perf("all_reduce", 1, "-b", "8", "-e", "8")).out)
        self.assertNotIn("nothing is communicated", self.ok(perf("all_reduce", 2, "-b", "8", "-e", "8")).out)

    def test_the_help_keeps_to_the_terminal_s_width(self):
        for columns, widest in (("80", 80), ("nonsense", 100), ("7", 100)):
            told = self.ok(suite.execute([suite.program("all_reduce"), "--help"], {"COLUMNS": columns})).out
            options = [line for line in told.split("\n") if line.startswith(" " * 38)]
            self.assertLessEqual(max(map(len, options)), widest)
            self.assertGreater(max(map(len, options)), widest - 12)
            self.assertNotIn("(default:\n", told)

    def test_extra_columns_only_on_request(self):
        per_iteration = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-I", "1"))
        self.assertEqual(len(per_iteration.rows()[0]), 21, str(per_iteration))
        stamped = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-S", "1"))
        self.assertEqual(len(stamped.rows()[0]), 15, str(stamped))
        self.assertRegex(" ".join(stamped.rows()[0][13:]), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        cpu = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-C", "1"))
        self.assertEqual(cpu.out.count("cputime"), 2, str(cpu))

    def test_options_of_nccl_tests_are_taken_in_every_form(self):
        for options in (["-b8", "-e8"], ["--minbytes=8", "--maxbytes", "8"], ["-b", "8B", "-e", "0.0078125K"]):
            with self.subTest(options):
                result = self.ok(perf("all_reduce", 2, *options, "-n", "1"))
                self.assertEqual([row[0] for row in result.rows()], ["8"], str(result))

    def test_the_modes_run_and_stay_correct(self):
        for options in (["-m", "4"], ["-z", "1"], ["-z", "2"], ["-z", "3"], ["-a", "0"], ["-a", "2"], ["-a", "3"],
                        ["-w", "0"], ["-N", "2"], ["-c", "3"], ["-u", "3"], ["-M", "1"], ["-z", "3", "-I", "1"],
                        ["-m", "4", "-z", "1"], ["-I", "1", "-K", "2"]):
            with self.subTest(options):
                result = self.ok(perf("reduce_scatter", 3, "-b", "3K", "-e", "3K", "-n", "4", *options))
                self.assertEqual(len(result.rows()), 2 if "-N" in options else 1, str(result))
                self.assertIn("0 OK", result.line("# Out of bounds values"))

    def test_no_check_prints_na(self):
        result = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "-c", "0"))
        row = result.rows()[0]
        self.assertEqual((row[8], row[12]), ("N/A", "N/A"))
        self.assertEqual(result.line("# Out of bounds values"), "# Out of bounds values : 0 OK (not checked)")

    def test_placements_can_be_chosen(self):
        out_only = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "--placement", "out")).rows()[0]
        self.assertEqual((out_only[8], out_only[9], out_only[12]), ("0", "0.00", "N/A"))
        in_only = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", "--placement", "in")).rows()[0]
        self.assertEqual((in_only[5], in_only[8], in_only[12]), ("0.00", "N/A", "0"))

    def test_a_list_of_sizes_replaces_the_sweep(self):
        result = self.ok(perf("all_reduce", 2, "--sizes", "8,1K,64K", "-n", "2"))
        self.assertEqual([row[0] for row in result.rows()], ["8", "1024", "65536"], str(result))

    def test_splits_run_side_by_side(self):
        for split in ("MOD 2", "%2", "AND 0x1", "&0b1", "DIV 2"):
            with self.subTest(split):
                result = self.ok(perf("all_gather", 4, "-b", "1K", "-e", "1K", env={"NCCL_TESTS_SPLIT": split}))
                groups = re.findall(r"Group +(\d+)", result.out)
                self.assertEqual(sorted(groups), ["0", "0", "1", "1"], str(result))
        masked = self.ok(perf("all_gather", 4, "-b", "1K", "-e", "1K", env={"NCCL_TESTS_SPLIT_MASK": "0x2"}))
        self.assertEqual(re.findall(r"Group +(\d+)", masked.out), ["0", "0", "2", "2"], str(masked))

    def test_alltoallv_reads_its_matrix(self):
        matrix = self.write("matrix.txt", "0 1600 320\n160 0 640\n3200 0 480\n")
        result = self.ok(perf("alltoallv", 3, "-b", "8K", "-e", "8K",
                              env={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": matrix}))
        # The largest sum of a row or column: 3200 + 480.
        self.assertEqual(result.rows()[0][0], "3680", str(result))
        self.assertEqual((result.rows()[0][8], result.rows()[0][12]), ("0", "0"))

    def test_blocks_follow_the_matrix_too(self):
        matrix = self.write("matrix.txt", "0 1600 320\n160 0 640\n3200 0 480\n")
        # Column 2 to gather to rank 2, row 0 to scatter from rank 0; without a root as with rank 0.
        for name, root, size, moved in (("gatherv", 2, 1440, "#   rank=1 send_bytes=640 recv_bytes=0 "),
                                        ("scatterv", 0, 1920, "#   rank=1 send_bytes=0 recv_bytes=1600 "),
                                        ("all_gatherv", 0, 3360, "#   rank=1 send_bytes=160 recv_bytes=3360 "),
                                        ("reduce_scatterv", 0, 1920, "#   rank=1 send_bytes=1920 recv_bytes=1600 ")):
            for spread in ("matrix", "0", "0.5", "1"):
                with self.subTest(name, spread=spread):
                    env = {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}
                    if spread == "matrix":
                        env["NCCL_TESTS_ALLTOALLV_MATRIX_FILE"] = matrix
                    else:
                        env["NCCL_TESTS_ALLTOALLV_SPREAD"] = spread
                    result = self.ok(perf(name, 3, "-b", "6K", "-e", "6K", "-r", str(root), "-d", "int8,double", env=env))
                    self.assertEqual([(row[8], row[12]) for row in result.rows()], [("0", "0")] * 2, str(result))
                    if spread == "matrix":
                        self.assertEqual({row[0] for row in result.rows()}, {str(size)}, str(result))
                        self.assertEqual(result.out.count(moved), 2, str(result))

    def test_a_threshold_decides_the_exit_code(self):
        good = self.ok(perf("all_reduce", 2, "-b", "1K", "-e", "1K", env={"NCCL_TESTS_MIN_BW": "1e-9"}))
        self.assertTrue(good.line("# Avg bus bandwidth").endswith("OK"), str(good))
        bad = perf("all_reduce", 2, "-b", "1K", "-e", "1K", env={"NCCL_TESTS_MIN_BW": "1e9"})
        self.assertEqual(bad.code, 7, str(bad))
        self.assertTrue(bad.line("# Avg bus bandwidth").endswith("FAILED"), str(bad))


class Readers(Case):
    """The six ways in which programs of others read nccl-tests' output, as 31 of them do, on a golden row and on a run."""

    ROW = "        1024           256     float     sum      -1    12.34    0.08    0.12       0    11.11    0.09    0.14       0"

    @staticmethod
    def by_regex(text):
        """Out-of-place busbw by size: a Go or Python regular expression over a whole log, tags and time stamps allowed."""
        return {int(size): float(busbw) for size, busbw in re.findall(
            r"(?m)^.*?\b(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+\d+\s", text)}

    @staticmethod
    def by_tokens(text):
        """Time, algbw and busbw of both halves by size: lines that begin with a digit, 13 tokens, by place."""
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]
        assert all(len(row) == 13 for row in rows), text
        return {int(row[0]): [float(row[i]) for i in (5, 6, 7, 9, 10, 11)] for row in rows}

    @staticmethod
    def by_titles(text):
        """In-place busbw by size: columns by their titles, counted from the end."""
        titles = next(line for line in text.splitlines() if "time" in line and "busbw" in line).lstrip("#").split()
        at, at_size = len(titles) - 1 - titles[::-1].index("busbw") - len(titles), titles.index("size")
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]
        return {int(row[at_size]): float(row[at]) for row in rows}

    @staticmethod
    def by_grep(text):
        """The average: grep 'Avg bus bandwidth    : ' | awk '{print $NF}', and awk's $6."""
        found = [line.split() for line in text.splitlines() if "# Avg bus bandwidth    : " in line]
        assert len(found) == 1 and found[0][5] == found[0][-1], text
        return float(found[0][-1])

    @staticmethod
    def by_verdict(text):
        """Whether data are right: one line "# Out of bounds values : 0 OK", and FAILED nowhere."""
        return text.count("# Out of bounds values : 0 OK") == 1 and "FAILED" not in text

    @staticmethod
    def by_devices(text):
        """Ranks, hosts and devices of the header."""
        return re.findall(r"Rank\s+(\d+)\s+Group\s+\d+\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[(.+?)\]\s+(\S.*)", text)

    def test_each_reads_its_golden_row(self):
        self.assertEqual(self.by_regex(self.ROW), {1024: 0.12})
        self.assertEqual(self.by_regex("2026-11-25T00:00:00.1Z stdout F [1,0]<stdout>:" + self.ROW), {1024: 0.12})
        self.assertEqual(self.by_tokens(self.ROW), {1024: [12.34, 0.08, 0.12, 11.11, 0.09, 0.14]})
        titles = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"
        self.assertEqual(self.by_titles(titles + "\n" + self.ROW), {1024: 0.14})
        self.assertEqual(self.by_grep("# Avg bus bandwidth    : 0.13"), 0.13)
        self.assertTrue(self.by_verdict("# Out of bounds values : 0 OK"))
        self.assertFalse(self.by_verdict("# Out of bounds values : 3 FAILED"))
        self.assertEqual(self.by_devices("#  Rank  0 Group  0 Pid   1234 on      node0 device  0 [core 3] host memory"),
                         [("0", "node0", "0", "core 3", "host memory")])

    def test_each_reads_our_runs_as_json_has_them(self):
        for name, more in (("all_reduce", ()), ("alltoall", ()), ("sendrecv", ("-a", "3")), ("broadcast", ("-c", "0"))):
            with self.subTest(name):
                path = self.path(name + ".json")
                text = self.ok(perf(name, 2, "-b", "64K", "-e", "1M", "-f", "4", "-n", "4", "-J", path, *more)).out
                with open(path, encoding="utf-8") as file:
                    document = json.load(file)
                rows = {row["size"]: row for row in document["results"]}
                for size, row in rows.items():
                    halves = [row[half][key] for half in ("out_of_place", "in_place") for key in ("time", "alg_bw", "bus_bw")]
                    for read, wanted in zip(self.by_tokens(text)[size], halves):
                        self.assertAlmostEqual(read, wanted, delta=0.006 + 0.006 * wanted)
                    self.assertEqual(self.by_titles(text)[size], self.by_tokens(text)[size][5])
                    if "-c" not in more:  # this one wants a number of wrong elements
                        self.assertEqual(self.by_regex(text)[size], self.by_tokens(text)[size][2])
                self.assertEqual(set(self.by_tokens(text)), set(rows))
                self.assertAlmostEqual(self.by_grep(text), document["average_bus_bandwidth"]["bandwidth"], delta=1e-3)
                self.assertTrue(self.by_verdict(text))
                self.assertEqual([int(rank) for rank, *_ in self.by_devices(text)], [0, 1])

    def test_no_line_but_the_table_s_own_looks_like_it(self):
        flip = ("--inject", "rank=1,op=2,kind=flip")
        for name, more, code in (("all_reduce", (), 0), ("all_reduce", flip, 7), ("all_reduce", ("--topology",), 0),
                                 ("alltoallv", ("-M", "1", "-S", "1"), 0), ("barrier", (), 0), ("pingpong", (), 0),
                                 ("all_reduce", ("--stat", "--max-time", "1", "--per-rank"), 0),
                                 ("all_reduce", ("--show-algo", "-I", "1"), 0), ("hypercube", ("-c", "0"), 0),
                                 ("all_reduce", ("-o", "avg"), 0)):
            with self.subTest(name, more=more):
                result = perf(name, 2, "-b", "8", "-e", "1K", "-f", "8", "-n", "3", *more)
                self.assertEqual(result.code, code, str(result))
                table = ("# Avg bus bandwidth", "# Out of bounds values")
                for line in result.out.splitlines():
                    if "bandwidth" in line.lower() or "FAILED" in line:
                        self.assertTrue(line.startswith(table), line)
                    if re.match(r"\s*\d", line):
                        self.assertRegex(line, r"^\s*\d+\s+\d+\s+[a-z]\w*\s+\w+\s+-?\d+(\s+\S+){8,}")


if __name__ == "__main__":
    suite.main()
