#pragma once

#include "common/watch/collector.h"
#include "common/watch/flight_record.h"
#include "common/watch/peer_server.h"
#include "common/watch/ras.h"
#include "common/watch/watchdog.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace busbar {

/// The parts of a Watchdog: the main thread's side and the watcher's in watchdog.cpp, what a hang leads to and the end
/// of the process in watchdog_hang.cpp.
struct Watchdog::Impl {
  using Clock = std::chrono::steady_clock;

  Impl(double timeout, const Owner& owner, Json json);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  // The server's thread, which must not block.
  void tick();
  bool look_at(const FlightState& me);
  void look_early();
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
              std::string_view tell);

  // The end.
  void wait_for_signal();
  void terminated(int signal);
  [[noreturn]] void leave();

  PeerAddress listen_at(const std::string& ip);
  PeerAddress nowhere();
  std::shared_ptr<FlightRecord> current_record();
  JobView view();
  void postpone(double seconds);

  Json json;
  std::string command;
  bool is_named = false;  ///< by the environment
  std::atomic<double> timeout_s;
  sigset_t signals{};  ///< that end the job
  sigset_t mask_before{};
  std::string warning;     ///< of the main thread, as the next
  std::string listens_at;  ///< its address

  std::mutex mutex;                      ///< over what follows
  std::shared_ptr<FlightRecord> record;  ///< written by the main thread, which needs no lock to read the pointer
  JobView job;
  std::list<Backend*> backends;
  std::vector<RasEvidence> ras;
  std::set<std::string> stood;  ///< hosts to which connections did when the limit was over, or the signal came

  std::mutex kept_mutex;  ///< over what is kept of the work, should it be interrupted
  std::string kept;       ///< empty: not known here
  std::atomic<bool> result_told{false};

  HostObserver observer;
  RasObserver ras_observer;
  bool looked_early = false;
  std::atomic<Clock::time_point> next_look{Clock::time_point{}};
  std::atomic<Clock::time_point> deferred{Clock::time_point{}};  ///< since when another one is to collect; 0: not
  std::atomic<bool> has_ras{false};
  std::atomic<int> nccl_version{0};  ///< 0: not known
  std::atomic<bool> alarmed{false};
  std::atomic<bool> slow_told{false};
  std::atomic<bool> investigating{false};
  std::atomic<Clock::time_point> last_moved{Clock::time_point{}};  ///< when this watcher last found the job to move
  std::atomic<bool> told{false};    ///< another process has said what there is to say of the job's end
  std::atomic<bool> forget{false};  ///< and nobody needs a record of it
  std::atomic<bool> keep_records{false};
  std::atomic<bool> ending{false};  ///< the verdict is spoken: a launcher's SIGTERM only hastens what is under way
  std::atomic<bool> leaving{false};
  std::atomic<bool> stopping{false};
  int failed_looks = 0;  ///< in a row
  std::mutex collector_mutex;
  std::condition_variable wake_collector;  ///< `investigating` or `stopping` was set
  std::thread collector;
  std::thread signal_thread;
  std::thread leaver;                  ///< of the server's thread: ends the process because another one told it to
  std::unique_ptr<PeerServer> server;  ///< last: its thread uses everything above
};

}  // namespace busbar
