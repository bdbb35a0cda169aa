#pragma once

#include "driver/diagnose/diagnosis.h"
#include "driver/diagnose/program_lines.h"
#include "driver/readers/call_records.h"
#include "driver/readers/torch_watchdog.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace busbar {

/// Interns the few words that calls are made of (operations, datatypes): a number for each.
class Words {
 public:
  std::uint8_t id(std::string_view word);
  const std::string& text(std::uint8_t id) const { return texts_[id]; }

 private:
  std::vector<std::string> texts_{"?"};  ///< the first stands for what is too much
};

/// A call, and its place among the calls.
struct Call {
  std::uint64_t count = 0;
  std::uint32_t op_count = 0;
  std::uint32_t when = 0;  ///< number of the call among all of its process
  std::int32_t root = -1;  ///< -1: has none
  std::uint8_t op = 0, dtype = 0, redop = 0;

  /// What ranks must agree on.
  auto terms() const { return std::tuple(count, root, op, dtype, redop); }
};

/// NCCL's opCount over the lines of a rank on a communicator, Send and Recv among them.
struct OpCounts {
  std::uint64_t first = 0, last = 0;
  std::uint64_t alike = 0;        ///< lines with `last`: the calls of a group have the same
  std::uint64_t passed_over = 0;  ///< counted without a line: lines are missing, or a CUDA graph was replayed

  void see(std::uint64_t op_count);
};

/// The collective calls of one rank on one communicator, in bounded memory: the last ones.
class CallStream {
 public:
  /// Launches that a CUDA stream takes before the host waits: ranks that differed further back went on all the same.
  static constexpr std::size_t kWindow = 1024;

  void add(const Call& call);

  std::uint64_t size() const { return size_; }
  std::uint64_t window_begin() const { return size_ - ring_.size(); }
  /// Calls window_begin() to size() - 1.
  const Call& at(std::uint64_t ordinal) const { return ring_[ordinal % kWindow]; }
  /// Of every call so far the opCount was one more than that of the call before.
  bool consecutive() const { return consecutive_; }
  /// Of every call so far the opCount was more than that of the call before.
  bool increasing() const { return increasing_; }
  std::uint32_t first_op_count() const { return first_op_count_; }

 private:
  std::vector<Call> ring_;
  std::uint64_t size_ = 0;
  std::uint32_t first_op_count_ = 0;
  std::uint32_t last_op_count_ = 0;
  bool consecutive_ = true;
  bool increasing_ = true;
};

// What the lines of a job's logs say, gathered per process, rank and communicator. Everything that grows with the input
// has a bound; what exceeds it is left out, never a reason to stop.

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// How far the initialization of a rank came, according to its lines.
enum class InitStage : std::uint8_t { none, started, bootstrap, connect, rings, trees, complete };

/// One communicator of one rank, from its creation to its end, because pointers are reused.
struct CommInstance {
  std::uint32_t process = kNoIndex;
  std::uint32_t source = kNoIndex;
  std::uint64_t pointer = 0;
  int rank = -1;
  int nranks = -1;
  int nnodes = -1;
  std::uint64_t comm_id = 0;
  std::uint64_t parent = 0;  ///< pointer
  std::uint32_t parent_instance = kNoIndex;
  std::int64_t color = -1;
  std::string function;
  bool announced = false;  ///< a line of its initialization was seen before its first call
  bool started = false, completed = false, ended = false, aborted = false;
  bool used = false;  ///< called, split or destroyed: its initialization was complete
  InitStage stage = InitStage::none;
  std::string last_connection;  ///< "3 -> 4 via NET/IB"
  CallStream calls;             ///< without Send and Recv, on which ranks need not agree
  std::uint64_t sends = 0, receives = 0;
  OpCounts op_counts;
  // Of calls that others recorded, with an op_count on which all ranks agree:
  std::string recorded_as;                ///< "process group 0 (default_pg)"; empty: they are lines of NCCL
  bool ends_only = false;                 ///< only calls that ended are recorded
  std::int64_t ended_to = -1;             ///< calls with a lower number have ended; -1: unknown
  std::string last_site;                  ///< where the program made the last one
  std::vector<TorchDump::Transfer> open;  ///< sends and receives that have not ended

