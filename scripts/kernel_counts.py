#!/usr/bin/env python3
"""What the machine code of the data kernels promises: instructions per 16 bytes, and the bandwidth that they allow.

    scripts/kernel_counts.py [OBJECT]       device.cu's object; without it the one in build/
    scripts/kernel_counts.py --check ...    exits with 1 where a loop is above its limit or keeps registers in memory

Counted is what stands in a hot loop (an innermost loop that reads or writes global memory, 16 bytes or more of it per
round), without the blocks that call a function: those run where data are wrong. "ALU" are the instructions for the
pipe of 64 lanes per clock and multiprocessor that the kernels are bound by (integers but multiplications); the bound is
what it computes at the card's highest clock, beside the memory's own. NVIDIA's cuobjdump and nvdisasm are taken from
PATH or CUDA_HOME, else from PyPI, once, into the user's cache; where neither can be had, it says so and exits with 77.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHITECTURE = "sm_90"
PACKAGES = ["nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm"]

# What issues to the ALU pipe (Nsight Compute's documentation, "Pipelines": bit manipulation, logic and integers without
# IMAD, comparisons and selections also of floats). IMAD in any guise is FMA's, U... the uniform path's.
ALU = set("""BMSK IABS IADD IADD3 IADD32I IMNMX ISCADD ISETP LEA LOP LOP3 LOP32I MOV MOV32I SHF SHL SHR VABSDIFF
    VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 PRMT SEL FSEL SGXT PLOP3 P2R R2P FMNMX FSETP I2FP""".split())
ALU_LANES, ISSUED = 64, 128  # per clock and multiprocessor

# Multiprocessors, highest clock [GHz], memory [TB/s]: NVIDIA's data sheets, the SXM boards.
CARDS = {"H100": (132, 1.98, 3.35), "H200": (132, 1.98, 4.8), "B200": (148, 1.965, 8.0)}

# The most ALU instructions per 16 bytes of a check of reductions, where memory and elements are in step, by width.
LIMITS = {8: 48, 4: 48, 2: 60, 1: 65}

Instruction = collections.namedtuple("Instruction", "predicate opcode operands")
Loop = collections.namedtuple("Loop", "kernel width data step alu all nbytes local")


def skip(why):
    print(f"kernel_counts.py: SKIP: {why}")
    sys.exit(77)


def tools():
    """cuobjdump and nvdisasm."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "busbar" / "cuda-tools"
    cuda = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "bin"

    def found():
        path = os.pathsep.join([os.environ.get("PATH", ""), str(cuda), *map(str, cache.glob("nvidia/cu*/bin"))])
        return [shutil.which(name, path=path) for name in ("cuobjdump", "nvdisasm")]

    if None in found():
        fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--timeout", "10", "--retries", "1", "--target", str(cache), *PACKAGES]
        fetched = subprocess.run(fetch, capture_output=True, text=True)
        if fetched.returncode != 0 or None in found():
            last = (fetched.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            skip(f"no cuobjdump and nvdisasm in PATH, and not from PyPI either: {last}")
    return found()


def disassembled(binary):
    cuobjdump, nvdisasm = tools()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cuobjdump, "--extract-elf", ARCHITECTURE, binary], cwd=folder, check=True, capture_output=True)
        cubins = sorted(Path(folder).glob("*.cubin"))
        if not cubins:
            skip(f"{binary} holds no code of {ARCHITECTURE}")
        return subprocess.run([nvdisasm, "--print-code", cubins[0]], check=True, capture_output=True, text=True).stdout


def functions(sass):
    """Instructions and labels of every function, by mangled name."""
    listed = {}
    current = None
    for line in sass.splitlines():
        if name := re.match(r"\.text\.(\S+):", line):
            current = listed.setdefault(name[1], [])
        elif current is not None and (label := re.match(r"\s*(\.L_\w+):", line)):
            current.append(label[1])
        elif current is not None and (
                part := re.match(r"\s+(?:/\*[0-9a-f]+\*/)?\s*(@!?U?P\w+)?\s*([A-Z][A-Z0-9_.]*)(.*?);", line)):
            current.append(Instruction(part[1], part[2], part[3]))
    return listed


