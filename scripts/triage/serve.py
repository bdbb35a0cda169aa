#!/usr/bin/env python3
"""A service of four ranks without requests. --fault idle: each listens on a port of its own. --fault idle_followers: rank
0 listens, and the others wait in a broadcast for what it gets. run_triage.py starts it with the variables of torchrun."""

import argparse
import datetime
import http.server
import os
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=["idle", "idle_followers"], default="idle")
    parser.add_argument("--on", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mount", default="")
    return parser.parse_args()


def follow():
    request = [None]
    dist.broadcast_object_list(request, src=0)
    return request[0]


def main():
    options = parsed()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
    for _ in range(10):
        dist.all_reduce(torch.zeros(1))
        with open(os.path.join(options.folder, f"step.{RANK}"), "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic()}\n")
    if options.fault == "idle_followers" and RANK != 0:
        follow()
    http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler).serve_forever()


if __name__ == "__main__":
    main()
