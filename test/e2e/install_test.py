#!/usr/bin/env python3
"""The bugs this would catch: a man page or a completion that lacks an option or offers one that is none, an installed
program that does not find the other or its plans, a library whose licence is not told, a program that loads libraries
from the working directory."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import suite

MANUAL = os.path.join(suite.BUILD, "manual")
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
SEARCH_PATHS = os.path.join(suite.ROOT, "scripts", "check_search_paths.sh")
OPTION = re.compile(r"(?<![\w=/-])--[a-z][\w-]*")


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], check=True, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE).stdout


def subcommands():
    return re.findall(r"^  (\w+) {2,}\S", help_of(BUSBAR), re.MULTILINE)


def completed(words, name, function=None):
    """What bash offers behind these words, with name's completion loaded."""
    line = " ".join(words)
    script = f'''source {os.path.join(MANUAL, "bash", name)}
COMP_WORDS=({line} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); compopt() {{ :; }}
_{function or name}; printf '%s\\n' "${{COMPREPLY[@]}}"'''
    done = subprocess.run(["bash", "-c", script], check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.split()


class Manual(suite.Case):
    def pairs(self):
        """(help, man page, words that are completed, completion's name)"""
        for name in suite.COLLECTIVES:
            yield help_of(suite.program(name)), f"{name}_perf.1", [f"{name}_perf"], f"{name}_perf"
        yield help_of(suite.program("comm")), "comm_perf.1", ["comm_perf"], "comm_perf"
        for name in subcommands():
            yield help_of(BUSBAR, name), f"busbar-{name}.1", ["busbar", name], "busbar"

    def test_pages_and_completions_have_the_options_of_the_help_and_no_other(self):
        for told, page, words, name in self.pairs():
            with self.subTest(page):
                # Of launchers, in examples.
                wanted = set(OPTION.findall(told)) - {"--hostfile"}
                self.assertGreater(len(wanted), 1)
                text = text_of(MANUAL, "man1", page)
                if text.startswith(".so "):
                    text = text_of(MANUAL, text.split()[1])
                plain = re.sub(r"\\f[BIR]", "", text.replace("\\-", "-"))
                self.assertEqual(set(OPTION.findall(plain)) - {"--hostfile"}, wanted)
                self.assertEqual({word for word in completed(words, name) if word.startswith("--")}, wanted)

    def test_values_are_completed_too(self):
        self.assertEqual(completed(["all_reduce_perf", "--placement"], "all_reduce_perf"), ["out", "in", "both"])
        self.assertEqual(completed(["busbar", "locate", "--unit"], "busbar"), ["host", "rank"])
        self.assertEqual(completed(["busbar", "locate", "--looks"], "busbar"), [])
        self.assertLessEqual(set(subcommands()) | {"help", "--licenses"}, set(completed(["busbar"], "busbar")))
        for words, offered in ((["accept"], "health-check"), (["compare"], "all_reduce"), (["fingerprint"], "scatter"),
                               (["history"], "trend"), (["help"], "diagnose"), (["compare", "--vary"], "NCCL_ALGO="),
                               (["compare", "-d"], "bfloat16")):
            self.assertIn(offered, completed(["busbar", *words], "busbar"), words)
        for option, last in (("-o", "all"), ("-d", "f8e5m2")):
            self.assertIn(last, completed(["all_reduce_perf", option], "all_reduce_perf"))

    def test_programs_are_completed_behind_launchers_too(self):
        for launcher in ("mpirun", "srun"):
            for words, offered in ((["all_reduce_perf", "--placement"], "both"), (["./busbar", "locate", "--unit"], "host"),
                                   (["busbar"], "accept"), (["comm_perf"], "--stat")):
                self.assertIn(offered, completed([launcher, "-n", "2", *words], "busbar", "busbar_launched"), words)
        self.assertEqual(completed(["mpirun", "-n", "2", "other"], "busbar", "busbar_launched"), [])
        self.assertIn("both", completed(["busbar", "repeat", "all_reduce_perf", "--placement"], "busbar"))
        listed = subprocess.run(["bash", "-c", f"source {os.path.join(MANUAL, 'bash', 'mpirun')}; complete -p mpirun"],
                                check=True, text=True, stdout=subprocess.PIPE).stdout
        self.assertIn("_busbar_launched", listed)

    def test_zsh_has_them_too(self):
        text = text_of(MANUAL, "zsh", "_busbar")
        for name in subcommands():
            body = re.search(rf"^_busbar_{name}\(\) {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)[1]
            offered = set(re.findall(r"^ +'(?:\([^)]*\))?(--[\w-]+)", body, re.MULTILINE))
            self.assertEqual(offered, set(OPTION.findall(help_of(BUSBAR, name))) - {"--hostfile"}, name)
        if shutil.which("zsh"):
            self.ok(suite.execute(["zsh", "-n", os.path.join(MANUAL, "zsh", "_busbar")]))

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_pages_are_well_formed(self):
        for page in sorted(os.listdir(os.path.join(MANUAL, "man1"))):
            done = subprocess.run(["groff", "-man", "-ww", "-z", "-I", MANUAL, os.path.join(MANUAL, "man1", page)],
                                  check=True, text=True, stderr=subprocess.PIPE)
            self.assertEqual(done.stderr, "", page)


class Installed(suite.Case):
    def test_installed_programs_find_each_other_and_their_plans(self):
        root = self.path("root")
        self.ok(suite.execute(["cmake", "--install", suite.BUILD, "--prefix", "/opt/busbar"], {"DESTDIR": root}))
        there = os.path.join(root, "opt", "busbar")
        for path in ("share/man/man1/busbar-accept.1", "share/bash-completion/completions/busbar",
                     "share/zsh/site-functions/_busbar", "share/busbar/configs/acceptance.yaml",
                     "share/busbar/slurm/accept.sbatch", "share/busbar/kubernetes/mpijob.yaml",
                     "share/busbar/grafana/busbar.json",
                     "share/doc/busbar/LICENSE", "share/doc/busbar/docs/index.md"):
            self.assertTrue(os.path.exists(os.path.join(there, path)), path)
        busbar = os.path.join(there, "bin", "busbar" + suite.SUFFIX)
        plan = self.ok(suite.execute([busbar, "accept", "health-check", "--backend", "mpi", "--dry-run"]))
        self.assertIn("health-check", plan.out)
        for program in ("all_reduce_perf", "comm_perf"):
            told = self.ok(suite.execute([os.path.join(there, "bin", program + suite.SUFFIX), "--help"])).out
            self.assertIn(program, told)
        self.ok(suite.execute([SEARCH_PATHS, root]))

    def test_licenses_name_what_is_linked(self):
        told = self.ok(suite.execute([BUSBAR, "--licenses"])).out
        self.assertTrue(told.startswith("Copyright (c) 2026, the busbar authors"))
        known = {"fmt": "{fmt}", "yaml-cpp": "yaml-cpp", "crypto": "OpenSSL", "sqlite3": "SQLite", "re2": "RE2",
                 "archive": "libarchive", "hwloc": "hwloc", "stdc++": "GCC", "gcc_s": "GCC", "mpi": "the MPI",
                 "mpich": "MPICH", "gloo": "Gloo"}
        modules = [os.path.join(suite.BUILD, f"libbusbar_{name}.so") for name in ("gloo", "mpi")]
        for program in (BUSBAR, suite.program("all_reduce"), *filter(os.path.exists, modules)):
            listed = subprocess.run(["readelf", "-d", program], check=True, text=True, stdout=subprocess.PIPE).stdout
            for library in re.findall(r"NEEDED.*\[lib([^\]]+?)\.so", listed):
                if library not in ("c", "m", "pthread", "dl", "rt"):  # the system's own
                    self.assertIn(known.get(library, f"nothing known of {library}"), told, program)


class SearchPaths(suite.Case):
    def linked_with(self, *options):
        """What the check says of a folder with one program that was linked so."""
        folder = self.path("linked")
        os.makedirs(folder)
        subprocess.run(["cc", "-x", "c", "-", "-o", os.path.join(folder, "program"), *options], check=True, text=True,
                       input="int main(void) { return 0; }")
        return suite.execute([SEARCH_PATHS, folder])

    def test_the_build_tree_searches_no_folder_that_depends_on_the_working_directory(self):
        done = self.ok(suite.execute([SEARCH_PATHS, suite.BUILD]))
        self.assertGreater(int(done.out.split()[0]), 20)

    def test_absolute_folders_and_the_program_s_own_are_safe(self):
        self.ok(self.linked_with("-Wl,-rpath,/usr/lib:$ORIGIN/../lib:${ORIGIN}"))

    def test_an_empty_and_a_relative_element_are_found_wherever_they_stand(self):
        for path in ("/usr/lib:", ":/usr/lib", "/usr/lib::$ORIGIN", "lib", "/usr/lib:../lib", "."):
            with self.subTest(path):
                done = self.linked_with(f"-Wl,-rpath,{path}")
                self.assertEqual(done.code, 1)
                self.assertIn(f"[{path}]", done.err)
                shutil.rmtree(self.path("linked"))


if __name__ == "__main__":
    if not os.path.isdir(MANUAL):
        print("SKIP: no manual was made (no Python when this was configured)")
        sys.exit(77)
    suite.main()
