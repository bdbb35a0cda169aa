#!/usr/bin/env python3
"""A job of c10d over Gloo that makes steps, and at the tenth does what --fault says on rank --on. run_triage.py starts
it with the variables of torchrun."""

import argparse
import datetime
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

RANK, NRANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FAULT_AT = 10
FOR_EVER = 3600


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="healthy")
    parser.add_argument("--on", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mount", default="")  # of a file system that does not answer
    parser.add_argument("--record", action="store_true")  # dump PyTorch's Flight Recorder each second (2.11 or later)
    return parser.parse_args()


options = parsed()
ours = RANK == options.on


def note(name):
    with open(os.path.join(options.folder, f"{name}.{RANK}"), "a", encoding="utf-8") as file:
        file.write(f"{time.monotonic()}\n")


def record():
    path = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(RANK)
    while True:
        with open(path + ".new", "wb") as file:
            file.write(torch._C._distributed_c10d._dump_fr_trace())  # pylint: disable=protected-access
        os.replace(path + ".new", path)
        time.sleep(1)


def train_step(data, weight):
    for _ in range(4):
        data = torch.tanh(data @ weight)
    total = data.sum().reshape(1)
    dist.all_reduce(total)
    return data / (1 + total.abs())


def use_up_memory():
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 24)))


def augment():
    time.sleep(0.8)


def validate():
    for _ in range(FOR_EVER):
        time.sleep(1)


def evaluate(weight):
    while True:
        weight = torch.tanh(weight @ weight)


def save_checkpoint(weight):
    while True:
        torch.save({"weight": weight.repeat(4, 4)}, os.path.join(options.folder, "checkpoint.pt"))


def compile_fx():
    source = os.path.join(options.folder, "big.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <regex>\n#include <iostream>\n#include <map>\n" + "".join(
            f"template<int N> int f{i}(std::map<int, std::string>& m) {{ std::regex r(m[N]); return r.mark_count(); }}\n"
            f"int g{i}(std::map<int, std::string>& m) {{ return f{i}<{i}>(m); }}\n" for i in range(200)))
    while True:
        subprocess.run(["g++", "-O2", "-c", source, "-o", source + ".o"], check=True)


def wait_for_lock(lock, queue):
    lock.acquire()
    queue.put(1)


def next_data(worker, *more):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=worker, args=(*more, queue), daemon=True)
    process.start()
    note("worker_started")
    return process, queue


def sleep_and_put(queue):
    time.sleep(FOR_EVER)
    queue.put(1)


def fault(data, weight):
    """What rank `on` does instead of its step; the others go on until they wait for it."""
    if options.fault == "skip":
        validate()
    elif options.fault == "exception_in_thread":
        threading.Thread(target=validate, daemon=True).start()
        threading.Event().wait()
    elif options.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif options.fault == "exit":
        os._exit(0)
    elif options.fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif options.fault == "debugger":
        time.sleep(FOR_EVER)  # run_triage.py lets a process trace it
    elif options.fault == "dead_worker":
        process, queue = next_data(sleep_and_put)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        queue.get()
    elif options.fault == "stuck_worker":
        lock = multiprocessing.Lock()
        lock.acquire()
        _, queue = next_data(wait_for_lock, lock)
        queue.get()
    elif options.fault == "blocked_files":
        with open(os.path.join(options.mount, "data"), "rb") as file:
            file.read()
    elif options.fault == "order":
        dist.all_gather([torch.zeros(1) for _ in range(NRANKS)], torch.zeros(1))
    elif options.fault == "sizes":
        dist.all_reduce(torch.zeros(1 << 20))
    elif options.fault == "checkpoint":
        save_checkpoint(weight)
    elif options.fault == "evaluation":
        evaluate(weight)
    elif options.fault == "compiling":
        compile_fx()
    elif options.fault == "debug_prompt":
        import pdb  # pylint: disable=import-outside-toplevel
        sys.stdin = open(os.path.join(options.folder, "prompt"), encoding="utf-8")  # a pipe that nobody writes
        pdb.set_trace()
    else:
        raise SystemExit(f"no fault is called {options.fault}")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(RANK)
    if options.fault in ("store_kill", "out_of_memory"):  # before Gloo: it ends all ranks if one ends
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), NRANKS, RANK == 0,
                              datetime.timedelta(seconds=FOR_EVER))
        note("fault")
        if ours and options.fault == "out_of_memory":
            use_up_memory()
        if ours:
            os.kill(os.getpid(), signal.SIGKILL)
        store.wait([f"joined/{options.on}"])
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=FOR_EVER))
    if options.record:
        threading.Thread(target=record, daemon=True).start()
    data, weight = torch.randn(64, 256), torch.randn(256, 256) / 16
    step = 0
    while True:
        if step == FAULT_AT and options.fault not in ("healthy", "slow_steps"):
            note("fault")
            if ours:
                fault(data, weight)
        if options.fault == "slow_steps" and ours:
            augment()
        data = train_step(data, weight)
        note("step")
        step += 1


if __name__ == "__main__":
    main()
