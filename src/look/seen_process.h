#pragma once

#include "common/machine/probe.h"
#include "common/record/host_look.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// A file or a socket that a process has open.
struct SeenFile {
  int fd = -1;
  std::string target;  ///< "/data/job.log", "socket:[4242]"
  bool writes = false;
};

/// A process in one look: what can move is a total since its start. With what is needed only until it is reported.
struct SeenProcess {
  LookProcess look;
  double since_boot_s = 0;  ///< when it began
  unsigned uid = 0;
  bool kernel_thread = false;
  bool named = false;                      ///< the user's pattern fits its command
  bool environ_hidden = false;             ///< its variables may not be read
  std::string folder;                      ///< its working directory
  std::string slurm_job;                   ///< of its variables or its control group
  std::string run_id;                      ///< of torchrun, PMIx, PMI: one for all of a job
  std::string ras_address;                 ///< NCCL_RAS_ADDR
  std::vector<std::string> dump_prefixes;  ///< of Flight Recorder dumps, as its variables say or by default
  std::vector<std::string> records;        ///< flight records of busbar's own benchmarks that it has mapped
  std::string dump_pipe;                   ///< prefix of the pipes that request one; empty: none
  std::vector<SeenFile> files;
};

BUSBAR_RECORD(SeenFile, fd, target, writes);
BUSBAR_RECORD(SeenProcess, look, since_boot_s, uid, kernel_thread, named, environ_hidden, folder, slurm_job, run_id,
              ras_address, dump_prefixes, records, dump_pipe, files);

/// What the user's options say about the processes that count.
struct ProcessFilter {
  std::string pattern;    ///< part of a command; empty: any
  std::string slurm_job;  ///< "4242"; empty: any
};
BUSBAR_RECORD(ProcessFilter, pattern, slurm_job);

/// The process `pid` of this machine; without a program if there is none. If it can belong to a job, all of it.
SeenProcess read_process(const Probe& probe, std::int64_t pid, const ProcessFilter& filter);

/// The same process later: what can move is read again, without its memory's lock. State X: it has ended.
SeenProcess read_again(const Probe& probe, const SeenProcess& seen);

/// The pids in /proc.
std::vector<std::int64_t> process_ids(const Probe& probe);

/// Totals of `later` as growth since `earlier`; -1 if either could not be read.
template <class Record, class... Number>
void grow(const Record& earlier, Record& later, Number Record::*... totals) {
  const auto grown = [](auto before, auto now) { return before < 0 || now < 0 ? -1 : now > before ? now - before : 0; };
  ((later.*totals = grown(earlier.*totals, later.*totals)), ...);
}

/// The stack, threads and counts of `later` as growth since `earlier`, which is the same process.
LookProcess process_growth(const LookProcess& earlier, LookProcess later);

/// The open TCP sockets that need attention among `files`. `earlier`, `later`: texts of the network namespace's tables.
std::vector<LookSocket> attention_sockets(const std::vector<SeenFile>& files, std::string_view earlier,
                                          std::string_view later);

}  // namespace busbar
