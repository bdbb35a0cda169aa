#!/usr/bin/env python3
"""env_ranks.py N PROGRAM...: starts N processes without MPI, as RANK 0 to N-1, and ends with the first code that is not 0.
All are killed after 600 s. PROGRAM runs next to the libbusbar_gloo.so of $BUSBAR_BUILD, where programs look for it."""

import os
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(probe.getsockname()[1], 65000)


def codes_of(nranks, command):
    place = {"WORLD_SIZE": str(nranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    until = time.monotonic() + 600
    ranks = [subprocess.Popen(command, env=dict(os.environ, RANK=str(r), **place)) for r in range(nranks)]
    for rank in ranks:
        try:
            yield rank.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            yield 124


def main():
    nranks, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(program)) as folder:
        here = os.path.join(folder, os.path.basename(program))
        os.link(program, here)
        gloo = os.path.abspath(os.path.join(os.environ.get("BUSBAR_BUILD", "build"), "libbusbar_gloo.so"))
        os.symlink(gloo, os.path.join(folder, os.path.basename(gloo)))
        codes = list(codes_of(nranks, [here, *arguments]))
    return next((abs(code) for code in codes if code != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
