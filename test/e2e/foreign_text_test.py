"""Catches: a log, a configuration, a result file, a name or a setting that steers the terminal of who reads what busbar
says of it, or shows another text than is there: escape sequences, C1 control characters in both spellings, marks of the
direction of writing."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case  # noqa: E402

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
FROZEN = os.path.join(suite.ROOT, "test", "frozen", "recorded")
EVIL = "\x1b]0;renamed\x07\x1b[2J\x7f\x9b31m\x85\u202eevil\u2066\u200f\u061c"
# Also as a terminal of one byte per character reads C1.
RAW = EVIL.encode() + b"\x9b2J\x85"
BAD = {*range(0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a),
       *range(0xdc80, 0xdd00)} - {ord("\n")}  # the last range: bytes that are no UTF-8


def texts_of(document, at=()):
    """Where the texts of a document are: paths, with "*" for every item of a list."""
    if isinstance(document, str):
        return {at}
    items = ()
    if isinstance(document, dict):
        items = document.items()
    if isinstance(document, list):
        items = [("*", value) for value in document]
    return {path for key, value in items for path in texts_of(value, (*at, key))}


def with_evil(document, at):
    if not at:
        return document + EVIL if isinstance(document, str) else document
    if isinstance(document, list):
        return [with_evil(value, at[1:]) for value in document] if at[0] == "*" else document
    if isinstance(document, dict) and at[0] in document:
        return {**document, at[0]: with_evil(document[at[0]], at[1:])}
    return document


class ForeignText(Case):
    def harmless(self, words, env=None, shows=True):
        """A command that says nothing bad; of the text it does say what is harmless, where it shows it."""
        done = subprocess.run(["timeout", str(suite.LIMIT_S), *words], cwd=self.folder.name, stdin=subprocess.DEVNULL,
                              env={**os.environb, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        for said in (done.stdout, done.stderr):
            bad = sorted({hex(ord(c)) for c in said.decode(errors="surrogateescape") if ord(c) in BAD})
            self.assertEqual(bad, [], f"{words}: {said!r}"[:4000])
        if shows:
            self.assertIn(b"evil", done.stdout + done.stderr, f"{words}: {done.stdout!r} {done.stderr!r}"[:4000])

    def file(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def test_every_text_of_every_document(self):
        good = os.path.join(FROZEN, "run_stat_2.json")
        for name, commands in (("accept_slow.json", [["report", "-o", "r.html"], ["history", "--history", "h.db", "add"]]),
                               ("compare.json", [["report", "-o", "r.html"]]),
                               ("locate_slow.json", [["report", "-o", "r.html"]]),
                               ("doctor_merged.json", [["doctor", "-v", "--merge"], ["report", "-o", "r.html"]]),
                               ("run_stat_1.json", [["merge", good], ["report", "-o", "r.html"]]),
                               ("hang_stopped.json", [["diagnose"]])):
            with open(os.path.join(FROZEN, name), encoding="utf-8") as file:
                document = json.load(file)
            for at in sorted(texts_of(document)):
                path = self.file("evil.json", json.dumps(with_evil(document, at), ensure_ascii=False).encode())
                for words in commands:
                    with self.subTest(file=name, at=at, words=words):
                        self.harmless([BUSBAR, *words, path], shows=False)
                        if os.path.exists(self.path("r.html")):  # the page, and the data in it
                            with open(self.path("r.html"), encoding="utf-8") as page:
                                self.assertEqual([hex(ord(c)) for c in page.read() if ord(c) in BAD - {9}], [])
                            os.remove(self.path("r.html"))
        for words in (["list"], ["show", "1"]):
            self.harmless([BUSBAR, "history", *words, "--history", "h.db"], shows=False)

    def test_names_on_the_command_line(self):
        evil = os.fsdecode(RAW)
        for words in (["report", evil], ["merge", evil, evil], ["diagnose", evil], ["accept", evil],
                      ["doctor", "--merge", evil], ["history", "list", "--history", evil], [evil], ["report", "--" + evil],
                      ["workload", evil], ["workload", "import", evil], ["workload", "show", evil], ["compare", evil], ["accept", "acceptance", "--backend", evil, "--dry-run"]):
            with self.subTest(words=words):
                self.harmless([BUSBAR, *words])
        for words in (["--config", evil], ["-b", evil], ["-J", "/nowhere/" + evil], ["--" + evil]):
            with self.subTest(words=words):
                self.harmless([suite.program("all_reduce"), *words])

    def test_configurations_plans_matrices_and_settings(self):
        for text in ("minbytes: '%'\n", "%: 8\n", "schema: 1\n%\n", "schema: '%'\n"):
            config = self.file("evil.yaml", text.replace("%", "evil\x9b31m\u202e").encode())
            for words in ([suite.program("all_reduce"), "--config", config], [BUSBAR, "accept", config],
                          [BUSBAR, "compare", "--config", config]):
                with self.subTest(text=text, words=words[0]):
                    self.harmless(words)
        matrix = self.file("evil.txt", b"1 2 " + RAW)
        self.harmless([suite.program("alltoallv"), "--backend", "mpi", "-b", "8", "-e", "8"],
                      {b"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": os.fsencode(matrix)})
        self.harmless([suite.program("all_reduce"), "--backend", "mpi", "-b", "8", "-e", "8"], {b"NCCL_TESTS_SPLIT": RAW})

    def test_logs(self):
        lines = [b"evil:12:34 [0] NCCL WARN evil " + RAW, b"evil:12:34 [0] NCCL INFO evil " + RAW,
                 b"[rank0]: RuntimeError: evil " + RAW, b"mpirun noticed that process rank 0 on node evil" + RAW,
                 RAW + b":12:34 [0] NCCL WARN evil Net failed"]
        for line in (*lines, b"\n".join(lines)):
            log = self.file("evil.log", line + b"\n")
            for option in ([], ["--unknown"], ["--json"]):
                with self.subTest(line=line[:40], option=option):
                    self.harmless([BUSBAR, "diagnose", *option, log], shows=False)

    def test_what_a_launcher_says(self):
        script = self.file("evil.sh", b"#!/bin/sh\ncat <<'END' >&2\nevil " + RAW + b"\nEND\nexit 3\n")
        os.chmod(script, 0o755)
        plan = self.write("plan.yaml", "schema: 1\nstages: [whole]\ncells: [{name: a, collective: all_reduce, sizes: 8}]\n")
        self.harmless([BUSBAR, "accept", plan, "--launch", script + " {cmd}", "-J", self.path("evil.json")])
        self.harmless([BUSBAR, "compare", "all_reduce", "-b", "8", "-e", "8", "--vary", "UCX_TLS=evil", "--launch",
                       script + " {cmd}"])


if __name__ == "__main__":
    suite.main()
