"""Makes the libnccl.so.2 that stands in front of the real one (moves.cpp): a jump for each of its functions."""

import os
import re
import subprocess


def functions_of(library):
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True).stdout
    return sorted(set(re.findall(r"^\w+ [TW] (p?nccl\w+)(?:@|$)", table, re.MULTILINE)))


def make_front(library, moves, folder):
    """Makes FOLDER/lib/libnccl.so.2 in front of `library`; returns FOLDER, for NCCL_HOME."""
    names = functions_of(library)
    jumps = [f'.globl {name}\n.type {name}, @function\n{name}: jmp *front_functions+{8 * i}(%rip)'
             for i, name in enumerate(names)]
    quoted = ",\n".join(f'"{name}"' for name in names)
    source = f"""__attribute__((visibility("hidden"))) void *front_functions[{len(names)}];
static const char *const names[] = {{{quoted}}};
void real_nccl_open(const char *, const char *const *, void **, int);
__attribute__((constructor)) static void open_all(void) {{
  real_nccl_open("{library}", names, front_functions, {len(names)});
}}
"""
    lib = os.path.join(folder, "lib")
    os.makedirs(lib, exist_ok=True)
    paths = []
    for name, text in (("front.c", source), ("jumps.s", ".text\n" + "\n".join(jumps) + "\n")):
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", "-Wl,-z,noexecstack", *paths, moves,
                    f"-Wl,-rpath,{os.path.dirname(moves)}", "-o", os.path.join(lib, "libnccl.so.2")], check=True)
    return folder
