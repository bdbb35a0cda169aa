#pragma once

#include "common/backends/observer.h"
#include "common/base/compress_list.h"
#include "common/record/finding.h"
#include "common/record/json_values.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A finished step. Ages count back from the moment of reading [s].
struct FinishedStep {
  Phase phase = Phase::starting;
  std::string collective;  ///< empty: no operation
  std::uint64_t nbytes = 0;
  std::uint64_t last_entered = 0;
  double begun_age_s = 0;
  double ended_age_s = 0;
};

/// How a process left.
enum class Ending : std::uint8_t { none, good, failed, hung, signalled };

/// One process's flight record, read and decoded. Operations are numbered from 1 over all communicators of a process;
/// `entered` is the number of the last one that it began, whether it has left it or not.
struct FlightState {
  std::string jobid;
  std::string host;
  int rank = 0;    ///< of the process in the job
  int nprocs = 0;  ///< of the job; 0: not known yet
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;      ///< clock ticks, field 22 of /proc/PID/stat: detects a reused pid
  std::uint64_t pid_namespace = 0;  ///< its inode, in which `pid` counts; 0: not known
  std::string command;
  std::int64_t started_unix_s = 0;
  double heartbeat_age_s = 0;
  std::int64_t beat_unix_s = 0;  ///< of the last beat [s since 1970]
  Ending ending = Ending::none;

  Phase phase = Phase::starting;
  std::string step;  ///< for people
  std::optional<CalledOperation> call;
  std::uint64_t entered = 0;
  std::uint64_t step_first = 0;  ///< `entered` when the step began
  std::uint64_t step_calls = 0;  ///< operations that the step makes; 0: not known
  double step_age_s = 0;
  double limit_s = 0;                  ///< of the step; 0: none
  double idle_s = 0;                   ///< since its step or `entered` last changed, as its own watcher saw it
  std::string error;                   ///< the library's asynchronous error; empty: none
  std::vector<FinishedStep> finished;  ///< the newest last, at most 16
};

/// The state of a process in /proc.
struct ProcessState {
  enum class Life : std::uint8_t { unknown, alive, gone };
  Life life = Life::unknown;  ///< unknown: its pid belongs to another pid namespace or cannot be read
  char state = '?';           ///< R S D T t Z ...
  std::string wchan;          ///< kernel function it sleeps in; empty: not readable
  std::int64_t tracer = 0;    ///< the process that traces it (a debugger); 0: none
};

/// What a process that keeps no flight record does, as its stack, its CPU time and its bytes show: facts for a judge
/// that knows nothing of the program.
struct Activity {
  enum class Kind : std::uint8_t {
    unknown,
    waiting,    ///< in communication
    joining,    ///< waits in the initialization
    elsewhere,  ///< does something of its own
    between,    ///< its launch queue is full: it is ahead of its GPU
    library,    ///< in a communication library's own queue
    leaving,    ///< ends its communicators
    idle,       ///< waits for requests
  };
  Kind kind = Kind::unknown;
  std::string id;       ///< of the deciding entry in configs/rules/activities.yaml
  std::string doing;    ///< "waits in all_reduce (train.py:77)"
  std::string call;     ///< "all_reduce": the operation of communication; empty: not known
  bool moves = false;   ///< something of it moved while it was watched
  std::string proof;    ///< of that, or of the contrary: "640 MiB written in 6 s"
  std::string trouble;  ///< what holds it: "file system /data (nfs) does not answer"
};

/// Processes whose rank is not known have numbers from here on in evidence, never in what people read.
inline constexpr int kFirstUnnamed = 1 << 22;
inline bool is_named(int rank) { return rank < kFirstUnnamed; }

struct RankEvidence {
  FlightState flight;
  ProcessState process;
  std::optional<Activity> activity = {};  ///< of a process without a record: `flight` only says who it is
};

/// Something wrong or remarkable on a host.
struct Trouble {
  /// `launcher`: the process that started the ranks there is gone.
  enum class Kind : std::uint8_t { hardware, resource, launcher, notice };
  Kind kind = Kind::notice;
  std::string text;     ///< "mlx5_3 port 1 is DOWN"
  bool slows = false;   ///< processes or GPUs of the host are slowed down
  bool on_gpu = false;  ///< it is a GPU's
};

/// How one host reaches another over the watchdog's own connections.
struct PeerProbe {
  enum class Result : std::uint8_t {
    ok,
    refused,     ///< the host answers, but no process listens
    no_route,    ///< the network says that it cannot be reached
    timed_out,   ///< no answer
    large_lost,  ///< small messages pass, 32 KiB do not: the MTU differs on the way
  };
  std::string host;
  Result result = Result::ok;
  bool stalled = false;  ///< the kernel retransmits the job's own data to it without an acknowledgement
};

/// The connections of the job's own processes on one host to another host. They are MPI's, or carry the job without it,
/// were there before anything changed on the way, and the kernel closes them when either process ends.
struct JobLink {
  enum class State : std::uint8_t {
    standing,
    stalled,  ///< nothing passes one of them: data were sent again and again without an acknowledgement
    closed,   ///< one was open when the job began, none is now
  };
  std::string host;
  State state = State::standing;
};

