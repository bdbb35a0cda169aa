#!/usr/bin/env python3
"""Mounts a file system on $SILENT_MOUNT that answers no question, as a server that is gone: a process that opens a file
there waits in the kernel until this one ends. Needs root and /dev/fuse. run_triage.py starts it."""

import ctypes
import os
import signal
import struct
import sys

INIT = 26
HEADER = struct.Struct("<IIQQIIII")  # of a request: length, opcode, unique, ...
MADE = struct.Struct("<IiQ")  # of an answer: length, error, unique
TERMS = struct.Struct("<IIIIHHIIHHI7I")  # of INIT: version, flags, limits


def main():
    folder = os.environ["SILENT_MOUNT"]
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    words = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"silent", folder.encode(), b"fuse", 0, words) != 0:
        sys.exit(f"no FUSE here: {os.strerror(ctypes.get_errno())}")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        request = os.read(device, 1 << 18)
        _, opcode, unique, *_ = HEADER.unpack_from(request)
        if opcode == INIT:
            major, minor, ahead = struct.unpack_from("<III", request, HEADER.size)
            terms = TERMS.pack(major, min(minor, 31), ahead, 0, 12, 9, 1 << 16, 1, 1, 0, 0, *[0] * 7)
            os.write(device, MADE.pack(MADE.size + len(terms), 0, unique) + terms)


if __name__ == "__main__":
    main()