  /// Calls of any kind.
  std::uint64_t ncalls() const { return calls.size() + sends + receives; }
  void reach(InitStage further) { stage = std::max(stage, further); }
  /// Its initialization is complete.
  bool came_through() const { return completed || used; }
  /// Destroyed, not aborted.
  bool left() const { return ended && !aborted; }
};

/// The source of a line: a device of a process, that is a rank.
struct LogSource {
  std::uint32_t process = kNoIndex;
  int dev = -1;
  std::uint32_t instance = kNoIndex;     ///< the communicator that its lines without a pointer are about
  int hint_rank = -1, hint_nranks = -1;  ///< of lines without a pointer; rank -2: they contradict each other
  int job_rank = -1;                     ///< if logged, rather than that in the largest communicator
  std::size_t last_call_file = 0;
  std::uint64_t last_call_line = 0;  ///< 0: no call
  InitTimings timings;
  double bootstrap_s = -1;  ///< -1: not logged
  bool cut = false;         ///< its log ends in the middle of a line
  std::uint64_t warnings = 0, victim_warnings = 0,
                failures = 0;  ///< failures: unwinding and aborts
  /// Of the failures those on the way to its first communicator: of things that NCCL tries and can do without.
  std::uint64_t tries = 0;
  bool got_through = false;  ///< a network was chosen, or a communicator completed, after all tries
  /// instance, src, dst, transport -> channels
  std::map<std::tuple<std::uint32_t, int, int, std::string>, std::uint64_t> connections;

  /// What was tried in vain was not needed.
  void forgive_tries() {
    failures -= tries;
    tries = 0;
    got_through = true;
  }
};

struct Process {
  std::string host;
  std::int64_t pid = -1;
  std::string decoration;
  std::size_t file = 0;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;  ///< UINT64_MAX: it wrote into several files
  std::uint64_t lines = 0;
  bool anonymous = false;   ///< neither host nor pid is known
  std::uint32_t calls = 0;  ///< of all kinds, so far
  std::string nccl, cuda, network;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> devices;  ///< by network
  std::set<std::string> addresses;             ///< of its out-of-band interfaces
  std::set<std::string> absent_networks;       ///< what NCCL says of missing networks and plugins
  std::vector<std::uint32_t> sources;
  std::vector<std::uint32_t> instances;

  /// What its environment sets a variable to; empty: to nothing, or it is not set, or not in the log.
  std::string setting(const std::string& name) const {
    const auto set = env.find(name);
    return set == env.end() ? std::string() : set->second;
  }
};

/// An event in a kernel's log, by host if the line names it.
struct KernelGroup {
  KernelEvent::What what = KernelEvent::What::xid;
  std::string host, device, text;
  int number = -1;
  std::uint64_t times = 0;
  std::int64_t pid = -1;           ///< of the last process that was killed for memory
  const LineRule* rule = nullptr;  ///< that decides the line, before its number; null: none does
};

/// Warnings of one shape: of NCCL, and messages that programs pass on.
struct WarningRecord {
  const LineRule* rule = nullptr;
  std::string shape{}, example{}, where{}, timestamp{};  ///< of the first
  std::uint32_t source = kNoIndex;                       ///< the first that logged it
  std::set<int> ranks{};                                 ///< that logged it without a source
  std::set<std::string> hosts{}, devices{};              ///< the same
  std::vector<std::uint32_t> sources{};                  ///< the first kMaxFacts that logged it
  std::uint64_t times = 0;
  std::size_t file = 0;
  std::uint64_t line = 0;
};

