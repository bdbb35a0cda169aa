#!/usr/bin/env python3
"""The bugs this would catch: a first GPU, lent for minutes, on which gpu_check.sh finds no NCCL, asks for what NCCL cannot
tell, runs out of time and calls that failed, or needs a library that the machine lacks. What it calls are stand-ins."""

import os
import re
import sys
import unittest

import suite

SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(SOURCE, "scripts", "gpu_check.sh")
FAKE_PERF = os.path.join(suite.BUILD, "test", "fake_gpu_perf")

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


if __name__ == "__main__":
    suite.main()
