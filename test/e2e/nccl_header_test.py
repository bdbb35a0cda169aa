#!/usr/bin/env python3
"""The bug this would catch: kernels that are compiled with the nccl.h of the CUDA toolkit, and host code with that of
NCCL_HOME, so that what the host fills is read as something else on the GPU (-D). A link farm of the toolkit gets the
header of an NCCL of old, and the compilers are asked which one they take. And: kernels that each process compiles when
it starts, and a toolkit that is too old or not where it was said to be, which nobody hears of."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import suite

OLD = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 1\n#define NCCL_PATCH 0\n"


def cache():
    """What the build was configured with."""
    try:
        with open(os.path.join(suite.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
            return dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
    except OSError:
        return {}


CACHE = cache()
NVCC = CACHE.get("BUSBAR_NVCC", "")
NCCL_INCLUDE = CACHE.get("BUSBAR_NCCL_INCLUDE_DIR", "")


def link_all(entries, folder):
    os.makedirs(folder, exist_ok=True)
    for entry in entries:
        if not os.path.lexists(os.path.join(folder, os.path.basename(entry))):
            os.symlink(entry, os.path.join(folder, os.path.basename(entry)))


def include_old_nccl(real, folder):
    os.makedirs(folder)
    for name in ("nccl.h", "nccl_device.h"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(OLD)
    link_all([entry for entry in glob.glob(os.path.join(real, "*")) if not entry.endswith("nccl_device")], folder)


def toolkit_with_old_nccl(farm):
    """The build's toolkit, but with an nccl.h of old in its include folder."""
    nvcc = os.path.realpath(NVCC)
    real = os.path.dirname(os.path.dirname(nvcc))
    os.makedirs(os.path.join(farm, "bin"))
    shutil.copy(nvcc, os.path.join(farm, "bin"))  # it looks for its own beside itself
    link_all(glob.glob(os.path.join(real, "bin", "*")), os.path.join(farm, "bin"))
    # Two folders, not one under two names: of one that is given twice compilers forget the first place.
    include_old_nccl(os.path.join(real, "include"), os.path.join(farm, "include"))
    for target in glob.glob(os.path.join(real, "targets", "*")):
        mine = os.path.join(farm, "targets", os.path.basename(target))
        include_old_nccl(os.path.join(target, "include"), os.path.join(mine, "include"))
        link_all(glob.glob(os.path.join(target, "*")), mine)
    link_all(glob.glob(os.path.join(real, "*")), farm)


def all_but_nccl(folder, names):
    """For copytree: of the top folder nothing else."""
    return [name for name in names if folder == NCCL_INCLUDE and not name.startswith("nccl")]


def headers_of(entry):
    """The nccl.h and nccl_device.h that this compile command takes."""
    words = shlex.split(entry["command"])
    if "ccache" in os.path.basename(words[0]):
        words = words[1:]
    at = words.index("-o")
    del words[at:at + 2]
    words.remove("-c")
    done = subprocess.run([*words, "-M"], cwd=entry["directory"], check=True, text=True, stdout=subprocess.PIPE)
    return {os.path.normpath(word) for word in done.stdout.split() if re.search(r"/nccl(_device)?\.h$", word)}


@unittest.skipUnless(os.access(NVCC, os.X_OK) and CACHE.get("BUSBAR_CUDA") == "ON"
                     and os.path.exists(os.path.join(NCCL_INCLUDE, "nccl_device.h")),
                     "built without CUDA and NCCL headers")
