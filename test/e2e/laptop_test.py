#!/usr/bin/env python3
"""The bug this would catch: `busbar` references MPI, hwloc, CUDA or NCCL somewhere, so that reading logs or merging
results needs a machine of the cluster; or what does need ranks says nothing that helps where there are none."""

import os
import re
import shutil
import subprocess
import unittest

import suite

BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
RANKS = os.path.join(suite.BUILD, "busbar-ranks" + suite.SUFFIX)
HIDDEN = re.compile(r"lib(mpi|open-pal|open-rte|pmix|hwloc|cuda|cudart|nccl|nvidia-ml|ibverbs)\b")

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
        """Runs it where the libraries of busbar-ranks that a laptop lacks are empty files."""
        files = sorted({os.path.realpath(file) for name, file in libraries(RANKS).items() if HIDDEN.match(name)})
        self.assertTrue(files)
        as_user = [] if os.geteuid() == 0 else ["--map-root-user"]
        hidden = ["unshare", *as_user, "--mount", "sh", "-c", HIDE, "sh", self.path("empty"), *files, "--"]
        if not shutil.which("unshare") or suite.execute(hidden + ["true"]).code != 0:
            self.skipTest("mount namespaces are not permitted here: only the list of libraries was checked")
        return suite.execute(hidden + list(command))

    def test_busbar_needs_no_library_that_a_laptop_lacks(self):
        self.assertEqual([name for name in libraries(BUSBAR) if HIDDEN.match(name)], [])
        # And the test sees them where they are.
        self.assertTrue([name for name in libraries(RANKS) if HIDDEN.match(name)])

    def test_what_needs_no_ranks_runs_there(self):
        log = self.write("rank0.log", "a:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n")
        done = self.without_mpi(BUSBAR, "diagnose", log)
        self.assertIn("rank0.log", done.out, str(done))
        self.assertIn(done.code, (0, 6), str(done))
        looked = self.without_mpi(BUSBAR, "doctor")
        self.assertTrue(looked.out.startswith("doctor: "), str(looked))
        in_a_job = self.without_mpi("env", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", BUSBAR, "doctor")
        self.fails(in_a_job, 5, "doctor needs MPI")
        self.assertIn("--local", in_a_job.err)
        for words in (["--help"], ["--version"], ["merge", "--help"], ["diagnose", "--help"]):
            with self.subTest(words=words):
                self.assertIn("busbar", self.ok(self.without_mpi(BUSBAR, *words)).out)

    def test_what_needs_ranks_says_what_is_missing(self):
        for subcommand in ("compare", "fingerprint"):
            with self.subTest(subcommand=subcommand):
                self.fails(self.without_mpi(BUSBAR, subcommand, "all_reduce"), 5, subcommand, "needs MPI", "libmpi")

    def test_alone_it_names_its_other_half(self):
        alone = shutil.copy(BUSBAR, self.folder.name)
        self.fails(suite.execute([alone, "compare", "all_reduce"]), 5, os.path.basename(RANKS), "busbar")
        self.ok(suite.execute([alone, "merge", "--help"]))

    def test_it_hands_arguments_and_environment_on_and_keeps_its_pid(self):
        """A launcher knows its ranks by their pid, and talks to them through the environment."""
        folder = self.folder.name
        alone = shutil.copy(BUSBAR, folder)
        self.write(os.path.basename(RANKS), '#!/bin/sh\necho "$$ $MARK" "$@"\nexit 42\n')
        os.chmod(self.path(os.path.basename(RANKS)), 0o755)
        started = subprocess.Popen([alone, "compare", "a b", "", "--vary=x"], stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, MARK="kept"))
        out, _ = started.communicate(timeout=suite.LIMIT_S)
        self.assertEqual(out, f"{started.pid} kept compare a b  --vary=x\n")
        self.assertEqual(started.returncode, 42)


if __name__ == "__main__":
    suite.main()
