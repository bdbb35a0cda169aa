"""Catches: counts beyond INT_MAX that are truncated. MPI 3.1 counts in int; a silent wrap would measure a part of the
message and report a bandwidth that no network has."""

import sys

import suite
from suite import Case, perf

# Beyond 2^31, and odd, so that no block size divides it.
ODD = 2281701377
EVEN = 2281701376
NEEDS_BYTES = 14 << 30


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


class Large(Case):
    def check(self, collective, nbytes, *options):
        result = self.ok(perf(collective, 2, "-b", str(nbytes), "-e", str(nbytes), "-d", "int8", "-n", "1", "-w", "0",
                              "-J", self.path("r.json"), *options))
        row = result.rows()[0]
        self.assertEqual(row[0], str(nbytes), str(result))
        self.assertEqual(row[8], "0", str(result))
        return row

    def test_a_derived_type_moves_every_element(self):
        self.check("broadcast", ODD, "--placement", "out")

    @suite.in_more  # with a lowered limit: test/mpi/large_count_test.cpp
    def test_a_reduction_takes_several_calls(self):
        self.check("all_reduce", EVEN, "--placement", "out")


if __name__ == "__main__":
    if available_bytes() < NEEDS_BYTES:
        print(f"SKIPPED: {available_bytes() >> 30} GiB free, {NEEDS_BYTES >> 30} GiB needed for counts beyond INT_MAX")
        sys.exit(77)
    suite.main()
