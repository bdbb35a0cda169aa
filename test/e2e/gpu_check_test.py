#!/usr/bin/env python3
"""The bugs this would catch: a first GPU, lent for minutes, on which gpu_check.sh finds no NCCL, asks for what NCCL
cannot tell, runs out of time and calls that failed, or needs a library that the machine lacks. What it calls are
stand-ins."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import suite

SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(SOURCE, "scripts", "gpu_check.sh")
FAKE_PERF = os.path.join(suite.BUILD, "test", "fake_gpu_perf")
KERNELS = os.path.join(suite.BUILD, "test", "kernels_gpu")

# The facts come first, and most that they may take is not a stage's.
FACTS_S = 30
TOTAL_S = 570

NVIDIA_SMI = """#!/bin/sh
i=0
while [ $i -lt "${FAKE_GPUS:-1}" ]; do echo "$i, Fake GPU"; i=$((i + 1)); done
"""

# Ranks on one GPU become GPUs of one process; they are one host then, whose windows would mean symmetric kernels.
MPIRUN = f"""#!{sys.executable}
import os, sys
nranks, program, options = sys.argv[2], os.path.basename(sys.argv[6]), sys.argv[7:]
kept = []
while options:
    word = options.pop(0)
    if word in ("--ranks-per-gpu", "-R"):
        options.pop(0)
    else:
        kept.append(word)