/// Causes before what follows from them; within a kind the earliest first, those without a time last and as they were
/// read.
std::vector<const WarningRecord*> causes_first(const std::vector<WarningRecord>& warnings);

/// What a program or launcher reported of a failure, and where first.
struct ProgramNote : ProgramEvent {
  std::size_t file = 0;
  std::uint64_t line = 0;
  std::uint64_t times = 0;
};

struct JobBook {
  /// Where a line is, and who wrote it.
  struct Place {
    std::uint32_t process = kNoIndex, source = kNoIndex;
    std::size_t file = 0;
    std::uint64_t line = 0;
  };

  static constexpr std::size_t kMaxProcesses = 1 << 17;
  static constexpr std::size_t kMaxInstances = 1 << 20;
  static constexpr std::size_t kMaxInstancesOfProcess = 4096;
  static constexpr std::size_t kMaxSourcesOfProcess = 1024;
  static constexpr std::size_t kMaxFacts = 8192;
  static constexpr std::size_t kMaxKernelGroups = 512;
  static constexpr std::size_t kMaxWarnings = 512;
  static constexpr std::size_t kMaxProgramNotes = 1024;
  static constexpr std::size_t kMaxConnections = 4096;  ///< of a source
  static constexpr std::size_t kMaxSettings = 512;      ///< of a process

  Words words;
  std::vector<Process> processes;
  std::vector<LogSource> sources;
  std::vector<CommInstance> instances;
  std::unordered_map<std::string, std::uint32_t> process_of;  ///< by key
  std::unordered_map<std::uint64_t, std::uint32_t> last_with_pointer;
  std::vector<WarningRecord> warnings;
  std::uint64_t warnings_not_kept = 0;  ///< of further shapes
  TorchBook torch;
  std::vector<KernelGroup> kernel;
  std::vector<ProgramNote> program;
  /// Lines that report finished work, by file: the first, and those after the first note.
  std::map<std::size_t, std::vector<std::uint64_t>> steps;
  /// By file: where a service came up first, and how that line begins.
  std::map<std::size_t, std::pair<std::uint64_t, std::string>> came_up;
  /// (key, value) -> number of lines that say so
  std::map<std::pair<std::string, std::string>, std::uint64_t> facts;
  /// op, log2 of the size, choice -> times
  std::map<std::tuple<std::string, int, std::string>, std::uint64_t> tuning;
  std::map<std::pair<int, std::string>, std::uint64_t> return_codes;      ///< code, thread
  std::map<std::pair<RuleKind, std::string>, std::uint64_t> named_peers;  ///< addresses in warnings about peers
  std::uint64_t understood = 0;                                           ///< lines with a meaning
  std::uint64_t nccl_lines = 0;
  std::uint64_t kernel_lines = 0, other_lines = 0;  ///< not NCCL's, among each file's first

  std::uint32_t find_process(const LogOrigin& origin, std::size_t file, std::uint64_t line);
  std::uint32_t find_source(std::uint32_t process, int dev);
  /// The live communicator with this pointer in a process; a new one if there is none.
  std::uint32_t find_instance(std::uint32_t process, std::uint32_t source, std::uint64_t pointer);
  /// kNoIndex if there is none.
  std::uint32_t live_instance(std::uint32_t process, std::uint64_t pointer);
  std::uint32_t new_instance(std::uint32_t process, std::uint32_t source, std::uint64_t pointer);
  void note(std::string_view key, std::string_view value);
  /// In that file: that an earlier job finished says nothing of it.
  void begin_job(std::size_t file) {
    if (finished_file_ == file) facts.erase({"works", "the job finished"});
  }

  /// `file`: index of the file; lines of a file come in order.
  void add(const LogLine& line, std::size_t file, std::uint64_t number);
  void add(const TorchDump& dump, std::size_t file);
  /// `files`: everything that was read; `ras`: answers of the RAS service that were among them.
  Diagnosis conclude(std::vector<LogFile> files, std::span<const RasEvidence> ras);

