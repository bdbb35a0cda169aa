#include "driver/diagnose/diagnose_capture.h"

namespace busbar {

// NCCL's variables are those of src/debug.cc (2.4 to 2.30), PyTorch's those of ProcessGroupNCCL.hpp (2.2 to 2.8).
std::string capture_help() {
  return R"(How to run a job so that `busbar diagnose` can tell what hung.

1. NCCL's log: one file per process, every communicator and every call. On all ranks:

     export NCCL_DEBUG=INFO
     export NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING,COLL,P2P,NVLS
     export NCCL_DEBUG_FILE=/shared/logs/nccl.%h.%p.log
     export NCCL_DEBUG_TIMESTAMP_LEVELS=ALL NCCL_DEBUG_TIMESTAMP_FORMAT="[%F %T.%6f] "

   %h is the host, %p the process: without both, processes overwrite each other's file (no other letters are known).
   The timestamps come with NCCL 2.26; older ones ignore those variables. With mpirun pass all of them on
   (-x NCCL_DEBUG -x ...), with srun --export=ALL, with torchrun they are inherited.

   What each subsystem tells, and costs:
     INIT BOOTSTRAP ENV   who joined, who finished, what is set            a few kB per process, at start only
     NET GRAPH NVLS       network cards, GPU Direct, channels, paths       tens of kB per process, at start only
     TUNING               algorithm and protocol of each call              a line per call (2.23 on; before it a table)
     COLL                 each call with its arguments: the one that tells who is behind, and whose arguments differ
                          about 250 bytes and one write per call and rank; 10 GB a day at 500 calls/s.
                          For a job that runs for days: INIT,BOOTSTRAP,ENV,NET first, COLL once it is known to hang.
     P2P                  transports of each pair; at start and at the first use of an algorithm
   The file is written line by line, so that it is complete when the process is killed. A local disk (/tmp) serves as
   well where /shared is slow: collect the files of all hosts afterwards, because one that is missing looks like a rank
   that never spoke.

2. PyTorch, beside it:

     export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
     export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/shared/logs/fr_trace_
     export TORCH_NCCL_DESYNC_DEBUG=1
     export TORCH_CPP_LOG_LEVEL=INFO

   The buffer (the flight recorder, 2.2 on) costs memory and a little time per call; its dumps are for PyTorch's own
   fr_trace. DESYNC_DEBUG adds a store access per call of every rank: only while looking for a hang. The watchdog's
   lines ("Watchdog caught collective operation timeout", "last enqueued NCCL work") are read from the job's output;
   keep the output of every rank: torchrun --redirects=3 --log-dir /shared/logs, or mpirun --output-filename.
   Shorten the timeout (init_process_group(timeout=...), 10 minutes as a rule) rather than waiting for it.

3. While it hangs, before anybody kills it, on one host of the job:

     (echo "set format json"; echo "verbose status"; sleep 12) | nc localhost 28028 >/shared/logs/ras1.json
     ... the same once more after 10 s into ras2.json: only what both say is certain

   (NCCL 2.24 on, JSON from 2.28.7; before that leave out the first line. NCCL_RAS_ADDR where it is set.) And on every
   host:

     sudo dmesg -T >/shared/logs/dmesg.$(hostname)     # or journalctl -k --since -1h
     ps -eo pid,stat,wchan:32,etime,args >/shared/logs/ps.$(hostname)

4. Jobs of busbar itself need nothing of this: each rank keeps a flight record in /dev/shm.
     busbar diagnose --flight /dev/shm

Then:  busbar diagnose /shared/logs
)";
}

}  // namespace busbar
