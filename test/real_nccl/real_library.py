"""The real libnccl.so.2 on a CUDA runtime without a GPU: what its tests share.

BUSBAR_REAL_NCCL names a libnccl.so.2 that is linked to the shared CUDA runtime of CUDA 13. The loader finds
build/test/fake_cudart in that runtime's place. A front (front.py) moves the data.
"""

import functools
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
# pylint: disable=wrong-import-position
import suite  # noqa: E402

import front  # noqa: E402

LIBRARY = os.environ.get("BUSBAR_REAL_NCCL", "")
TEST = os.path.join(suite.BUILD, "test")
PERF = os.path.join(TEST, "real_nccl_perf")
# Every GPU with 18 links to switches that multicast.
NVSWITCH = {"FAKE_NVLINKS": "18", "FAKE_NVSWITCH": "1"}
FOLDER = tempfile.TemporaryDirectory()


def skip_unless_given():
    """Where there is none, and it cannot be made to work, CTest says that the test was skipped."""
    if not LIBRARY:
        print("SKIPPED: BUSBAR_REAL_NCCL names no libnccl.so.2 that is linked to the shared CUDA runtime")
    elif not os.path.exists(PERF):
        print("SKIPPED: built without CUDA 13 and NCCL's device API")
    else:
        return
    sys.exit(77)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def version():
    """2.28.9 as (2, 28, 9), by the text that NCCL_DEBUG=VERSION prints."""
    with open(LIBRARY, "rb") as file:
        return tuple(int(part) for part in re.search(rb"NCCL version (\d+)\.(\d+)\.(\d+)", file.read()).groups())


class Library:
    """The real library, with the front before it or alone."""

    def __init__(self):
        self.front = front.make_front(LIBRARY, os.path.join(TEST, "real_nccl_moves.so"), os.path.join(FOLDER.name, "front"))
        self.alone = os.path.join(FOLDER.name, "alone")
        os.makedirs(os.path.join(self.alone, "lib"))
        os.symlink(LIBRARY, os.path.join(self.alone, "lib", "libnccl.so.2"))

    def settings(self, home=None, **more):
        shared = tempfile.mkdtemp(dir=FOLDER.name)
        found = {"NCCL_HOME": home or self.front, "REAL_NCCL_FOLDER": shared, "FAKE_GPUS": "8",
                 "LD_LIBRARY_PATH": os.path.join(TEST, "fake_cudart") + ":" + os.path.join(TEST, "fake_nvml"),
                 "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_RAS_ADDR": f"localhost:{free_port()}"}
        return {**found, **more}

    def run(self, *words, **more):
        """A benchmark in one process."""
        return suite.execute([PERF, *words], self.settings(**more))

    def ranks(self, nranks, *words, **more):
        """A benchmark by that many processes."""
        return suite.mpirun(nranks, [PERF, *words], self.settings(**more))


def from_version(*oldest):
    """A test of what older versions of NCCL do not have."""
    def newer_only(test):
        @functools.wraps(test)
        def run(case):
            if case.version < oldest:
                case.skipTest(f"NCCL {case.version} is older than {oldest}")
            test(case)
        return run
    return newer_only


class RealCase(suite.Case):
    library = None

    @classmethod
    def setUpClass(cls):
        if RealCase.library is None:
            RealCase.library = Library()
        cls.version = version()

    def right(self, result):
        """Rows with data that were checked and are right."""
        self.ok(result)
        self.assertTrue(result.rows(), str(result))
        self.assertIn("OK", result.line("# Out of bounds values"))
        return result