/// Why no evidence came from a host that was asked.
enum class Silence : std::uint8_t {
  none,          ///< it was reached, or never asked
  unresponsive,  ///< its system took a connection, so the network works, but no process of the job answers: all are
                 ///< stopped, or get no CPU
  refused,       ///< the host answers, but no process listens any more
  no_route,      ///< the network says that it cannot be reached
  no_answer,     ///< no answer
  unreadable,    ///< an answer that cannot be read
};

struct HostEvidence {
  std::string host;
  bool reached = false;
  std::string why_not;  ///< if not reached, for people: "no answer from 2 ranks in 2 s"
  std::vector<RankEvidence> ranks;
  double net_bytes_per_s = -1;  ///< in and out of the host during the observation; -1: not known
  std::vector<Trouble> troubles;
  std::vector<PeerProbe> probes;  ///< of the other hosts
  int mtu = 0;                    ///< of the interface on which its watchers listen [bytes]; 0: not known
  Silence silence = Silence::none;
  bool ever_reached = true;    ///< by a watcher of this part of the job; if never, its silence proves nothing
  std::vector<JobLink> links;  ///< to those of the other hosts whose connections are known
};

inline bool is_unresponsive(const HostEvidence& host) { return !host.reached && host.silence == Silence::unresponsive; }

/// What NCCL's RAS service reports, in lines for people, and what follows from it.
struct RasEvidence {
  std::string host;  ///< where it was asked
  bool answered = false;
  std::string why_not;
  std::vector<std::string> lines;
  std::vector<std::int64_t> dead_pids;
  std::vector<int> lagging_ranks;           ///< of their communicators; processes may have other numbers
  std::vector<std::int64_t> silent_pids{};  ///< gave no data: gone for less than a minute, or stopped
  std::vector<int> missing_ranks{};         ///< of the largest communicator
  std::vector<std::string> lost_hosts{};    ///< of dead and silent processes
  std::vector<std::int64_t> lagging_pids{};
  std::vector<std::string> doubts{};  ///< what RAS itself complains of, or what is impossible
  bool well = false;                  ///< it reports running communicators and nothing else
  int nccl_version = 0;               ///< of the answer, as ncclGetVersion counts; 0: not known
};

/// All evidence about a job that does not continue, from the watchdog or from files.
struct HangEvidence {
  /// `looks`: at a job that runs now, from outside.
  enum class Occasion : std::uint8_t { limit, slow_limit, terminated, files, looks };
  Occasion occasion = Occasion::limit;
  std::string jobid;
  std::string reporter;       ///< "rank 0 on node0", for people
  std::string reporter_host;  ///< where the evidence was collected; empty: not known
  int nprocs = 0;
  std::vector<std::string> host_of_rank;  ///< of every process; empty: not known
  double limit_s = 0;
  double idle_s = 0;  ///< since any rank advanced
  std::vector<HostEvidence> hosts;
  std::vector<RasEvidence> ras;
};

/// What the reached hosts know of the job's connections to another host; nullopt if there are none, as over InfiniBand.
std::optional<JobLink::State> links_to(const HangEvidence& evidence, const std::string& host);

/// Whether a host was reached before but its watchers no longer answer, though the job's own connections to it are open
/// and all data sent to it have arrived: behind a firewall, say. Then its silence proves nothing.
bool is_walled(const HangEvidence& evidence, const HostEvidence& host);

/// Pairs of hosts whose watchers do not reach each other, although nothing proves a lost way; a line each.
std::vector<std::string> doubtful_pairs(const HangEvidence& evidence);

/// Ranks in the same state.
struct RankGroup {
  RankList ranks;     ///< ascending
  std::string doing;  ///< "inside all_reduce #412, 64 MiB float sum, timed loop"
  bool blamed = false;
};

/// What follows from the evidence, and what each group of ranks was doing.
struct HangFinding : Finding {
  std::vector<RankGroup> groups;
};

/// Evidence of a job, and what follows from it.
struct JudgedHang {
  HangEvidence evidence;
  HangFinding finding;
};

/// The verdict by the order of Verdict; by majority if ranks disagree. Pure.
HangFinding judge(const HangEvidence& evidence);

/// The report for the terminal: verdict, culprits, what each group of ranks was doing, evidence, what is missing, next
/// steps. Whole lines, each beginning with `prefix`, so that you can find it in a job's output.
std::string hang_report(const HangEvidence& evidence, const HangFinding& finding, std::string_view prefix = "busbar: ");

/// The one line of a part of the job that does not speak for the whole.
std::string part_report(const HangEvidence& evidence, const HangFinding& finding);

/// hang-JOBID.json: the finding and all of the evidence.
std::string hang_json(const HangEvidence& evidence, const HangFinding& finding);
/// The same for documents that embed it.
Json hang_value(const HangEvidence& evidence, const HangFinding& finding);

/// Reads the evidence of such a file; `name` is for messages. Throws Error(bad_config) on anything else.
HangEvidence read_hang_json(std::string_view text, const std::string& name);

/// Writes a file that only this user can read, under a name that others can guess, in a folder that others may write:
/// whole or not at all, and through no link of somebody else's. Returns where; empty if it could not be written.
std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name);

}  // namespace busbar