os.environ["NCCL_HOME"] = os.path.join(os.path.dirname({FAKE_PERF!r}), "fake_nccl")
os.execv({FAKE_PERF!r}, ["fake_gpu_perf", program.removesuffix("_perf"), "-g", nranks] + kept)
"""

# Each command takes 1000 s, although nobody waits.
SLOW = 'timeout() { SECONDS=$((SECONDS + 1000)); shift 3; "$@"; }\n'


class GpuCheck(suite.Case):
    def setUp(self):
        super().setUp()
        for folder in ("path", "build", "build/test"):
            os.mkdir(self.path(folder))
        self.executable("path/nvidia-smi", NVIDIA_SMI)
        self.executable("path/ldconfig", "#!/bin/sh\n")
        for collective in suite.COLLECTIVES:
            self.executable(f"build/{collective}_perf", "#!/bin/sh\necho '# library=NCCL 2.28.9'\nexit ${FAKE_EXIT:-0}\n")
        self.executable("build/test/kernels_gpu", "#!/bin/sh\nexit ${FAKE_EXIT:-0}\n")

    def executable(self, name, text):
        os.chmod(self.write(name, text), 0o755)

    def check(self, *words, **env):
        settings = {"PATH": self.path("path") + os.pathsep + os.environ["PATH"], "BUSBAR_BUILD": self.path("build"),
                    "NCCL_HOME": "", "LD_LIBRARY_PATH": "", "PYTHONPATH": "", **env}
        return suite.execute(["bash", SCRIPT, "--logs", self.path("logs"), *words], settings)

    def test_exit_codes_tell_failure_lack_of_time_and_lack_of_a_gpu_apart(self):
        done = self.check("kernels", "multi")
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"PASS kernels .*\nSKIP multi .*\(one GPU\)")
        done = self.check("kernels", FAKE_EXIT="3")
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"FAIL kernels .*\(1 failed, first: FAILED with 3 instead of 0")
        done = self.check("kernels", FAKE_GPUS="0")
        self.assertEqual(done.code, 5, str(done))
        self.assertIn("no GPU here", done.err)

    def test_a_stage_without_its_time_is_skipped_and_not_failed(self):
        done = self.check("--time", "149", "hang", "multi")
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP hang .*\(no time left: it may take 150 s, and \d+ s are left\)")
        self.assertIn("gpu_check: INCOMPLETE", done.out)
        # A shorter one still runs, and its failure is what counts.
        done = self.check("--time", "149", "hang", "bench", FAKE_EXIT="3")
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"FAIL bench .*\nSKIP hang ")

    def test_a_stage_whose_time_ends_is_not_failed_unless_something_did(self):
        slow = self.write("slow.sh", SLOW)
        done = self.check("single", BASH_ENV=slow)
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP single .*\(the stage's time is over: ")
        done = self.check("single", BASH_ENV=slow, FAKE_EXIT="3")
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"FAIL single .*\(1 failed, first: FAILED with 3")

    def test_each_part_fits_its_time_and_every_stage_is_in_one(self):
        listed = re.findall(r"^(\w+) +part (\d), at most +(\d+) s: ", self.ok(self.check("--list")).out, re.MULTILINE)
        self.assertEqual(len(listed), len(self.ok(self.check("--list")).out.splitlines()))
        for part in "12":
            limits = [int(limit) for _, of, limit in listed if of == part]
            self.assertLessEqual(sum(limits) + FACTS_S, TOTAL_S, part)
            done = self.check("--part", part, "--time", "1")
            self.assertEqual(done.code, 8, str(done))
            told = re.findall(r"^SKIP (\w+) ", done.out.split("Summary")[0], re.MULTILINE)
            self.assertEqual(told, [name for name, of, _ in listed if of == part])

    def test_what_does_not_exist_is_refused_with_the_choices(self):
        done = self.check("kernels", "kernel")
        self.assertEqual(done.code, 255, str(done))
        self.assertIn("no stage is called 'kernel'", done.err)
        self.assertIn("\nsanitizer ", done.err)
        for words in (["--part", "3"], ["--part"], ["--time", "soon"], ["--part", "1", "kernels"]):
            self.assertEqual(self.check(*words).code, 255, words)

    def test_nccl_is_found_in_a_python_package_unless_the_user_or_the_loader_has_one(self):
        home = self.path("site/nvidia/nccl")
        os.makedirs(os.path.join(home, "lib"))
        self.write("site/nvidia/nccl/lib/libnccl.so.2", "")
        self.write("site/nvidia/nccl/__init__.py", "raise SystemExit('a package was run')\n")
        site = {"PYTHONPATH": self.path("site")}
        self.assertIn(f"NCCL 2.28.9, NCCL_HOME={home}\n", re.sub(" +", " ", self.check("multi", **site).out))
        self.assertIn("NCCL_HOME=/elsewhere\n", self.check("multi", **site, NCCL_HOME="/elsewhere").out)
        of_loader = self.check("multi", **site, LD_LIBRARY_PATH=os.path.join(home, "lib"))
        self.assertNotIn("NCCL_HOME", of_loader.out)
        self.executable("path/ldconfig", "#!/bin/sh\necho '	libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2'\n")
        self.assertNotIn("NCCL_HOME", self.check("multi", **site).out)
        self.executable("path/ldconfig", "#!/bin/sh\n")
        # The first python3 on PATH may be another one.
        self.executable("path/python3", "#!/bin/sh\nexit 1\n")
        self.assertIn(f"NCCL_HOME={home}\n", self.check("multi", **site).out)
        self.assertNotIn("NCCL_HOME", self.check("multi").out)

    @unittest.skipUnless(os.access(FAKE_PERF, os.X_OK), "built without CUDA and NCCL headers")
    def test_algo_asks_only_what_nccl_can_tell(self):
        self.executable("path/mpirun", MPIRUN)
        os.symlink(os.path.join(suite.BUILD, "libbusbar_tuner.so"), self.path("build/libbusbar_tuner.so"))
        done = self.check("algo")
        with open(self.path("logs/algo.log"), encoding="utf-8") as log:
            self.assertEqual(done.code, 0, log.read())


@unittest.skipUnless(os.access(KERNELS, os.X_OK) and shutil.which("readelf"), "built without CUDA, or no readelf")
class Kernels(unittest.TestCase):
    def test_the_kernels_test_needs_only_what_every_machine_has(self):
        told = subprocess.run(["readelf", "-d", KERNELS], check=True, text=True, stdout=subprocess.PIPE).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", told)
        self.assertIn("libc.so.6", needed)
        usual = re.compile(r"(ld-linux.*|lib(c|m|gcc_s|stdc\+\+|pthread|rt|dl|asan|ubsan))\.so\.\d+")
        self.assertEqual([name for name in needed if not usual.fullmatch(name)], [])
        # Where the linker drops what nobody references, the path to it still tells that MPI was asked for.
        self.assertEqual(re.findall(r"\(R(?:UN)?PATH\).*mpi.*", told), [])


if __name__ == "__main__":
    suite.main()
