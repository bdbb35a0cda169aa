#pragma once

#include "common/backends/backend.h"
#include "common/backends/observer.h"
#include "common/base/error.h"
#include "common/watch/collector.h"
#include "common/watch/flight_record.h"
#include "common/watch/limits.h"
#include "common/watch/peer_server.h"
#include "common/watch/ras.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace busbar {

/// Keeps this process's flight record and ends the job when it hangs. A thread of its own, which never calls MPI or
/// CUDA, beats, serves other processes' watchers and checks the limits. If a step's limit passes without any progress,
/// the lowest living rank of the lowest living host collects the evidence of all hosts, prints one report, writes it as
/// JSON and ends all processes with exit code 4. A job that still moves is reported as slow once, and ended only at
/// slow_limit_s. On SIGTERM, SIGINT or SIGHUP the report comes at once if a rank is dead or stopped, and one line says
/// what of the work is kept.
class Watchdog : public Observer {
 public:
  /// A finding as JSON text (hang_json, which the watchdog does not know).
  using Json = std::function<std::string(const HangEvidence&, const HangFinding&)>;

  /// Call before MPI is started. `timeout_s`: --hang-timeout; kAutomaticLimit, or 0 for no limit at all. `job`: its
  /// host, and what the launcher says about it (rank 0 without a launcher). Its jobid ends the name
  /// that counts until all have met.
  Watchdog(double timeout_s, JobView job, std::string command, Json json);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() override;

  void set_timeout(double timeout_s) { timeout_s_ = timeout_s; }
  /// NCCL of this version (as ncclGetVersion counts) runs: its RAS service may know more, and is asked if that is safe.
  void use_ras(int nccl_version);

  const std::string& jobid() const { return job_.jobid; }
  /// Whether the environment named the job before MPI was started. Then even a job without a launcher has a name.
  bool is_named() const { return is_named_; }

  /// Opens this process's listener on `address`, where the others reach this process, or, if it is empty, on the job's
  /// interface; returns what the others must know of it. If that interface does not exist, listens on another; if there
  /// is none, nowhere, so that no process reaches it: see warning().
  PeerAddress listen(int rank, bool one_host, const std::string& token, const std::string& address = {});
  const std::string& warning() const { return warning_; }
  /// The interfaces on which it could listen, by names that hosts have in common, and the one on which it does.
  std::vector<std::string> interfaces() const;
  std::string interface() const;
  /// Listens on that interface instead, if this host has it.
  PeerAddress listen_on(const std::string& interface);
  /// From now on it can talk to all. `jobid`: agreed.
  void connect(const std::string& jobid, std::vector<PeerAddress> peers);
  /// What all hosts that tried to connect (connectivity.h) found: the hosts that it may never blame for silence.
  void set_failed_connections(std::vector<FailedConnection> failed_connections);
  /// What this process knows of its job. Any thread.
  JobView view() const;

  /// While the returned object lives: counts the backend's operations in the record, asks it for errors, aborts it when
  /// the job is ended.
  [[nodiscard]] std::shared_ptr<void> attach(Backend& backend);

  // Observer. ----------------------------------------------------------------------------------------------------
  void begin_step(Phase phase, std::string_view step) override;
  void begin_step(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
                  double expected_s) override;
  void rest() override;

  /// Printed if the job is interrupted: what is on disk and how to resume. Empty: the result has been printed. Call on
  /// every process; a process that rests in the middle of the work waits for those that have something to report.
  void set_kept(std::string what);

  /// Nobody else ends ranks that are stopped when this one leaves.
  void has_no_launcher() { no_launcher_ = true; }
  /// For a job that no launcher ends. Another process has gone without a word: does what is done when a launcher ends
  /// the job for that, and leaves with exit code 4. Any thread.
  void peer_has_gone();
  /// Another process has said why it ends the job, with that code: leaves silently. Any thread.
  [[noreturn]] void leave_with(ExitCode code);

  /// This process is about to end the job because of its own error: the others need not explain why it is gone.
  void failing();

 private:
  using Clock = std::chrono::steady_clock;

  // The server's thread, which must not block.
  void tick();
  bool look_at(const FlightState& me);
  void observe_early();
  std::string handle(std::string_view request);

  // The collector's thread.
  void make_collector();
  void investigate_once();
  void investigate();
  void look_failed(const char* why);
  bool another_investigates(const JobView& view, const FlightState& me);
  void decide(const JobView& view, const FlightState& me, HangEvidence& evidence);
  void note_standing(const JobView& view);
  void recall_standing(HangEvidence& evidence);
  void ask_ras_again(const JobView& view);
  void report(const JobView& view, const HangEvidence& evidence, const HangFinding& finding, bool aloud,
              std::string_view notice);

  // The end.
  void wait_for_signal();
  std::chrono::milliseconds reply_limit() const;
  bool another_reports(const JobView& view);
  void terminated(int signal);
  [[noreturn]] void leave();

  PeerAddress listen_at(const std::string& ip);
  PeerAddress nowhere();
  std::shared_ptr<FlightRecord> current_record();
  void postpone(double seconds);

  Json json_;
  std::string command_;
  bool is_named_ = false;  ///< by the environment
  std::atomic<double> timeout_s_;
  sigset_t signals_{};  ///< the signals that end the job
  sigset_t mask_before_{};
  std::string warning_;     ///< of the main thread, as the next
  std::string listens_at_;  ///< its address

  mutable std::mutex mutex_;              ///< over what follows
  std::shared_ptr<FlightRecord> record_;  ///< written by the main thread, which needs no lock to read the pointer
  JobView job_;
  std::list<Backend*> backends_;
  std::vector<RasEvidence> ras_;
  std::set<std::string> stood_;  ///< hosts with connections when the limit was over, or the signal came

  std::mutex kept_mutex_;  ///< over the text about kept work, for an interruption
  std::string kept_;       ///< empty: not known here
  std::atomic<bool> result_reported_{false};

  HostObserver observer_;
  RasObserver ras_observer_;
  bool looked_early_ = false;
  std::atomic<Clock::time_point> next_look_{Clock::time_point{}};
  std::atomic<Clock::time_point> deferred_{Clock::time_point{}};  ///< since when another process is to collect; 0: none
  std::atomic<bool> has_ras_{false};
  std::atomic<int> nccl_version_{0};  ///< 0: not known
  std::atomic<bool> alarmed_{false};
  std::atomic<bool> slow_reported_{false};
  std::atomic<bool> investigating_{false};
  std::atomic<Clock::time_point> last_moved_{Clock::time_point{}};  ///< when this watcher last found the job to move
  std::atomic<bool> reported_elsewhere_{false};                     ///< another process has reported the job's end
  std::atomic<bool> forget_{false};                                 ///< and nobody needs a record of it
  std::atomic<bool> keep_records_{false};
  std::atomic<bool> ending_{false};  ///< the verdict is out: a launcher's SIGTERM only speeds up what is under way
  std::atomic<bool> leaving_{false};
  std::atomic<bool> peer_gone_{false};
  std::atomic<bool> no_launcher_{false};
  std::atomic<bool> stopping_{false};
  int failed_looks_ = 0;      ///< in a row
  bool asked_again_ = false;  ///< after hosts that do not reach each other, for no known reason
  std::mutex collector_mutex_;
  std::condition_variable wake_collector_;  ///< `investigating` or `stopping` was set
  std::thread collector_;
  std::thread signal_thread_;
  std::thread leaver_;                  ///< of the server's thread: ends the process when another one says so
  std::unique_ptr<PeerServer> server_;  ///< last: its thread uses everything above
};

}  // namespace busbar
