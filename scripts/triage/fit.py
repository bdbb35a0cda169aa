#!/usr/bin/env python3
"""A job of jax.distributed on CPUs that makes steps, and at the tenth does what --fault says in process --on.
run_triage.py starts it."""

import argparse
import os
import signal
import time

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

RANK = int(os.environ["JAX_PROCESS_ID"])
FAULT_AT = 10


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="healthy")
    parser.add_argument("--on", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    return parser.parse_args()


options = parsed()


def backoff():
    while True:
        time.sleep(1)


def fit_step(value):
    return multihost_utils.process_allgather(value).sum() / jax.process_count()


def main():
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), RANK)
    value, step = jnp.float32(RANK), 0
    while True:
        if step == FAULT_AT and RANK == options.on:
            if options.fault == "skip":
                backoff()
            if options.fault == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
        value = jnp.float32(fit_step(value))
        with open(os.path.join(options.folder, f"step.{RANK}"), "a", encoding="utf-8") as file:
            file.write(f"{time.monotonic()}\n")
        step += 1


if __name__ == "__main__":
    main()
