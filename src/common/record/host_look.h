#pragma once

#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What busbar-look saw on one host, in two looks a few seconds apart. Facts only: they are judged where the command was
// given. What can move is given as its growth between the looks; -1, '?' or an empty text: could not be read. Secrets
// are masked where the look is made.

/// A thread of a process, as in the second look.
struct LookThread {
  std::int64_t tid = 0;
  std::string name;                 ///< "pt_nccl_watchdg"
  char state = '?';                 ///< R S D T t Z ...
  std::string wchan;                ///< kernel function it sleeps in; empty: not readable
  double cpu_s = -1;                ///< used between the looks
  std::int64_t slept = -1;          ///< voluntary context switches between the looks: 0 and no CPU time: it is blocked
  std::int64_t moved = -1;          ///< [bytes] that it read and wrote between the looks; only of the main thread
  std::vector<std::string> python;  ///< its stack, the outermost call first: "wait (threading.py:359)"
  std::vector<std::string> python_before;  ///< in the first look; empty: the same, or not taken
  bool gil = false;                        ///< it holds Python's global lock
  std::vector<std::string> native;         ///< only with --stacks=native
};

/// A TCP socket of a process that needs attention: not established, or with data that wait.
struct LookSocket {
  std::string local;          ///< "10.0.0.1:4242"
  std::string remote;         ///< "10.0.9.9:29500"
  std::string state;          ///< "SYN_SENT", "ESTABLISHED", "CLOSE_WAIT", ...
  std::int64_t unsent = 0;    ///< [bytes] not acknowledged by the peer
  std::int64_t unread = 0;    ///< [bytes] that the process has not read
  int retransmits = 0;        ///< of the oldest segment
  bool same_in_both = false;  ///< the first look saw the same state, and the same bytes waiting
};

/// A process of a job, or of what a job started.
struct LookProcess {
  enum class Role : std::uint8_t {
    rank,
    worker,    ///< a fork of a rank that has its variables: a worker of a DataLoader; `parent` is the rank
    launcher,  ///< torchrun, mpirun, slurmstepd, ...: the parent of ranks
    helper,    ///< other descendants of ranks: compilers, resource trackers
  };
  std::int64_t pid = 0;        ///< as the looking process sees it
  std::int64_t inner_pid = 0;  ///< in its own pid namespace, as NCCL's logs and RAS name it
  std::int64_t parent = 0;
  std::uint64_t pid_namespace = 0;  ///< inode; 0: not readable
  std::uint64_t net_namespace = 0;
  double start_s = 0;   ///< since the epoch
  std::string user;     ///< name, or number
  std::string program;  ///< "python3.11"
  std::string command;  ///< its arguments or title, masked
  Role role = Role::helper;
  std::string job;  ///< equal for all processes of one job on this host: "slurm 4242.0", "torchrun NAME", "pid 77"

  int rank = -1;            ///< never guessed
  std::string rank_source;  ///< "RANK", "SLURM_PROCID", "title", "RAS"; empty: not known
  int nranks = -1;
  int local_rank = -1;
  int restarts = -1;                     ///< TORCHELASTIC_RESTART_COUNT
  std::string master;                    ///< "10.0.0.1:29500", where the ranks meet
  std::vector<std::string> environment;  ///< "NAME=value", by an allow list

  char state_before = '?';  ///< in the first look
  char state = '?';         ///< R S D T t Z; X: gone in the second look
  std::int64_t tracer_before = 0;
  std::int64_t tracer = 0;  ///< pid of the process that traces it; 0: none
  std::string tracer_program;
  std::string wchan;           ///< of the main thread
  double cpu_s = -1;           ///< of all threads, between the looks
  double children_cpu_s = -1;  ///< of its children that ended, and of theirs, as far as they were waited for then
  int nthreads = 0;
  std::vector<LookThread> threads;  ///< the main one first, then those with a stack, a name or CPU time, 64 at most

