"""Catches: start-up, memory or checking that grows faster than the number of ranks."""

import suite
import suite
from suite import Case, perf


class Scale(Case):
    def test_sixty_four_ranks_on_one_machine(self):
        result = self.ok(perf("all_reduce", 64, "-b", "8", "-e", "64K", "-f", "16", "-n", "2", "-w", "0"))
        self.assertEqual(result.out.count("#  Rank"), 64)
        self.assertTrue(all(row[8] == "0" and row[12] == "0" for row in result.rows()), str(result))

    @suite.in_more
    def test_sixty_four_ranks_gather(self):
        result = self.ok(perf("all_gather", 64, "-b", "64K", "-e", "64K", "-n", "2", "-w", "0"))
        self.assertEqual([row[:2] for row in result.rows()], [["65536", "256"]], str(result))
        self.assertIn("0 OK", result.line("# Out of bounds values"))


if __name__ == "__main__":
    suite.main()
