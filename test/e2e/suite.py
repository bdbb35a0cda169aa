"""Runs the executables as users do: what every end-to-end test shares."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(os.environ.get("BUSBAR_BUILD", "build"))
SUFFIX = os.environ.get("BUSBAR_NAME_SUFFIX", "")
MPIRUN = os.environ.get("BUSBAR_MPIRUN", "mpirun")
# Hydra ends the ranks that are left by SIGKILL, and its own exit code is theirs.
HANG_CODES = (4, 9) if re.search("hydra|mpich", os.path.basename(MPIRUN)) else (4,)
# A test that hangs must end before ctest's own limit, which would leave its ranks behind.
LIMIT_S = 240
# `make test-more`: what CI has no time for.
MORE = bool(os.environ.get("BUSBAR_MORE"))
# A build without the libraries that it can do without.
in_full = unittest.skipIf(os.environ.get("BUSBAR_BARE"), "needs what this build was made without")
with_py_spy = unittest.skipUnless(shutil.which("py-spy"), "no py-spy (`pip install py-spy`)")
in_more = unittest.skipUnless(MORE, "only in `make test-more`")

# ctest sets these too: containers run as root, and there are more ranks than cores. As variables, because other
# launchers than Open MPI's have no such options.
for _name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")

# For runs that all ranks end alike with an error: Open MPI's launcher gives those that are a moment later a second.
AT_ONCE = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def collectives():
    """All of them, from the one list."""
    with open(os.path.join(ROOT, "src", "collectives", "collective_list.h"), encoding="utf-8") as file:
        return re.findall(r"^ +COLLECTIVE\((\w+),", file.read(), re.MULTILINE)


COLLECTIVES = collectives()
WITH_DATA = [name for name in COLLECTIVES if name != "barrier"]
NO_IN_PLACE = ("barrier", "pingpong")
REPLACING = ("alltoall", "alltoallv", "sendrecv")  # in place what comes overwrites what was sent


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def rows(self):
        """The table's rows as lists of tokens, found as scripts in the wild find them."""
        return [line.split() for line in self.out.splitlines() if line.strip()[:1].isdigit()]

    def line(self, start):
        found = [line for line in self.out.splitlines() if line.startswith(start)]
        assert len(found) == 1, f"{len(found)} lines start with {start!r}:\n{self.out}"
        return found[0]

    def errors(self):
        """What the suite itself said on stderr; the launcher's own words left out."""
        return [line for line in self.err.splitlines() if line.startswith("busbar:")]

    def __str__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def program(name):
    return os.path.join(BUILD, f"{name}_perf{SUFFIX}")


# Where the executables run: a hang's report must not land in the checkout.
SCRATCH = tempfile.TemporaryDirectory()


def execute(command, env=None, cwd=None):
    settings = dict(os.environ, **(env or {}))
    done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S)] + command, env=settings, cwd=cwd or SCRATCH.name,
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def mpirun(nranks, command, env=None, cwd=None):
    return execute([MPIRUN, "-n", str(nranks)] + command, env, cwd)


def perf(collective, nranks, *options, **settings):
    """The collective's executable under mpirun on host memory."""
    return mpirun(nranks, [program(collective), "--backend", "mpi", *options], **settings)


def report(*arguments):
    """`busbar report`."""
    return execute([os.path.join(BUILD, f"busbar{SUFFIX}"), "report", *arguments])


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def ok(self, result):
        self.assertEqual(result.code, 0, str(result))
        return result

    def hangs(self, result, verdict, *words):
        """One report of the watchdog with this verdict and these words, and its exit code."""
        self.assertIn(result.code, HANG_CODES, str(result))
        reports = [line for line in result.errors() if line.startswith("busbar: hang: ")]
        self.assertEqual(len(reports), 1, str(result))
        self.assertTrue(reports[0].startswith(f"busbar: hang: {verdict}: "), str(result))
        text = "\n".join(result.errors())
        for word in words:
            self.assertIn(word, text)
        return result

    def records_of(self, marker):
        """The flight records in /dev/shm of the job with this word in its command, which go after the test. Other tests'
        records come and go meanwhile."""
        found = []
        for path in glob.glob("/dev/shm/busbar.*"):
            try:
                with open(path, "rb") as file:
                    if marker.encode() in file.read():
                        found.append(path)
                        self.addCleanup(os.remove, path)
            except FileNotFoundError:
                pass
        self.assertTrue(found, "no flight record stayed")
        return found

    def fails(self, result, code, *words):
        """One message of ours with these words, and this exit code."""
        self.assertEqual(result.code, code, str(result))
        errors = [line for line in result.errors() if line.startswith("busbar: error")]
        self.assertEqual(len(errors), 1, str(result))
        for word in words:
            self.assertIn(word, errors[0], str(result))
        return result


def main():
    # ctest passes the build folder, which the environment names too.
    sys.argv = sys.argv[:1]
    unittest.main(verbosity=1)
