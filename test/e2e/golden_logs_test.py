"""Catches: a verdict on a real log that has become wrong, and findings in it that are no longer made.

The samples are excerpts of logs from public threads with a header of comments, "# verdict: OK" and "# findings: a, b"
among them. They are not part of the project: they are looked for in $BUSBAR_NCCL_LOGS, else in ../shared/nccl_logs
beside the checkout, and without them the test skips. The header is stripped into a copy with another name first, so
that the answer is not in the input. golden_findings.py says what counts as a finding that was made.
"""

import glob
import os
import re
import sys

import golden_findings
import suite
from diagnosis import diagnose

# What was reached (see the body of the commit that set it): fewer is a step back.
LEAST_RATE = 0.9


def samples_folder():
    beside = os.path.join(os.environ.get("BUSBAR_SOURCE", "."), "..", "shared", "nccl_logs")
    return os.environ.get("BUSBAR_NCCL_LOGS") or beside


def header(lines, name):
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(f"# {name}:")), "")


class GoldenLogs(suite.Case):
    def test_verdicts_and_findings_of_real_logs(self):
        wrong, misses, made, all_findings = [], [], 0, 0
        for number, path in enumerate(sorted(glob.glob(os.path.join(samples_folder(), "*.txt")))):
            name = os.path.basename(path)
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            # A table's own '#' lines come later; the header ends with its first other line.
            end = next(i for i, line in enumerate(lines) if not re.match(r"#( \w|  )", line))
            head, body = lines[:end], lines[end:]
            answer = diagnose([self.write(f"sample{number}.log", "\n".join(body))])
            sample = golden_findings.Sample(body, answer)
            expected = header(head, "verdict")
            if answer.verdict != expected:
                wrong.append(f"{name}: {answer.verdict or answer}, not {expected}; said: {answer.claims()[:400]}")
            for finding in header(head, "findings").split(", "):
                all_findings += 1
                was_made = golden_findings.found(finding, sample)
                made += bool(was_made)
                if not was_made:
                    misses.append(f"{name}: {finding}" + (" (no rule)" if was_made is None else ""))
        print("\n".join(["findings not made:"] + misses), file=sys.stderr)
        print(f"{made} of {all_findings} findings ({made / all_findings:.1%})", file=sys.stderr)
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreaterEqual(made / all_findings, LEAST_RATE)


if __name__ == "__main__":
    if not glob.glob(os.path.join(samples_folder(), "*.txt")):
        print(f"SKIPPED: no samples of real logs in {samples_folder()} (set BUSBAR_NCCL_LOGS)", file=sys.stderr)
        sys.exit(77)
    suite.main()
