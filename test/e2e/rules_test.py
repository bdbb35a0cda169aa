"""Catches: a shape of line that cannot be taught in one file; a site's rule that hides a finding or makes an OK; a bad
rule taken in silence; an id in JSON that --explain does not know; docs/messages.md left behind by the rules."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
HEALTHY = "".join(f"node1:{100 + rank}:{100 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55{rank}0 rank {rank} "
                  f"nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}1000 commId 0x77 - Init {word}\n"
                  for rank in (0, 1) for word in ("START", "COMPLETE"))
XID = "[  12.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
RULE = """schema: 1
rules:
  - id: site-storage
    kind: stalled
    match: 'flux client (?P<host>\\S+) waits for its server'
    means: the storage client of that host waits
    remedy: ask the storage team
    blame: named
    example: "flux client n07 waits for its server"
"""


class Rules(Case):
    def diagnose(self, *options, text=None, program=BUSBAR):
        if text is not None:
            self.write("job.log", text)
            options = (os.path.join(self.folder.name, "job.log"), *options)
        return subprocess.run([program, "diagnose", *options], capture_output=True, text=True, check=False)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_site_teaches_a_line_in_one_file(self):
        line = "flux client n07 waits for its server\n"
        rules = self.write("site.yaml", RULE)
        self.assertEqual(self.diagnose(text=HEALTHY + line).returncode, 0)
        found = self.diagnose("--rules", rules, "--json", text=HEALTHY + line)
        self.assertEqual(found.returncode, 4, found.stdout + found.stderr)
        document = json.loads(found.stdout)
        self.assertEqual([document[key] for key in ("verdict", "hosts", "rules")],
                         ["PROCESS_STOPPED", ["n07"], ["site-storage"]])
        self.assertIn("ask the storage team", document["next"])
        self.assertEqual(self.diagnose("--rules", rules, "--explain", "site-storage").returncode, 0)

    def test_one_of_the_shipped_files_teaches_a_line(self):
        """busbar again, with one file of configs/rules another: no other file of the project changes."""
        shipped = os.path.join(SOURCE, "configs/rules/lines/slurm.yaml")
        with open(shipped, encoding="utf-8") as file:
            taught = self.write("slurm.yaml", file.read() + RULE.split("rules:\n")[1].replace("ask the storage team", "slurm-who"))
        with open(os.path.join(suite.BUILD, "embedded_line_rules.cpp"), encoding="utf-8") as file:
            embedded = file.read()
        self.assertIn(shipped, embedded)
        source = self.write("embedded_line_rules.cpp", embedded.replace(shipped, taught))
        commands = subprocess.run(["ninja", "-C", suite.BUILD, "-t", "commands", "busbar" + suite.SUFFIX], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        compiled = next(line for line in commands if "-c " in line and "embedded_line_rules.cpp" in line)
        linked = commands[-1]
        objects, program = source + ".o", os.path.join(self.folder.name, "busbar")
        compiled = re.sub(r"-c \S+", f"-c {source}", re.sub(r"-o \S+", f"-o {objects}", compiled))
        linked = re.sub(r"-o \S+", f"{objects} -o {program}", linked)
        for command in (compiled, linked):
            subprocess.run(command, shell=True, check=True, cwd=suite.BUILD)
        text = HEALTHY + "flux client n07 waits for its server\n"
        self.assertEqual(self.diagnose(text=text).returncode, 0)
        document = json.loads(self.diagnose("--json", text=text, program=program).stdout)
        self.assertEqual([document[key] for key in ("verdict", "hosts", "rules")],
                         ["PROCESS_STOPPED", ["n07"], ["site-storage"]])
        self.assertEqual(self.diagnose("--explain", "site-storage", program=program).returncode, 0)

    def test_a_site_cannot_call_a_failure_harmless(self):
        xid = "[  12.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        rule = RULE.replace("flux client (?P<host>\\S+) waits for its server", "fallen off the bus")
        self.assertNotEqual(rule, RULE)
        weak = self.write("weak.yaml", rule)
        self.assertEqual(self.diagnose("--rules", weak, text=HEALTHY + xid).returncode, 3)
        for word in ("harmless", "no-error"):
            bad = self.write("bad.yaml", RULE.replace("stalled", word))
            refused = self.diagnose("--rules", bad, text=HEALTHY)
            self.assertEqual(refused.returncode, 255)
            self.assertIn("bad.yaml:3", refused.stderr)

    def test_words_decide_where_no_rule_explains(self):
        raised = "ModuleNotFoundError: No module named 'arrow'\n"
        steps = "".join(f"epoch 1 step {step} loss=2.{step}, lr=0.1\n" for step in range(5))
        for text, verdict, rules in ((raised, "CONFIG", ["words-config"]), (raised + XID, "HW_FAULT", ["xid-79"]),
                                     (HEALTHY + raised, "CONFIG", ["words-config"]), (raised + steps, "UNKNOWN", []),
                                     ("RuntimeError: NCCL error\n", "UNKNOWN", [])):
            document = json.loads(self.diagnose("--json", text=text).stdout)
            self.assertEqual((document["verdict"], document["rules"]), (verdict, rules), text)

    def test_a_bad_rule_is_refused_with_its_line(self):
        for right, slip in (("(?P", "((?P"), ("match:", "mach:"), ("schema: 1", "schema: 9")):
            wrong = RULE.replace(right, slip)
            refused = self.diagnose("--rules", self.write("bad.yaml", wrong), text=HEALTHY)
            self.assertEqual(refused.returncode, 255, refused.stdout)
            self.assertRegex(refused.stderr, r"bad\.yaml:\d+")

    def test_what_decided_can_be_explained(self):
        text = XID + "mlx5_core 0000:5e:00.0: device's health compromised\n"
        rules = json.loads(self.diagnose("--json", text=text).stdout)["rules"]
        self.assertEqual(rules, ["xid-79", "kernel-mlx5-health"])
        for rule in rules:
            explained = self.diagnose("--explain", rule)
            self.assertEqual(explained.returncode, 0, explained.stderr)
            self.assertIn("next", explained.stdout)
        self.assertEqual(*(self.diagnose("--explain", xid).stdout for xid in ("79", "xid-79")))
        unknown = self.diagnose("--explain", "xid")
        self.assertEqual(unknown.returncode, 255)
        self.assertIn("kernel-xid-action-required", unknown.stderr)

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no PyYAML here (make deps)")
    def test_the_page_lists_all_rules(self):
        checked = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts/messages_page.py"), "--check"],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout)


if __name__ == "__main__":
    suite.main()