  std::int64_t bytes_read = -1;  ///< between the looks, from files, pipes and sockets
  std::int64_t bytes_written = -1;
  std::int64_t rss_bytes = -1;
  std::int64_t rss_growth = 0;  ///< [bytes] between the looks
  int open_files = -1;
  std::int64_t open_files_limit = -1;  ///< -1: not readable, or unlimited
  std::int64_t memlock_limit = -1;     ///< [bytes]; the same
  std::vector<LookSocket> sockets;
  std::vector<std::string> libraries;  ///< of "nccl", "rccl", "mpi", "torch", "jax", "cuda", "python"
  int nccl_version = -1;               ///< as ncclGetVersion counts; 0: loaded, but not known; -1: not loaded
  std::vector<int> gpus;               ///< N of the /dev/nvidiaN that it holds
  std::string stacks_missing;          ///< why `threads` has no Python stacks; empty: it has, or it is no Python
};

/// The end of a file into which ranks or launchers write.
struct LookLog {
  std::string path;
  std::vector<std::int64_t> pids;  ///< writers
  std::int64_t nbytes = 0;
  std::int64_t growth = 0;  ///< [bytes] between the looks
  double quiet_s = -1;      ///< since it was written
  std::string text;         ///< masked, whole lines
};

/// A dump of PyTorch's Flight Recorder.
struct LookDump {
  std::string path;
  std::int64_t pid = 0;  ///< of the rank whose variables name it
  int rank = -1;         ///< from the name
  double age_s = -1;
  std::string base64;  ///< its bytes; empty: too large
};

struct LookGpu {
  int index = -1;  ///< as nvidia-smi counts
  std::string name;
  std::string bus_id;
  std::string problem;  ///< "GPU is lost": it answers nothing else
  double busy_percent = -1, busy_percent_before = -1;
  double memory_percent = -1, memory_percent_before = -1;  ///< of the time that memory was read or written
  double power_w = -1, power_w_before = -1;
  double power_limit_w = -1;
  std::int64_t ecc_uncorrected = -1;
  std::vector<std::int64_t> pids;  ///< that compute there
};

/// A network interface or a port of an RDMA device.
struct LookPort {
  std::string name;            ///< "eth0", "mlx5_3/1"
  std::string state;           ///< "up", "down", "4: ACTIVE"
  std::int64_t bytes_in = -1;  ///< between the looks
  std::int64_t bytes_out = -1;
};

/// A counter of errors that is not 0, and its growth.
struct LookCounter {
  std::string name;  ///< "mlx5_0/1/symbol_error", "tcp/RetransSegs"
  std::int64_t value = 0;
  std::int64_t growth = 0;
};

/// The memory of a control group with processes of the job.
struct LookGroup {
  std::string path;         ///< "/kubepods.slice/...", "job_4242"
  std::int64_t limit = -1;  ///< [bytes]; -1: none
  std::int64_t used = -1;
  std::int64_t oom_kills = -1;  ///< since it exists
  std::int64_t oom_kills_growth = 0;
  std::int64_t throttled_ms = -1;  ///< by a CPU quota, between the looks
};

/// A process, of a job or not, that waited for the kernel (state D) in both looks.
struct LookBlocked {
  std::int64_t pid = 0;
  std::string program;
  std::string wchan;
  std::vector<std::string> mounts;  ///< network and FUSE file systems on which it has files or its working directory
};

/// An answer of NCCL's RAS service, asked twice, or why it was not asked.
struct LookRas {
  std::string why_not;
  std::string first, second;  ///< as they came
};

/// One source of facts: what it gave, or what it would take.
struct LookCollector {
  enum class Outcome : std::uint8_t { ok, absent, unreadable, timed_out };
  std::string name;  ///< "processes", "python stacks", "gpus", "kernel log", ...
  Outcome outcome = Outcome::ok;
  std::string why;    ///< "/proc/4242/environ: permission denied (3 processes)"
  std::string allow;  ///< what would allow it: "run as root or as user alice"
};

/// The collector of processes; if it timed out, a rank that was not found may be there all the same.
inline constexpr const char* kProcesses = "processes";

struct HostLook {
  std::string host;
  std::string kernel;                  ///< with the machine: "6.8.0-40 aarch64"
  std::string boot_id;                 ///< of its kernel: containers and virtual hosts of one machine have the same
  std::uint64_t net_namespace = 0;     ///< in which busbar-look ran
  std::vector<std::string> addresses;  ///< of its interfaces that may lead to other hosts: "10.0.0.1"
  double time_s = 0;                   ///< of the first look, since the epoch
  double look_s = 0;                   ///< between the looks
  double boot_s = 0;                   ///< since the epoch
  std::vector<LookProcess> processes;
  std::vector<LookLog> logs;
  std::vector<LookDump> dumps;
  std::vector<LookGpu> gpus;
  std::vector<LookPort> ports;
  std::vector<LookCounter> counters;
  std::vector<LookGroup> groups;
  std::int64_t oom_kills = -1;          ///< of the host since its boot
  std::vector<std::string> kernel_log;  ///< lines on trouble, with seconds since boot as dmesg prints them
  std::vector<LookBlocked> blocked;
  LookRas ras;
  std::vector<LookCollector> collectors;
};

