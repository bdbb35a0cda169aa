#!/usr/bin/env python3
"""The bug this would catch: a benchmark that links what only `busbar` does (an acceptance, a comparison, the history's
database, the report), so that everybody who wants a table builds and loads it."""

import glob
import os
import re
import shutil
import unittest

import suite


def defined(path):
    """Names that a library or program defines."""
    told = suite.execute(["nm", "--defined-only", "--format=posix", path])
    return {line.split()[0] for line in told.out.splitlines() if len(line.split()) > 2}


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", suite.execute(["readelf", "-d", path]).out)


def libraries(kind):
    return glob.glob(os.path.join(suite.BUILD, f"libbusbar_{kind}*.a"))


@unittest.skipUnless(shutil.which("nm") and shutil.which("readelf"), "no binutils")
class Walls(suite.Case):
    def test_a_benchmark_links_no_room_of_the_driver(self):
        # With BUSBAR_UNITY the rooms are two libraries, else one each.
        rooms = {path: {name for name in defined(path) if "busbar" in name} for path in libraries("driver_")}
        self.assertGreater(sum(map(len, rooms.values())), 1000)
        shared = set().union(*(defined(path) for kind in ("common_", "kernels", "collectives", "programs_perf")
                               for path in libraries(kind)))
        # Templates and inline functions of the standard library are in every object.
        benchmark = defined(suite.program("all_reduce"))
        ranks = defined(os.path.join(suite.BUILD, "busbar" + suite.SUFFIX))
        for path, names in rooms.items():
            own = {name for name in names - shared if not name.startswith(("_ZNK3fmt", "_ZN3fmt"))}
            with self.subTest(room=os.path.basename(path)):
                self.assertEqual(sorted(own & benchmark)[:3], [])
                # And the test sees them where they are; merging and history need no ranks.
                if not re.search("_(merge|repeat|history|diagnose|report|command)", path):
                    self.assertTrue(own & ranks)

    def test_a_benchmark_holds_no_record_that_only_busbar_writes(self):
        names = suite.execute(["nm", "-C", "--defined-only", suite.program("all_reduce")]).out
        for word in ("busbar::accept_json", "busbar::read_accept_json", "sqlite3_", "busbar::report_html"):
            self.assertNotIn(word, names)
        self.assertIn("busbar::table_row", names)

    def test_what_calls_mpi_is_in_the_module_and_nothing_of_cuda(self):
        module = os.path.join(suite.BUILD, "libbusbar_mpi.so")
        self.assertTrue([name for name in needed(module) if name.startswith("libmpi")])
        self.assertNotIn("cuda", suite.execute(["nm", module]).out)
        for program in (suite.program("all_reduce"), os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)):
            self.assertEqual([name for name in needed(program) if "mpi" in name], [])

    def test_only_what_keeps_histories_needs_the_database(self):
        self.assertEqual([name for name in needed(suite.program("all_reduce")) if "sqlite" in name], [])
        self.assertTrue([name for name in needed(os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)) if "sqlite" in name])


if __name__ == "__main__":
    suite.main()
