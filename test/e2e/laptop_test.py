#!/usr/bin/env python3
"""The bug this would catch: a program references MPI, CUDA or NCCL somewhere, so that reading logs or merging results
needs a machine of the cluster; or what MPI started says nothing that helps where there is none."""

import os
import re
import shutil
import unittest

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
MODULE = os.path.join(suite.BUILD, "libbusbar_mpi.so")
HIDDEN = re.compile(r"lib(mpi|open-pal|open-rte|pmix|cuda|cudart|nccl|nvidia-ml|ibverbs)\b")

# In a mount namespace of its own: an empty file over each library named, then the command.
HIDE = """
empty=$1; shift
: >"$empty"
while [ "$1" != -- ]; do mount --bind "$empty" "$1" || exit 77; shift; done
shift
exec "$@"
"""


def libraries(program):
    """Library name -> file, as the loader finds them, of the program itself and of what it needs."""
    told = suite.execute(["ldd", program])
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", told.out, re.MULTILINE))


@unittest.skipUnless(shutil.which("ldd"), "no ldd")
class Laptop(suite.Case):
    def without_mpi(self, *command):
        """Runs it where the libraries of libbusbar_mpi.so that a laptop lacks are empty files."""
        files = sorted({os.path.realpath(file) for name, file in libraries(MODULE).items() if HIDDEN.match(name)})
        self.assertTrue(files)
        as_user = [] if os.geteuid() == 0 else ["--map-root-user"]
        hidden = ["unshare", *as_user, "--mount", "sh", "-c", HIDE, "sh", self.path("empty"), *files, "--"]
        if not shutil.which("unshare") or suite.execute(hidden + ["true"]).code != 0:
            self.skipTest("mount namespaces are not permitted here: only the list of libraries was checked")
        return suite.execute(hidden + list(command))

    def test_busbar_needs_no_library_that_a_laptop_lacks(self):
        self.assertEqual([name for name in libraries(BUSBAR) if HIDDEN.match(name)], [])
        # And the test sees them where they are.
        self.assertTrue([name for name in libraries(MODULE) if HIDDEN.match(name)])

    def test_what_needs_no_ranks_runs_there(self):
        log = self.write("rank0.log", "a:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n")
        done = self.without_mpi(BUSBAR, "diagnose", log)
        self.assertIn("rank0.log", done.out, str(done))
        self.assertIn(done.code, (0, 6), str(done))
        looked = self.without_mpi(BUSBAR, "doctor")
        self.assertTrue(looked.out.startswith("doctor: "), str(looked))
        for words in (["--help"], ["--version"], ["merge", "--help"], ["compare", "--help"]):
            with self.subTest(words=words):
                self.assertIn("busbar", self.ok(self.without_mpi(BUSBAR, *words)).out)

    def test_what_mpi_started_says_what_is_missing(self):
        for command in ([BUSBAR, "doctor"], [BUSBAR, "locate"], [suite.program("all_reduce")]):
            with self.subTest(command=command):
                ranks = [self.without_mpi("env", f"OMPI_COMM_WORLD_RANK={rank}", "OMPI_COMM_WORLD_SIZE=2", *command)
                         for rank in (0, 1)]
                self.fails(ranks[0], 5, "mpirun started this, and MPI cannot be loaded (", "libmpi", "torchrun")
                self.assertEqual(ranks[1].errors(), [])
                self.assertEqual("--local" in ranks[0].err, "doctor" in command)

    def test_alone_it_measures(self):
        """Over Gloo, where it is built."""
        done = self.without_mpi(suite.program("all_reduce"), "-b", "8", "-e", "8")
        self.assertIn(done.code, (0, 5), str(done))
        if done.code == 0:
            self.assertIn("# 1 process, no MPI", done.out)


if __name__ == "__main__":
    suite.main()