 private:
  std::uint32_t last_process_ = kNoIndex;

  Place torn_;  ///< where a line was begun and not ended
  /// A warning, or a line of PyTorch's watchdog, that may continue in the next lines: people and terminals wrap.
  struct Held {
    int lines = 0;  ///< 0: nothing is held
    bool torch = false;
    std::string text, file, function, timestamp;
    Place from;
  } held_;
  std::map<std::string_view, Place, std::less<>> heads_;  ///< the last line of each rule, by its id
  bool labels_lie_ = false;                               ///< of a launcher, since a line said so
  int traced_rank_ = -1;                                  ///< the rank whose line began the last traceback
  bool bare_trace_ = false;                               ///< whether its last line has no decoration
  std::uint64_t error_line_ = 0;                          ///< where a block began with "Last error:"
  std::size_t error_file_ = 0;
  std::size_t table_file_ = SIZE_MAX, worked_file_ = SIZE_MAX;  ///< have a benchmark's table, and finished work
  std::size_t finished_file_ = SIZE_MAX;                        ///< whose job says that it finished
  std::pair<std::size_t, std::uint64_t> counted_;               ///< a file, and its lines that were seen
  std::map<std::size_t, std::string> prompted_;  ///< by file: the host whose kernel or GPUs the next lines are about
  std::map<std::size_t, std::string> shown_;     ///< by file: the pod whose output the next lines are
  std::map<std::size_t, std::string> stores_;    ///< by file: the host of the rendezvous or store that was given
  std::map<std::size_t, std::string> headed_;    ///< by file: the device that the next lines describe, as ibstat does
  std::set<std::size_t> described_;              ///< of those files whose last is a pod that kubectl describes
  Place nameless_;                               ///< of the last failure that names nobody: its host may follow
  /// A help text of Open MPI, between lines of dashes: its lines count as a whole.
  struct Help {
    std::uint64_t lines = 0;  ///< 0: none is open
    std::size_t file = 0;
    std::uint64_t line = 0;         ///< the first
    std::string text, host;         ///< all of them; the host that one of them names
    bool decided = false;           ///< a line of it has a rule of its own
    std::vector<ProgramNote> held;  ///< of lines that only hold a word of failure
  } help_;
  SmiReader smi_;
  ProgramEvent elastic_;  ///< the process in the block that torchrun or Hydra writes of a failure
  bool hold(const LogLine& line, const Place& from);
  bool add_to_held(const LogLine& line, std::size_t file, std::uint64_t number);
  void note_inspector(const InspectorCall& call, std::size_t file, std::uint64_t number);
  void note_peers(RuleKind kind, std::string_view text);
  void note_absent_network(std::string_view text, std::uint32_t process);
  void note_failed(std::string_view text);
  void note_place(std::string_view text, std::size_t file, std::uint64_t number);
  void note_help(std::string_view line, std::size_t file, std::uint64_t number);
  void end_help();
  void note_program(std::string_view text, std::size_t file, std::uint64_t number, bool help = false);
  void count_warning(const Held& held);
  /// After the last line: finishes a warning that may have continued.
  void flush();
  /// Adds up groups of the same text; further ones than the bounds allow are left out.
  void count(KernelGroup&& group);
  void count(WarningRecord&& one);
  void count(ProgramNote&& note);
  void remember_torn(std::string_view prefix, std::size_t file, std::uint64_t number);
  bool add_rest_of_torn(std::string_view text, std::size_t file, std::uint64_t number);
  void ingest_foreign(std::string_view text, std::size_t file, std::uint64_t number);
  void ingest(const CollCall& call, const Place& from);
  void ingest(const InitTimings& timings, const Place& from);
  void ingest(const LineShape& of, const Place& from);
  void ingest(const OtherLine& other, const Place& from);
};

}  // namespace busbar
