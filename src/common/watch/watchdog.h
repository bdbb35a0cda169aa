#pragma once

#include "common/backends/backend.h"
#include "common/backends/observer.h"
#include "common/watch/flight_record.h"
#include "common/watch/hang_evidence.h"
#include "common/watch/limits.h"
#include "common/watch/peer_address.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Keeps this process's flight record and ends the job when it hangs. A thread of its own, which never calls MPI or
/// CUDA, beats, serves other processes' watchers and sees to the limits; where a step's limit passes without any
/// progress, the lowest living rank of the lowest living host collects what all hosts know, prints one report, writes
/// it as JSON and ends all processes with exit code 4. A job that still moves is reported as slow once, and ended only
/// at slow_limit_s. On SIGTERM, SIGINT or SIGHUP the report comes at once if a rank is dead or stopped, and one line
/// says what of the work is kept.
class Watchdog : public Observer {
 public:
  /// A finding as JSON text (common/watch/hang_json.h, which the watchdog does not know).
  using Json = std::function<std::string(const HangEvidence&, const HangFinding&)>;
  struct Owner {
    int rank = 0;        ///< as the launcher says; 0 without one
    int nprocs = 0;      ///< 0: not known
    int local_size = 0;  ///< 0: not known
    std::string host;
    std::string command;
  };

  /// Before MPI is started. `timeout_s`: --hang-timeout; kAutomaticLimit, or 0 for no limit at all.
  Watchdog(double timeout_s, const Owner& owner, Json json);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() override;

  void set_timeout(double timeout_s);
  /// NCCL of this version (as ncclGetVersion) runs: its RAS service may know more, and is asked where that is safe.
  void use_ras(int nccl_version);

  const std::string& jobid() const;
  /// Whether the environment named the job before MPI was started, which names even those that it starts alone.
  bool is_named() const;

  /// Opens this process's listener on the job's interface; what the others must know of it. Where that interface does
  /// not exist, on another; where there is none, nowhere, so that nobody reaches it: warning() says so.
  PeerAddress listen(int rank, bool one_host, const std::string& token);
  const std::string& warning() const;
  /// The interfaces on which it could listen, by names that hosts have in common, and the one on which it does.
  std::vector<std::string> interfaces() const;
  std::string interface() const;
  /// Listens on that one instead, where this host has it.
  PeerAddress listen_on(const std::string& interface);
  /// From now on it can talk to all. `jobid`: agreed.
  void connect(const std::string& jobid, std::vector<PeerAddress> peers);
  /// Whom this host's first process cannot reach; seconds.
  std::vector<Unmet> try_to_meet() const;
  /// What all of them found: whom it may never blame for its silence.
  void set_unmet(std::vector<Unmet> unmet);
  /// What the header says of watchers that cannot meet; empty where all can.
  std::string meeting_remark() const;

  /// Counts the backend's operations in the record, asks it for errors, aborts it when the job is ended.
  class Attached;
  [[nodiscard]] std::unique_ptr<Attached> attach(Backend& backend);

  // Observer. ----------------------------------------------------------------------------------------------------
  void begin(Phase phase, std::string_view step) override;
  void begin(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
             double expected_s) override;
  void rest() override;

  /// What of the work is on disk and how to go on, for who interrupts the job; empty: the result is told, which every
  /// process must know: one that rests in the midst of the work waits for those who have something to say.
  void set_kept(std::string what);

  /// This process is about to end the job because of an error of its own: nobody needs to ask why it is gone.
  void failing();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class Watchdog::Attached {
 public:
  Attached(Impl& impl, Backend& backend);
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached();

 private:
  Impl& impl_;
  Backend& backend_;
};

}  // namespace busbar
