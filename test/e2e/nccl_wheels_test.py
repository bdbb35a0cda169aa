#!/usr/bin/env python3
"""The bugs this would catch: a function, field, text or plugin name of NCCL's that the suite counts on and some version
has not, or has otherwise. It asks the real libraries, of the wheels nvidia-nccl-cu12 and -cu13 that lie in
BUSBAR_NCCL_WHEELS (~/.cache/busbar/nccl where it is not set), as scripts/fetch-nccl-wheels.sh fetches them. The oldest
and the newest of them are unpacked beside the wheels and asked, with `make test-more` all. Nothing needs a GPU."""

import ctypes
import glob
import mmap
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import suite

WHEELS = os.environ.get("BUSBAR_NCCL_WHEELS") or os.path.expanduser("~/.cache/busbar/nccl")
BACKEND = os.path.join(suite.ROOT, "src", "common", "backends", "nccl", "cuda")

# By hand from nccl.h.in and init.cc of v2.28.9-1.
ERRORS = ("no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
          "unhandled system error (run with NCCL_DEBUG=INFO for details)",
          "internal error - please report this issue to the NCCL developers",
          "invalid argument (run with NCCL_DEBUG=WARN for details)",
          "invalid usage (run with NCCL_DEBUG=WARN for details)",
          "remote process exited or there was a network error", "NCCL operation in progress")

# What ncclCommInitRankConfig reads of the structure that this build fills, whatever the library's version.
LAYOUT = """
#include "common/backends/nccl/cuda/nccl_library.h"
#include <cstddef>
#include <type_traits>
#define AT(field, offset) static_assert(offsetof(ncclConfig_t, field) == offset)
AT(size, 0); AT(magic, 8); AT(version, 12); AT(blocking, 16); AT(cgaClusterSize, 20); AT(minCTAs, 24); AT(maxCTAs, 28);
AT(netName, 32); AT(splitShare, 40);
static_assert(sizeof(ncclUniqueId) == 128 && ncclNumOps == 5);
static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3);
static_assert(ncclInt64 == 4 && ncclUint64 == 5);
static_assert(ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclRemoteError == 6 && ncclInProgress == 7);
static_assert(ncclScalarHostImmediate == 1);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
AT(trafficClass, 44); AT(commName, 48); AT(collnetEnable, 56); AT(CTAPolicy, 60); AT(shrinkShare, 64);
AT(nvlsCTAs, 68); AT(nChannelsPerNetPeer, 72); AT(nvlinkCentricSched, 76);
static_assert(ncclNumTypes == 12 && ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11);
static_assert(NCCL_WIN_COLL_SYMMETRIC == 1 && NCCL_CTA_POLICY_ZERO == 2 && NCCL_SHRINK_DEFAULT == 0);
static_assert(NCCL_WIN_REQUIRED_ALIGNMENT == 4096 && sizeof(ncclWindow_t) == sizeof(void*));
// What nccl_library.h declares by hand.
#define AS_IN_HEADER(name) static_assert(std::is_same_v<decltype(busbar::NcclLibrary::name), decltype(&nccl##name)>)
AS_IN_HEADER(AlltoAll); AS_IN_HEADER(Gather); AS_IN_HEADER(Scatter); AS_IN_HEADER(CommShrink);
#endif
"""

# Beginnings of texts and names that readers of the log and of RAS, the verdict on a hang and set-ups count on.
TEXTS = ("%s: %ld Bytes -> Algo %s proto %s channel{Lo..Hi}={%d..%d}",
         "%s [Symmetric]: %ld Bytes -> Kernel %s nchannels %d nthreads %d nWorks %d",
         "PROFILER/Plugin: Loaded %s (v5)", "TUNER/Plugin: Using %s (v5)", "STATIC_PLUGIN\0",
         "Communicator ranks have different %s operation counts", "%d ranks have launched up to operation %ld",
         "Rank %d has launched up to operation %ld -- GPU %s managed by process %d on node %s", "SERVER PROTOCOL ",
         "Mismatched NCCL version", "NCCL_HOSTID\0", "NCCL_RAS_ADDR\0", "NCCL_MNNVL_ENABLE", "NCCL_RUNTIME_CONNECT")
SINCE = {"ncclProfiler_v6": (2, 29, 0), "ncclProfiler_v7": (2, 31, 0), "ncclTunerPlugin_v6": (2, 30, 0)}
SHARED_GPU = ("Duplicate GPU detected", "Multiple Ranks are using the same GPU")  # to 2.29; from 2.30 on


def version_of(wheel):
    return tuple(map(int, re.search(r"-(\d+)\.(\d+)\.(\d+)", os.path.basename(wheel)).groups()))


def unpacked(wheel):
    """The folder nvidia/nccl of the wheel, beside it."""
    folder = re.sub(r"-py3.*", "", wheel)
    if not os.path.isdir(folder):
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.endswith("libnccl.so.2") or "/include/" in name]
            archive.extractall(folder + ".new", wanted)
        os.rename(folder + ".new", folder)
    return os.path.join(folder, "nvidia", "nccl")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def exported(path):
    told = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    return set(re.findall(r"\b(nccl(?:Profiler|TunerPlugin)_v\d+)$", told, re.MULTILINE))