/// A host of the job from which no look came.
struct LookSilence {
  enum class Kind : std::uint8_t { unresolved, unreachable, no_answer, refused, failed };
  std::string host;
  Kind kind = Kind::failed;
  std::string why;  ///< "ssh: connect to host node3 port 22: No route to host"
};

/// All looks at one job: what busbar triage judges, and what its -J keeps.
struct JobLook {
  std::string how;         ///< "slurm 4242", "hosts", "kube ml job=llm", "local"
  int expected_hosts = 0;  ///< of the job; 0: not known
  std::vector<HostLook> hosts;
  std::vector<LookSilence> silent;
  std::vector<std::string> scheduler;  ///< Slurm's or Kubernetes' own words: "node3: DOWN* (Not responding)"
};

// These words are part of the documents' format.
constexpr EnumWords<4> words_of(LookProcess::Role) { return {"rank", "worker", "launcher", "helper"}; }
constexpr EnumWords<4> words_of(LookCollector::Outcome) { return {"ok", "absent", "unreadable", "timed_out"}; }
constexpr EnumWords<5> words_of(LookSilence::Kind) {
  return {"unresolved", "unreachable", "no_answer", "refused", "failed"};
}

// Documents of 0.2.0 have no `moved` and no `addresses`.
void visit_fields(auto&& visit, LookThread& t) {
  BUSBAR_FIELDS(visit, t, tid, name, state, wchan, cpu_s, slept, python, python_before, gil, native);
  visit("moved", t.moved, std::int64_t{-1});
}
BUSBAR_RECORD(LookSocket, local, remote, state, unsent, unread, retransmits, same_in_both);
BUSBAR_RECORD(LookProcess, pid, inner_pid, parent, pid_namespace, net_namespace, start_s, user, program, command, role,
              job, rank, rank_source, nranks, local_rank, restarts, master, environment, state_before, state,
              tracer_before, tracer, tracer_program, wchan, cpu_s, children_cpu_s, nthreads, threads, bytes_read,
              bytes_written, rss_bytes, rss_growth, open_files, open_files_limit, memlock_limit, sockets, libraries,
              nccl_version, gpus, stacks_missing);
BUSBAR_RECORD(LookLog, path, pids, nbytes, growth, quiet_s, text);
BUSBAR_RECORD(LookDump, path, pid, rank, age_s, base64);
BUSBAR_RECORD(LookGpu, index, name, bus_id, problem, busy_percent, busy_percent_before, memory_percent,
              memory_percent_before, power_w, power_w_before, power_limit_w, ecc_uncorrected, pids);
BUSBAR_RECORD(LookPort, name, state, bytes_in, bytes_out);
BUSBAR_RECORD(LookCounter, name, value, growth);
BUSBAR_RECORD(LookGroup, path, limit, used, oom_kills, oom_kills_growth, throttled_ms);
BUSBAR_RECORD(LookBlocked, pid, program, wchan, mounts);
BUSBAR_RECORD(LookRas, why_not, first, second);
BUSBAR_RECORD(LookCollector, name, outcome, why, allow);
void visit_fields(auto&& visit, HostLook& h) {
  BUSBAR_FIELDS(visit, h, host, kernel, boot_id, net_namespace, time_s, look_s, boot_s, processes, logs, dumps, gpus,
                ports, counters, groups, oom_kills, kernel_log, blocked, ras, collectors);
  visit("addresses", h.addresses, std::vector<std::string>());
}
BUSBAR_RECORD(LookSilence, host, kind, why);
BUSBAR_RECORD(JobLook, how, expected_hosts, hosts, silent, scheduler);

/// The document `look` of one host on one line.
std::string look_document(HostLook look);

/// Reads it. Throws Error(bad_config) that names the file.
HostLook read_look(std::string_view text, const std::string& name);

}  // namespace busbar