def flow(code):
    """Basic blocks, and those that each may go on with."""
    blocks, labels = [[]], {}
    for item in code:
        if isinstance(item, str):
            if blocks[-1]:
                blocks.append([])
            labels[item] = len(blocks) - 1
        else:
            blocks[-1].append(item)
            if item.opcode.split(".")[0] in ("BRA", "CALL", "EXIT", "RET"):
                blocks.append([])
    successors = []
    for n, block in enumerate(blocks):
        after = set()
        kind = block[-1].opcode.split(".")[0] if block else ""
        # Warps of these kernels are whole where they shuffle: the way around is never taken.
        if block and block[-1].opcode.startswith("BRA.DIV"):
            kind = ""
        if kind == "BRA":
            after.add(labels[re.search(r"\.L_\w+", block[-1].operands)[0]])
        if n + 1 < len(blocks) and (kind not in ("BRA", "EXIT", "RET") or block[-1].predicate):
            after.add(n + 1)
        successors.append(after)
    run, queue = {0}, [0]
    while queue:
        new = successors[queue.pop()] - run
        run |= new
        queue += new
    return blocks, [after if n in run else set() for n, after in enumerate(successors)]


def cycles(nodes, successors):
    """Strongly connected components of more than one block, or of one that jumps to itself."""
    def reached(start, edges):
        seen, queue = set(), [start]
        while queue:
            for n in edges(queue.pop()):
                if n in nodes and n not in seen:
                    seen.add(n)
                    queue.append(n)
        return seen
    left = set(nodes)
    while left:
        n = left.pop()
        forth = reached(n, lambda m: successors[m])
        back = reached(n, lambda m: (p for p in nodes if m in successors[p]))
        if component := forth & back:
            left -= component
            yield component


def innermost(nodes, successors):
    for component in cycles(nodes, successors):
        heads = {n for n in component if any(n in successors[m] for m in set(range(len(successors))) - component)}
        inner = list(innermost(component - (heads or {min(component)}), successors))
        if inner:
            yield from inner
        else:
            yield component


def width_of_access(opcode):
    for suffix, nbytes in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if suffix in opcode:
            return nbytes
    return 4


def hot_loops(sass):
    for name, code in functions(sass).items():
        kernel = re.search(r"(fill|check)_kernelILj(\d)ELb(\d)E", name)
        if not kernel:
            continue
        blocks, successors = flow(code)
        for loop in innermost(set(range(len(blocks))), successors):
            body = [i for n in loop for i in blocks[n] if not any(j.opcode.startswith("CALL") for j in blocks[n])]
            names = [i.opcode for i in body]
            accesses = [width_of_access(o) for o in names if o.startswith("LDG" if kernel[1] == "check" else "STG")]
            rounds = sum(accesses) // 16
            if rounds == 0:
                continue
            # Only a rank's data depend on whether its place is within the window.
            chooses = any(o.split(".")[0] in ("SEL", "VIMNMX", "IMNMX") for o in names)
            data = "moved" if kernel[3] == "0" else "rank" if chooses else "reduced"
            yield Loop(kernel[1], int(kernel[2]), data, "in step" if 16 in accesses else "out of step",
                       sum(o.split(".")[0] in ALU for o in names) / rounds, len(names) / rounds, rounds * 16,
                       sum(o.startswith(("LDL", "STL")) for o in names))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("object", nargs="?", default="build/CMakeFiles/busbar_kernels.dir/src/kernels/device.cu.o")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is exceeded")
    args = parser.parse_args()
    if not Path(args.object).is_file():
        skip(f"no {args.object}: build busbar_kernels where the CUDA toolkit is, or name the object")
    loops = sorted(hot_loops(disassembled(Path(args.object).absolute())))
    print(f"# {ARCHITECTURE}, per 16 bytes; the bound in TB/s at the highest clock, and of the memory's own")
    print(f"# {'kernel':6} {'width':>5} {'data':8} {'memory':12} {'ALU':>6} {'all':>6} {'bytes':>5}"
          + "".join(f" {card:>10}" for card in CARDS))
    wrong = [] if loops else ["no hot loop was found"]
    for loop in loops:
        clocks = max(loop.alu / ALU_LANES, loop.all / ISSUED)
        bounds = [(16 * sms * ghz / 1e3 / clocks, memory) for sms, ghz, memory in CARDS.values()]
        print(f"  {loop.kernel:6} {loop.width:5} {loop.data:8} {loop.step:12} {loop.alu:6.1f} {loop.all:6.1f} "
              f"{loop.nbytes:5}" + "".join(f" {bound:5.1f} {bound / memory:4.2f}" for bound, memory in bounds))
        limit = LIMITS.get(loop.width, 1e9)
        if (loop.kernel, loop.data, loop.step) == ("check", "reduced", "in step") and loop.alu > limit:
            wrong.append(f"check of {loop.width}-byte reductions: {loop.alu:.1f} ALU instructions, {limit} at most")
        if loop.local > 0:
            wrong.append(f"{loop.kernel}, {loop.width} bytes, {loop.data}: {loop.local} accesses to local memory")
    for line in wrong:
        print(f"kernel_counts.py: {line}", file=sys.stderr)
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
