#!/usr/bin/env bash
# Runs one benchmark on 4 ranks of this machine, whatever it is: `run-example.sh build/all_reduce_perf [options]`, with
# the launcher BUSBAR_MPIRUN, else mpirun. Empty: the build has no MPI, and the benchmark starts its ranks itself.
set -euo pipefail

program=$1
shift
if (($# == 0)); then
  set -- -b 8 -e 64M -f 8  # the table that the README explains
fi

launcher=${BUSBAR_MPIRUN-mpirun}
if [[ -z $launcher || $launcher == *-NOTFOUND ]]; then
  echo "\$ $program -g 4 $*"
  exec "$program" -g 4 "$@" </dev/null
fi
if [[ $launcher -ef $(command -v "${launcher##*/}") ]]; then
  launcher=${launcher##*/}  # as one would type it
fi
launcher_options=(-n 4)

# Open MPI refuses to start as root and on fewer cores than ranks unless told that it is meant.
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if (($(nproc) < 4)) && [[ $("$launcher" --version 2>/dev/null) =~ Open\ ?MPI|OpenRTE|PRRTE ]]; then
  launcher_options+=(--oversubscribe)
fi

# Containers often forbid process_vm_readv, on which Open MPI's shared memory otherwise insists, noisily. Where it is
# forbidden, it is so for a process's own memory too.
may_read_process_memory() {
  python3 - <<'PY'
import ctypes, os, sys
class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("nbytes", ctypes.c_size_t)]
source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
local = IoVec(ctypes.addressof(target), 1)
remote = IoVec(ctypes.addressof(source), 1)
read = ctypes.CDLL(None).process_vm_readv
sys.exit(read(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) != 1)
PY
}
if ! may_read_process_memory 2>/dev/null; then
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
fi

echo "\$ $launcher ${launcher_options[*]} $program $*"
exec "$launcher" "${launcher_options[@]}" "$program" "$@" </dev/null
