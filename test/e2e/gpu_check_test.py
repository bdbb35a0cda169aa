#!/usr/bin/env python3
"""The bugs this would catch: a first GPU, lent for minutes, on which gpu_check.sh finds no NCCL or one that is too old,
asks for what NCCL or the GPU's mode cannot give, counts GPUs that CUDA does not show, runs out of time and calls that
failed, needs a library that the machine lacks, or does not say beforehand what it would run. What it calls are
stand-ins."""

import json
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


# Each command is ended by its limit, although nobody waits.
ENDLESS = "timeout() { SECONDS=$((SECONDS + $3)); return 124; }\n"


class GpuCheck(suite.Case):
    def setUp(self):
        super().setUp()
        for folder in ("path", "build", "build/test"):
            os.mkdir(self.path(folder))
        self.executable("path/nvidia-smi", NVIDIA_SMI)
        self.executable("path/ldconfig", "#!/bin/sh\n")
        for collective in [*suite.COLLECTIVES, "comm"]:
            self.executable(f"build/{collective}_perf", "#!/bin/sh\necho '# library=NCCL 2.28.9'\nexit ${FAKE_EXIT:-0}\n")
        self.executable("build/test/kernels_gpu", "#!/bin/sh\nexit ${FAKE_EXIT:-0}\n")

    def executable(self, name, text):
        os.chmod(self.write(name, text), 0o755)

    def copy_of_script(self, text):
        """With other text, where it finds the list of collectives as the script itself does."""
        for folder in ("copy/scripts", "copy/src/collectives"):
            os.makedirs(self.path(folder))
        shutil.copy(os.path.join(SOURCE, "src", "collectives", "collective_list.h"), self.path("copy/src/collectives"))
        return self.write("copy/scripts/gpu_check.sh", text)

    def check(self, *words, script=SCRIPT, **env):
        settings = {"PATH": self.path("path") + os.pathsep + os.environ["PATH"], "BUSBAR_BUILD": self.path("build"),
                    "NCCL_HOME": "", "LD_LIBRARY_PATH": "", "PYTHONPATH": "", **env}
        return suite.execute(["bash", script, "--logs", self.path("logs"), *words], settings)

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
        done = self.check("--time", "139", "hang", "multi")
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP hang .*\(no time left: it may take 140 s, and \d+ s are left\)")
        self.assertIn("gpu_check: INCOMPLETE", done.out)
        # A shorter one still runs, and its failure is what counts.
        done = self.check("--time", "139", "hang", "bench", FAKE_EXIT="3")
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

    def test_a_command_that_the_stages_time_cuts_short_is_not_failed(self):
        self.executable("build/all_reduce_perf", '#!/bin/sh\ncase "$*" in *" -T "*) exec sleep 600 ;; esac\n')
        with open(SCRIPT, encoding="utf-8") as file:
            text, changed = re.subn(r'"single +1 +\d+ ', '"single 1 2 ', file.read())
        self.assertEqual(changed, 1)
        done = self.check("single", script=self.copy_of_script(text))
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP single .*\(the stage's time is over, \d+ s into: .*all_reduce_perf ")

    def test_what_had_time_to_report_a_hang_and_did_not_is_failed(self):
        endless = self.write("endless.sh", ENDLESS)
        # 60 s are the time of the stage, and that after which ranks begin to report.
        done = self.check("single", BASH_ENV=endless)
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP single .*\(the stage's time is over, 60 s into: ")
        for stage, seconds, gpus in (("nccl2", 110, "1"), ("multi", 540, "8")):
            done = self.check(stage, BASH_ENV=endless, FAKE_GPUS=gpus)
            self.assertEqual(done.code, 1, str(done))
            hang = f"FAILED: a hang of {seconds} s without its report"
            self.assertRegex(done.out, rf"FAIL {stage} .*\(1 failed, first: {hang}")
        # Nobody told these when to end.
        self.executable("path/compute-sanitizer", "#!/bin/sh\n")
        done = self.check("kernels", "sanitizer", BASH_ENV=endless)
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"SKIP kernels .*\(the stage's time is over, 60 s into: .*\n"
                         r"SKIP sanitizer .*\(the stage's time is over, 110 s into: ")

    def test_several_gpus_have_a_part_of_their_own_that_ends_with_repetition(self):
        self.executable("path/mpirun", "#!/bin/sh\n")
        for collective in [*suite.COLLECTIVES, "comm"]:
            self.executable(f"build/{collective}_perf", "#!/bin/sh\necho '  8  RING  LL  2'\n")
        self.ok(self.check("--part", "3", FAKE_GPUS="8"))
        with open(self.path("logs/multi.log"), encoding="utf-8") as log:
            commands = [line[2:] for line in log if line.startswith("$ ")]
        kinds = ["rank" if line.startswith("mpirun -n 8 ") else line[line.index("nccl ") + 5:][:4] for line in commands]
        self.assertEqual([kind for i, kind in enumerate(kinds) if kinds[i - 1:i] != [kind]], ["-g 8", "-t 8", "rank"])
        by_g = {re.search(r"(\w+)_perf", line)[1] for line in commands if " -g 8 " in line}
        self.assertEqual(by_g, {*suite.COLLECTIVES, "comm"})

    def test_each_part_fits_its_time_and_every_stage_is_in_one(self):
        listed = re.findall(r"^(\w+) +part (\d), at most +(\d+) s: ", self.ok(self.check("--list")).out, re.MULTILINE)
        self.assertEqual(len(listed), len(self.ok(self.check("--list")).out.splitlines()))
        for part in "123":
            limits = [int(limit) for _, of, limit in listed if of == part]
            self.assertLessEqual(sum(limits) + FACTS_S, TOTAL_S, part)
            done = self.check("--part", part, "--time", "1", FAKE_GPUS="2")
            self.assertEqual(done.code, 8, str(done))
            told = re.findall(r"^SKIP (\w+) ", done.out.split("Summary")[0], re.MULTILINE)
            self.assertEqual(told, [name for name, of, _ in listed if of == part])

    def test_a_dry_run_says_what_would_run_where_and_why_not(self):
        done = self.check("--dry-run", "--part", "1", "--time", "5000")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("\nkernels    part 1, at most  60 s: on GPU 0\n", done.out)
        done = self.check("--dry-run", "--part", "3")
        self.assertIn("\nmulti      part 3, not run: one GPU\n", done.out)
        done = self.check("--dry-run", FAKE_GPUS="0")
        self.assertEqual(done.code, 5, str(done))
        self.assertRegex(done.out, r"^0 GPUs\nkernels +part 1, not run: no GPU\n")
        # Another machine's GPUs, which this one need not have.
        h100 = self.write("facts.log", "host      dgx, 224 CPUs\n" + "".join(
            f"GPU       {i}, NVIDIA H100 80GB HBM3, 580.82.07, 81559 MiB, 0000:{i:02X}:00.0, Default\n"
            for i in range(8)))
        done = self.check("--dry-run", "--recorded", h100, "--part", "1", FAKE_GPUS="0")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("8 GPUs, of ", done.out)
        self.assertIn("\n7, NVIDIA H100 80GB HBM3, ", done.out)
        self.assertIn("\nnccl8      part 1, at most  90 s: on GPU 0\n", done.out)
        done = self.check("--dry-run", "--recorded", h100, "--part", "3", FAKE_GPUS="0")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("\nmulti      part 3, at most 540 s: on GPUs 0 to 7\n", done.out)
        self.assertFalse(os.path.exists(self.path("logs")))
        # Both parts together do not fit one call, and it says where the time ends.
        done = self.check("--dry-run", "--recorded", h100)
        self.assertEqual(done.code, 8, str(done))
        self.assertRegex(done.out, r"\nhang +part 2, not run: no time left: it may take 140 s, and \d+ s are left\n")
        self.assertEqual(self.check("kernels", "--recorded", h100).code, 255)

    def test_the_json_file_has_every_stage_and_tells_later_runs_what_they_take(self):
        def written():
            with open(self.path("out.json"), encoding="utf-8") as file:
                return json.load(file)

        self.executable("build/test/kernels_gpu", '#!/bin/sh\n[ "$1" != --bench ] || exit 3\n')
        done = self.check("kernels", "bench", "multi", "--json", self.path("out.json"))
        self.assertEqual(done.code, 1, str(done))
        told = written()
        self.assertEqual((told["result"], told["exit_code"], told["gpus"]), ("FAIL", 1, ["0, Fake GPU"]))
        self.assertEqual([(s["name"], s["result"]) for s in told["stages"]],
                         [("kernels", "PASS"), ("bench", "FAIL"), ("multi", "SKIP")])
        self.assertEqual([s["note"] for s in told["stages"]][2], "one GPU")
        self.assertIn("FAILED with 3 instead of 0", told["stages"][1]["note"])
        # What passed is taken to need half as long again; what failed, its limit.
        self.write("earlier.json", json.dumps(told).replace('"seconds": 0', '"seconds": 10').replace("}, {", "},\n{"))
        done = self.check("--dry-run", "--estimates", self.path("earlier.json"), "kernels", "bench")
        self.assertIn("\nkernels    part 1, at most  20 s: ", done.out)
        self.assertIn("\nbench      part 1, at most  20 s: ", done.out)
        done = self.check("kernels", "--json", self.path("out.json"), FAKE_GPUS="0")
        self.assertEqual((done.code, written()["result"]), (5, "NO GPU"))

    def test_gpus_are_those_that_cuda_shows(self):
        line = "0, NVIDIA H100, CUDA 13.0, 81559 MiB, 0000:1B:00.0, Default"
        self.executable("build/test/kernels_gpu", f'#!/bin/sh\n[ "$1" != --gpus ] || echo "{line}"\n')
        # One of eight, as with CUDA_VISIBLE_DEVICES.
        done = self.check("kernels", "multi", FAKE_GPUS="8")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn(f"\nGPU       {line}\n", done.out)
        self.assertRegex(done.out, r"PASS kernels .*\nSKIP multi .*\(one GPU\)")
        # A container without nvidia-smi.
        self.executable("path/nvidia-smi", "#!/bin/sh\nexit 127\n")
        self.ok(self.check("kernels"))
        # All are there, but not for CUDA.
        self.executable("path/nvidia-smi", NVIDIA_SMI)
        self.executable("build/test/kernels_gpu", "#!/bin/sh\necho 'CUDA shows none (driver too old)'\nexit 77\n")
        done = self.check("kernels", FAKE_GPUS="8")
        self.assertEqual(done.code, 5, str(done))
        self.assertIn("no GPU here: CUDA shows none (driver too old)", done.err)

    def test_a_gpu_for_one_process_alone_is_not_shared(self):
        shared = ["nccl2", "nccl4", "nccl8", "json", "options", "algo", "hang", "accept"]
        for mode, skipped in (("Default", []), ("Exclusive_Process", shared), ("Prohibited", ["kernels"] + shared)):
            line = f"0, Fake GPU, 580.82.07, 81559 MiB, 0000:1B:00.0, {mode}"
            self.executable("path/nvidia-smi", f"#!/bin/sh\necho '{line}'\n")
            done = self.ok(self.check("--dry-run", "--time", "5000", "kernels", *shared))
            told = re.findall(r"^(\w+) .*not run: compute mode (\w+): ", done.out, re.MULTILINE)
            self.assertEqual(told, [(name, mode) for name in skipped])

    def test_more_than_4_gib_are_checked_where_there_is_the_memory(self):
        told = "# wrong: rank 0: 1 of 9663676416 elements wrong, first 4831838208 last 4831838208, got 119"
        self.executable("build/alltoall_perf", '#!/bin/sh\necho "# library=NCCL 2.28.9"\n'
                        f'case "$*" in *kind=flip*) echo "$TOLD"; exit 7 ;; esac\n')
        self.executable("build/all_reduce_perf", '#!/bin/sh\necho "# library=NCCL 2.28.9"\n'
                        'case "$*" in *"-b 5G -e 5G "*) exit "$CODE_5G" ;; esac\n')
        self.ok(self.check("large", TOLD=told, CODE_5G="0"))
        for settings in ({"TOLD": told.replace("4831838208", "536870912"), "CODE_5G": "0"},
                         {"TOLD": told, "CODE_5G": "7"}):
            done = self.check("large", **settings)
            self.assertEqual(done.code, 1, str(done))
        self.executable("path/nvidia-smi", "#!/bin/sh\necho '0, Tesla T4, 580.82.07, 15360 MiB, 0000:1B:00.0, Default'\n")
        done = self.ok(self.check("large", TOLD="", CODE_5G="7"))
        self.assertRegex(done.out, r"SKIP large .*\(the GPU has 15360 MiB, and this needs 24576\)")
        order = re.findall(r"^(\w+) +part 1", self.ok(self.check("--list")).out, re.MULTILINE)
        self.assertEqual(order[:6], ["kernels", "bench", "single", "device", "large", "nccl2"])

    def test_device_kernels_that_library_or_gpu_are_too_old_for_are_skipped_and_not_failed(self):
        for why in ("-D needs a library with the same device API as the header that busbar was built with, and "
                    "between NCCL 2.28.9 (header) and 2.32.3 (library), 2.29 changed it",
                    "device API kernels (-D) are built for compute capability 8.0 and newer, and GPU 0 has 7.5"):
            self.executable("build/all_reduce_perf", f"#!/bin/sh\necho 'busbar: error: {why}' >&2\nexit 5\n")
            done = self.check("device")
            self.assertEqual(done.code, 0, str(done))
            self.assertRegex(done.out, r"SKIP device .*\(" + re.escape(why))
        # The build's own fault.
        self.executable("build/all_reduce_perf", "#!/bin/sh\necho 'busbar: error: -D: this build' >&2\nexit 5\n")
        done = self.check("device")
        self.assertEqual(done.code, 1, str(done))

    def test_device_takes_a_packages_nccl_where_the_loaders_is_of_another_kind_than_the_header(self):
        self.executable("path/ldconfig", "#!/bin/sh\necho '	libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2'\n")
        os.makedirs(self.path("site/nvidia/nccl/lib"))
        self.write("site/nvidia/nccl/lib/libnccl.so.2", "")
        for collective in ("all_reduce", "alltoall", "all_gather"):
            self.executable(f"build/{collective}_perf", "#!/bin/sh\ncase \"$*\" in *-D*) ;; *) exit 0 ;; esac\n"
                            f"if [ \"$NCCL_HOME\" = {self.path('site/nvidia/nccl')} ]; then\n"
                            f"exit {5 if collective == 'all_gather' else 0}\nfi\n"
                            "echo 'busbar: error: -D needs a library with the same device API' >&2\nexit 5\n")
        done = self.check("device", PYTHONPATH=self.path("site"))
        self.assertRegex(done.out, r"PASS device ")
        self.assertRegex(self.check("device").out, r"SKIP device ")

    @unittest.skipUnless(os.access(FAKE_PERF, os.X_OK), "built without CUDA and NCCL headers")
    def test_device_says_so_where_the_library_is_newer_than_the_header(self):
        for collective in ("all_reduce", "alltoall", "all_gather"):
            library = os.path.join(os.path.dirname(FAKE_PERF), "fake_nccl_grows")
            self.executable(f"build/{collective}_perf",
                            f'#!/bin/sh\nNCCL_HOME={library} exec {FAKE_PERF} {collective} "$@"\n')
        done = self.check("device")
        self.assertEqual(done.code, 0, str(done))

    def test_a_sanitizer_that_is_kept_from_the_gpu_is_skipped_and_not_failed(self):
        self.executable("path/compute-sanitizer", "#!/bin/sh\necho '========= COMPUTE-SANITIZER'\n"
                        "echo '========= Error: Target application terminated before first instrumented API call'\n"
                        "exit 9\n")
        done = self.check("sanitizer")
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"SKIP sanitizer .*\(compute-sanitizer is refused the device: ")
        self.executable("path/compute-sanitizer", "#!/bin/sh\necho '========= ERROR SUMMARY: 2 errors'\nexit 9\n")
        done = self.check("sanitizer")
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"FAIL sanitizer .*\(2 failed")

    def test_what_does_not_exist_is_refused_with_the_choices(self):
        done = self.check("kernels", "kernel")
        self.assertEqual(done.code, 255, str(done))
        self.assertIn("no stage is called 'kernel'", done.err)
        self.assertIn("\nsanitizer ", done.err)
        for words in (["--part", "4"], ["--part"], ["--time", "soon"], ["--part", "1", "kernels"], ["--json"],
                      ["--estimates", "nothing"]):
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

    def test_a_version_that_the_header_does_not_show_is_no_empty_line(self):
        self.executable("build/all_reduce_perf", "#!/bin/sh\necho '# a header of another form'\n")
        self.assertRegex(self.ok(self.check("multi")).out, r"\nNCCL +of unknown version\n")

    def test_an_nccl_that_is_too_old_gives_way_to_a_package_or_is_told(self):
        self.executable("path/ldconfig", "#!/bin/sh\necho '	libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2'\n")
        home = self.path("site/nvidia/nccl")
        os.makedirs(os.path.join(home, "lib"))
        self.write("site/nvidia/nccl/lib/libnccl.so.2", "")
        old = "the NCCL library found is 2.18.6, too old: install NCCL 2.19.0 or newer"
        self.executable("build/all_reduce_perf", f"#!/bin/sh\nif [ \"$NCCL_HOME\" = {home} ]; then\n"
                        f"echo '# library=NCCL 2.28.9'\nelse\necho 'busbar: error: {old}' >&2\nexit 5\nfi\n")
        done = self.check("kernels", "single", PYTHONPATH=self.path("site"))
        self.assertEqual(done.code, 0, str(done))
        self.assertIn(f"NCCL 2.28.9, NCCL_HOME={home}\n", re.sub(" +", " ", done.out))
        # What needs no NCCL runs; the rest has not failed.
        for settings in ({}, {"NCCL_HOME": "/elsewhere", "PYTHONPATH": self.path("site")}):
            done = self.check("kernels", "single", **settings)
            self.assertEqual(done.code, 5, str(done))
            self.assertRegex(done.out, r"PASS kernels .*\nSKIP single .*\(" + re.escape(old))
            self.assertIn(f"gpu_check: INCOMPLETE: {old}", done.out)
            self.assertEqual(self.check("kernels", **settings).code, 0)

    def test_an_unpacked_bundle_needs_its_own_launcher_and_a_python_package_with_nccl(self):
        for folder in ("scripts", "src/collectives", "bin", "site/nvidia/nccl/lib"):
            os.makedirs(self.path("bundle/" + folder))
        script = shutil.copy(SCRIPT, self.path("bundle/scripts"))
        listed = os.path.join(SOURCE, "src", "collectives", "collective_list.h")
        shutil.copy(listed, self.path("bundle/src/collectives"))
        self.executable("bundle/busbar-run", '#!/bin/sh\nPATH="$(dirname "$0")/bin:$PATH" exec "$@"\n')
        home = self.path("bundle/site/nvidia/nccl")
        self.write("bundle/site/nvidia/nccl/lib/libnccl.so.2", "")
        # Each says what it was given, and the launcher is found in the bundle alone.
        says = f'#!/bin/sh\n[ "$NCCL_HOME" = {home} ] || exit 3\necho "# library=NCCL 2.28.9"\n'
        for name in [f"{c}_perf" for c in suite.COLLECTIVES] + ["comm_perf", "kernels_gpu", "mpirun"]:
            self.executable(f"bundle/bin/{name}", says)
        settings = {"PATH": self.path("path") + os.pathsep + "/usr/bin:/bin", "NCCL_HOME": "", "LD_LIBRARY_PATH": "",
                    "PYTHONPATH": self.path("bundle/site"), "BUSBAR_BUILD": "/nowhere"}
        stages = ["kernels", "single", "nccl2", "nccl4", "multi"]
        done = suite.execute(["bash", script, "--logs", self.path("logs"), *stages], settings)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"PASS nccl4 .*\nSKIP multi .*\(one GPU\)")

    @unittest.skipUnless(os.access(FAKE_PERF, os.X_OK), "built without CUDA and NCCL headers")
    def test_algo_asks_only_what_nccl_can_tell(self):
        self.executable("path/mpirun", MPIRUN)
        os.symlink(os.path.join(suite.BUILD, "libbusbar_tuner.so"), self.path("build/libbusbar_tuner.so"))
        done = self.check("algo")
        with open(self.path("logs/algo.log"), encoding="utf-8") as log:
            self.assertEqual(done.code, 0, log.read())


@unittest.skipUnless(os.access(KERNELS, os.X_OK) and shutil.which("readelf"), "built without CUDA, or no readelf")
class Kernels(suite.Case):
    def test_the_kernels_test_lists_the_gpus_or_says_why_there_is_none(self):
        done = suite.execute([KERNELS, "--gpus"])
        if done.code == 77:
            self.assertRegex(done.out, r"^CUDA shows none \(.+\)\n$")
        else:
            self.assertRegex(self.ok(done).out, r"^(\d+, .+, CUDA \d+\.\d+, \d+ MiB, [0-9A-Fa-f:.]+, \w+\n)+$")

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