class NcclHeader(unittest.TestCase):
    def test_kernels_and_host_code_take_the_header_of_nccl_home_and_not_the_toolkits(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            farm, home, build = (os.path.join(folder, name) for name in ("cuda", "nccl", "build"))
            toolkit_with_old_nccl(farm)
            # Copies: of a link the compilers tell where it leads.
            shutil.copytree(NCCL_INCLUDE, os.path.join(home, "include"), ignore=all_but_nccl)
            done = suite.execute([CACHE["CMAKE_COMMAND"], "-S", suite.ROOT, "-B", build, "-G", CACHE["CMAKE_GENERATOR"],
                                  f"-DBUSBAR_NVCC={farm}/bin/nvcc", f"-DCUDA_HOME={farm}", f"-DNCCL_HOME={home}",
                                  "-DCMAKE_BUILD_TYPE=Release"],
                                 {"CUDA_HOME": farm, "NCCL_HOME": home})
            self.assertEqual(done.code, 0, str(done))
            self.assertRegex(done.out, f"NCCL header [0-9]+ in {re.escape(home)}/include")
            with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
                commands = json.load(file)
            wanted = {f"{home}/include/nccl.h", f"{home}/include/nccl_device.h"}
            # The kernels, what fills their argument, and the stand-ins for both.
            for name in ("nccl/cuda/device_collectives.cu", "nccl/cuda/device_communicator.cpp", "fakes/fake_cuda.cpp"):
                source = os.path.join(suite.ROOT, "test" if name.startswith("fakes") else "src/common/backends", name)
                entries = [entry for entry in commands if self.compiles(entry, source)]
                self.assertGreater(len(entries), 0, name)
                for entry in entries:
                    with self.subTest(name, into=entry["command"].split(" -o ")[1].split()[0]):
                        self.assertEqual(headers_of(entry), wanted)

    @staticmethod
    def compiles(entry, source):
        """Whether it compiles the file, perhaps among others."""
        if os.path.realpath(entry["file"]) == os.path.realpath(source):
            return True
        if "unity" not in os.path.basename(entry["file"]):
            return False
        with open(entry["file"], encoding="utf-8") as file:
            return f'"{source}"' in file.read()


class Toolkit(suite.Case):
    def test_what_is_not_used_is_said_with_the_reason(self):
        os.makedirs(self.path("cuda/bin"))
        nvcc = self.write("cuda/bin/nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n")
        os.chmod(nvcc, 0o755)
        done = suite.execute(["cmake", "-S", suite.ROOT, "-B", self.path("build"), f"-DBUSBAR_NVCC={nvcc}",
                              "-DCUDA_HOME=/nowhere/cuda", "-DNCCL_HOME=/nowhere/nccl", "-DBUSBAR_TESTS=OFF"])
        said = re.sub(r"\s+", " ", self.ok(done).out + done.err)
        for text in (f"CPU-only build: {nvcc} is of CUDA 11.8, and C++20 needs 12.0: set CUDA_HOME",
                     "CUDA_HOME=/nowhere/cuda has no bin/nvcc, so it is not used",
                     "NCCL_HOME=/nowhere/nccl has no include/nccl.h"):
            self.assertIn(text, said)

    @unittest.skipIf(not os.access(NVCC, os.X_OK) or CACHE.get("BUSBAR_CUDA") != "ON" or CACHE.get("NVCC_GENCODE")
                     or CACHE.get("CMAKE_CUDA_ARCHITECTURES"), "built without CUDA, or for chosen GPUs")
    def test_every_gpu_from_t4_to_blackwell_has_native_code(self):
        version = float(re.search(r"release ([0-9.]+)", self.ok(suite.execute([NVCC, "--version"])).out)[1])
        wanted = {"80", "90", *(["100", "120"] if version >= 12.8 else []), *([] if version >= 13 else ["70"]), "75"}
        with open(os.path.join(suite.BUILD, "compile_commands.json"), encoding="utf-8") as file:
            commands = {os.path.basename(entry["file"]): entry["command"] for entry in json.load(file)}
        for name, native in (("device.cu", wanted), ("device_collectives.cu", wanted - {"70", "75"})):
            with self.subTest(name):
                codes = re.findall(r"code=\[([^]]+)\]", commands[name])
                self.assertEqual({code for all_of in codes for code in re.findall(r"sm_(\d+)", all_of)}, native)
                # What is newer than all of them.
                self.assertRegex(" ".join(codes), r"\bcompute_\d+")


if __name__ == "__main__":
    suite.main()