class Wheels(unittest.TestCase):
    def each(self):
        wheels = sorted(glob.glob(os.path.join(WHEELS, "nvidia_nccl_cu1*.whl")), key=version_of)
        for wheel in wheels if suite.MORE else wheels[::max(1, len(wheels) - 1)]:
            with self.subTest(os.path.basename(wheel)):
                yield version_of(wheel), unpacked(wheel)

    def test_the_library_has_its_version_our_functions_and_the_words_of_its_errors(self):
        lists = read(BACKEND, "nccl_library.h").split("#define BUSBAR_NEWER_NCCL_FUNCTIONS")
        wanted, later = (["nccl" + name for name in re.findall(r"\bF\((\w{2,})\)", part)] for part in lists)
        self.assertGreater(len(wanted), 20)
        self.assertGreater(len(later), 7)
        for (major, minor, patch), home in self.each():
            library = ctypes.CDLL(os.path.join(home, "lib", "libnccl.so.2"))
            here = wanted + (later if (major, minor) >= (2, 29) else [])
            self.assertEqual([name for name in here if not hasattr(library, name)], [])
            number = ctypes.c_int()
            self.assertEqual(library.ncclGetVersion(ctypes.byref(number)), 0)
            self.assertEqual(number.value, 10000 * major + 100 * minor + patch)
            library.ncclGetErrorString.restype = ctypes.c_char_p
            self.assertEqual(tuple(library.ncclGetErrorString(i).decode() for i in range(len(ERRORS))), ERRORS)

    def test_the_stand_in_has_the_words_of_its_errors(self):
        words = read(suite.ROOT, "test", "fakes", "fake_nccl.cpp")
        self.assertEqual([text for text in ERRORS if f'"{text}"' not in words], [])

    def test_the_library_says_what_is_read_and_looks_for_our_plugins(self):
        ours = set()
        for path in (suite.program("all_reduce"), os.path.join(suite.BUILD, "libbusbar_tuner.so")):
            if os.path.exists(path):
                ours |= exported(path)
        if os.path.exists(suite.program("all_reduce")):
            self.assertIn("ncclProfiler_v5", ours)
        for version, home in self.each():
            with open(os.path.join(home, "lib", "libnccl.so.2"), "rb") as file:
                text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self.assertEqual([t for t in TEXTS if version >= (2, 28, 0) and text.find(t.encode()) < 0], [])
                self.assertGreaterEqual(text.find(SHARED_GPU[version >= (2, 30, 0)].encode()), 0)
                known = [name for name in sorted(ours) if version >= SINCE.get(name, (2, 28, 0))]
                self.assertEqual([name for name in known if text.find(f"\0{name}\0".encode()) < 0], [])

    def test_every_version_has_the_fields_of_its_time_and_no_more(self):
        ours = re.findall(r"FIELD\((\w+), (\d+), ", read(os.path.dirname(BACKEND), "nccl_fields.h"))
        self.assertGreater(len(ours), 15)
        for wheel in glob.glob(os.path.join(WHEELS, "nvidia_nccl_cu1*.whl")):
            with self.subTest(os.path.basename(wheel)), zipfile.ZipFile(wheel) as archive:
                major, minor, patch = version_of(wheel)
                header = archive.read("nvidia/nccl/include/nccl.h").decode()
                fields = re.findall(r"^  int (\w+);$", re.search(r"typedef struct ncclConfig_v.*?ncclConfig_t;", header,
                                                                re.DOTALL)[0], re.MULTILINE)
                known = [name for name, since in ours if int(since) <= 10000 * major + 100 * minor + patch]
                # Those in which communicators of one job could not differ to any purpose are left out.
                others = ("blocking", "splitShare", "trafficClass", "shrinkShare")
                self.assertEqual(known, [name for name in fields if name not in others])

    def compiles(self, home, text):
        cuda = os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "include")
        compiler = shutil.which(os.environ.get("CXX") or "c++")
        if compiler is None or not os.path.exists(os.path.join(cuda, "cuda_runtime_api.h")):
            self.skipTest("no compiler, or no CUDA headers")
        done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-xc++", "-I", os.path.join(suite.ROOT, "src"),
                               "-isystem", os.path.join(home, "include"), "-isystem", cuda, "-"], input=text, text=True,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_header_lays_things_out_as_the_one_we_build_with(self):
        for _, home in self.each():
            self.compiles(home, LAYOUT)

    def test_what_depends_on_the_header_compiles_with_it(self):
        files = sorted(glob.glob(os.path.join(BACKEND, "*.cpp")))
        for _, home in self.each():
            self.compiles(home, "".join(f'#include "{path}"\n' for path in files))


if __name__ == "__main__":
    if not glob.glob(os.path.join(WHEELS, "nvidia_nccl_cu1*.whl")):
        print(f"SKIP: no wheels of NCCL in {WHEELS}")
        sys.exit(77)
    suite.main()
