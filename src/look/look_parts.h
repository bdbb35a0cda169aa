#pragma once

#include "common/machine/probe.h"
#include "common/record/host_look.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

// What a look consists of: the parts that take_look.cpp joins, each in a file of its own.

// Which processes are of a job, roles.cpp.

/// The processes of jobs among those of a host, with their roles and their job's name set: ranks, their workers and
/// other descendants, and what launched them. `own_pid`: this process, which is never part of a job, nor are other
/// busbar commands. Pure.
///
/// A rank has a variable that names it, or holds a GPU or runs a library's threads; of processes that inherited one
/// variable it is the first that has loaded a library of communication, and else the first. A process with the rank's
/// own command below it is a worker, because workers of a DataLoader are forks and inherit everything.
std::vector<SeenProcess> job_processes(std::vector<SeenProcess> all, const ProcessFilter& filter, std::int64_t own_pid);

/// Whether NCCL's RAS service is asked on this host: it answers for all of the job, so only two need to ask.
bool asks_ras(const std::vector<SeenProcess>& job);

// The host, host_facts.cpp.

/// Seconds since the epoch.
double now_s();

/// What this host is, and when the look began.
HostLook this_host(const Probe& probe);

/// Ports with their traffic, as totals.
std::vector<LookPort> read_ports(const Probe& probe);
/// The counters of error_counters.h, as totals.
std::vector<LookCounter> read_host_counters(const Probe& probe);
/// The control groups of these processes, as totals.
std::vector<LookGroup> read_groups(const Probe& probe, const std::vector<std::int64_t>& pids);

/// Totals of `later` as growth since the earlier look, and what GPUs did in that. Leaves out counters that are 0, and
/// groups without a limit in which nothing happened.
void host_growth(const HostLook& earlier, HostLook& later);

/// Lines of the kernel's log on trouble: errors of devices, links, memory, file systems, tasks that do not run. Throws
/// Error(not_possible) if it may not be read.
std::vector<std::string> kernel_troubles(const Probe& probe);

/// The file systems of this mount namespace that a server or a program serves, longest path first.
std::vector<std::string> served_mounts(const Probe& probe);

/// Whether a process waits for a file system: in state D, or in a function of FUSE, NFS, Lustre, ...
bool waits_for_files(const LookProcess& process);

/// A process that waited so in both looks, and the served mounts on which it has files; all of its mounts if it has
/// none there, because then a local file system blocks.
LookBlocked blocked_process(const Probe& probe, const LookProcess& process, const std::vector<std::string>& served);

/// Whether a path is on one of these mounts.
bool is_on(const std::vector<std::string>& mounts, std::string_view path);

// What programs report, programs.cpp.

/// The path of a program that may be run although its folder comes from PATH or from a job: owned by root, or in
/// `own_folder` if only root and this user can write there; empty: there is none. Nobody else can have replaced it.
std::string trusted_program(const std::string& name, const std::string& own_folder);

/// The py-spy for a process: a trusted one, or that of the process's own environment if this is its user.
std::string py_spy_for(const LookProcess& process, unsigned uid, const std::string& trusted);

/// The Python stacks of a process by `py-spy dump --nonblocking`, which reads memory and stops nothing; `native`: see
/// native_stacks. Throws Error(not_possible) with py-spy's reason.
std::vector<LookThread> python_stacks(const std::string& py_spy, std::int64_t pid, bool native = false);

/// The native stacks: STOPS the process while they are read, for py-spy --native (Python) or gdb.
std::vector<LookThread> native_stacks(const std::string& py_spy, const std::string& gdb, std::int64_t pid);

/// Adds these stacks to the threads of a process.
void add_stacks(LookProcess& process, const std::vector<LookThread>& stacks);

/// Threads and frames in the output of `py-spy dump --json`, and in that of gdb's `thread apply all bt`.
std::vector<LookThread> parse_py_spy(const std::string& json, bool native);
std::vector<LookThread> parse_gdb(const std::string& text);

/// What nvidia-smi says about the GPUs. Throws Error(not_possible) with its reason.
std::vector<LookGpu> read_nvidia_smi(const std::string& nvidia_smi);
/// GPUs in its CSV output, and in its complaints.
std::vector<LookGpu> parse_nvidia_smi(const std::string& gpus, const std::string& processes);

// Secrets, mask.cpp.

/// Untrusted text, such as lines of a log, with `***` in place of what may be a secret: the user and password of a URL,
/// the value of a name such as `api_key`, `--password` or `"token"`, what follows `Bearer`, a private key's lines, and
/// tokens of known form (Hugging Face, OpenAI, GitHub, GitLab, AWS, Google, Slack, JWT). Masks rather too much.
std::string masked(std::string_view text);

/// A command line's words, joined by spaces; the word after an option such as `--token` is masked as a whole.
std::string masked_command(const std::vector<std::string_view>& words);

/// Whether a name (of a variable, an option, a member) is one of a secret: "WANDB_API_KEY", "hf-token".
bool names_secret(std::string_view name);

// Files that ranks write, job_files.cpp.

/// A file into which processes of a job write, and the descriptor through which it is read: that also reaches into
/// containers, and to files that were removed.
struct OpenLog {
  LookLog log;
  std::string at;  ///< "/proc/4242/fd/1"
};
BUSBAR_RECORD(OpenLog, log, at);

/// The logs among the open files of ranks and launchers: stdout, stderr, and names like a log's. None on `blocked`
/// mounts. Opens nothing.
std::vector<OpenLog> open_logs(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked);

/// The log's size and age. Throws Error(not_possible).
OpenLog with_size(OpenLog open, double now_s);

/// The last `most` bytes of the log in whole lines, masked; nothing if they are no text. Throws Error(not_possible).
LookLog with_tail(OpenLog open, std::size_t most);

/// The dumps of PyTorch's Flight Recorder of these ranks that are there and newer than their processes, and the flight
/// records of busbar's own benchmarks.
std::vector<LookDump> find_dumps(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked,
                                 double now_s);

/// The dump with its bytes, if it has at most `most`. Throws Error(not_possible).
LookDump with_bytes(LookDump dump, std::size_t most);

/// Asks the recorder of a rank for a dump through its pipe, which makes the process write a file, and waits for it.
/// Throws Error(not_possible): the rank has no pipe, or nobody reads it, or no dump came.
LookDump request_dump(const SeenProcess& rank, double limit_s);

// The look itself, take_look.cpp.

struct LookOptions {
  ProcessFilter filter;
  double apart_s = 5;               ///< between the looks
  double limit_s = 60;              ///< then what is left is given up
  std::size_t log_bytes = 1 << 20;  ///< of all logs of this host together; 4 MiB of one at most
  bool native_stacks = false;       ///< stops each rank while it is read
  bool flight_recorder = false;     ///< makes each rank write a file
};
BUSBAR_RECORD(LookOptions, filter, apart_s, limit_s, log_bytes, native_stacks, flight_recorder);

/// Looks twice at this host and the job's processes on it. Reads; each source of facts in a process of its own with a
/// deadline, so that this ends soon after the limit, whatever blocks.
HostLook take_look(const Probe& probe, const LookOptions& options);

}  // namespace busbar
