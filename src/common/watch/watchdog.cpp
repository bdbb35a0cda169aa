#include "common/watch/watchdog.h"

#include "common/base/lists.h"
#include "common/machine/machine_facts.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <utility>

namespace busbar {
namespace {

/// The signals with which a launcher, a scheduler or a terminal (Ctrl-C) ends the job. Ignored ones (nohup) stay
/// ignored, and a debugger needs its own Ctrl-C.
sigset_t ending_signals(const FlightRecord& own) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  for (const int number : {SIGINT, SIGHUP}) {
    struct sigaction now {};
    const bool plain = sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
    if (plain && process_state(own.state()).tracer == 0) sigaddset(&set, number);
  }
  return set;
}

std::shared_ptr<FlightRecord> make_record(const std::string& jobid, const JobView& job, const std::string& command) {
  return std::make_shared<FlightRecord>(FlightOwner{jobid, job.host, job.rank, job.nprocs, command});
}

}  // namespace

Watchdog::Watchdog(double timeout_s, JobView job, std::string command, Json json)
    : json_(std::move(json)), command_(std::move(command)), timeout_s_(timeout_s), job_(std::move(job)) {
  const std::string until_agreed = std::exchange(job_.jobid, environment_jobid());
  is_named_ = !job_.jobid.empty();
  // Until the name is agreed: the processes of one host share a parent.
  if (!is_named_) job_.jobid = fmt::format("parent{}{}", getppid(), until_agreed);
  record_ = make_record(job_.jobid, job_, command_);
  (void)remove_old_flights(flight_folders());
  // Blocked before any other thread begins, so that only one of them takes it.
  signals_ = ending_signals(*record_);
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
  try {
    signal_thread_ = std::thread([this] { wait_for_signal(); });
    server_ = std::make_unique<PeerServer>(PeerServer::Hooks{
        .handle = [this](std::string_view request) { return handle(request); }, .tick = [this] { tick(); }});
  } catch (const std::exception& error) {
    // The watchdog is an aid: a system without a thread for it may have those that the job needs.
    warning_ = fmt::format("this process has no watchdog: {}", error.what());
    if (!signal_thread_.joinable()) pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(collector_mutex_);
    stopping_ = true;
  }
  server_.reset();
  // Does not return: the process ends with the code that all others end with.
  if (leaver_.joinable()) leaver_.join();
  wake_collector_.notify_one();
  if (collector_.joinable()) collector_.join();
  if (signal_thread_.joinable()) {
    pthread_kill(signal_thread_.native_handle(), SIGTERM);
    signal_thread_.join();
  }
  record_->end(Ending::good);
  record_.reset();
  // A launcher's signal may be pending because another process's exit code is not 0. It must not find the record.
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::shared_ptr<FlightRecord> Watchdog::current_record() {
  const std::lock_guard lock(mutex_);
  return record_;
}

JobView Watchdog::view() const {
  const std::lock_guard lock(mutex_);
  return job_;
}

void Watchdog::use_ras(int nccl_version) {
  nccl_version_ = nccl_version;
  has_ras_ = true;
}

PeerAddress Watchdog::listen(int rank, bool one_host, const std::string& token, const std::string& address) {
  {
    const std::lock_guard lock(mutex_);
    job_.token = token;
    job_.rank = rank;
  }
  try {
    if (!address.empty()) return listen_at(address);
    return listen_at(job_interface_address(one_host, [](const char* name) { return std::getenv(name); }));
  } catch (const Error& error) {
    warning_ = error.what();
  }
  // The watchdog is an aid, and no reason to refuse a job.
  try {
    const PeerAddress own = listen_at(job_interface_address(one_host, [](const char*) { return nullptr; }));
    warning_ += fmt::format("; the watchers use {}", own.ip);
    return own;
  } catch (const Error&) {
    warning_ += "; watchers of other hosts cannot reach this one";
    return nowhere();
  }
}

std::vector<std::string> Watchdog::interfaces() const {
  std::vector<std::string> names;
  for (const InterfaceAddress& a : usual_addresses(interface_addresses())) add_once(names, common_name(a));
  return names;
}

std::string Watchdog::interface() const {
  for (const InterfaceAddress& a : interface_addresses())
    if (a.ip == listens_at_) return common_name(a);
  return {};
}

PeerAddress Watchdog::listen_on(const std::string& interface) {
  for (const InterfaceAddress& a : usual_addresses(interface_addresses())) {
    if (common_name(a) != interface) continue;
    try {
      return listen_at(a.ip);
    } catch (const Error&) {
      break;
    }
  }
  return nowhere();
}

PeerAddress Watchdog::listen_at(const std::string& ip) {
  if (!server_) return nowhere();
  PeerAddress own = nowhere();
  own.port = server_->listen(ip, view().token);
  own.ip = listens_at_ = ip;
  return own;
}

PeerAddress Watchdog::nowhere() {
  const JobView now = view();
  return {now.rank, now.host, "", 0, full_host_name(), this_machine()};
}

void Watchdog::set_failed_connections(std::vector<FailedConnection> failed_connections) {
  {
    const std::lock_guard lock(mutex_);
    job_.failed_connections = std::move(failed_connections);
  }
  observer_.note_links(view());
}

void Watchdog::connect(const std::string& jobid, std::vector<PeerAddress> peers) {
  const std::lock_guard lock(mutex_);
  const std::string before = std::exchange(job_.jobid, jobid);
  job_.failed_connections.clear();
  job_.nprocs = static_cast<int>(peers.size());
  make_hosts_distinct(peers);
  const std::string short_name = std::exchange(job_.host, peers[static_cast<std::size_t>(job_.rank)].host);
  job_.hosts = group_by_host(peers);
  job_.peers = std::move(peers);
  job_.local_size = static_cast<int>(job_.hosts[job_.host_index()].size());
  if (before != jobid || short_name != job_.host || record_->state().rank != job_.rank)
    record_ = make_record(jobid, job_, command_);
  record_->set_nprocs(job_.nprocs);
}

std::shared_ptr<void> Watchdog::attach(Backend& backend) {
  {
    const std::lock_guard lock(mutex_);
    backends_.push_back(&backend);
    backend.count_operations(record_->lanes());
    record_->set_lanes(backend.lanes());
  }
  return {&backend, [this](Backend* attached) {
            const std::lock_guard lock(mutex_);
            backends_.remove(attached);
          }};
}

void Watchdog::begin_step(Phase phase, std::string_view step) {
  const double asked_s = timeout_s_;
  record_->begin_step(phase, step, nullptr, 0,
                      phase == Phase::output ? output_limit_s(asked_s) : start_limit_s(job_.nprocs, asked_s));
}

void Watchdog::begin_step(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
                          double expected_s) {
  const double asked_s = timeout_s_;
  const double limit_s = asked_s == kAutomaticLimit ? step_limit_s(expected_s) : asked_s;
  record_->begin_step(phase, step, &call, calls, limit_s);
}

void Watchdog::rest() {
  const double limit_s = job_.rank == 0 ? output_limit_s(timeout_s_) : 0;
  record_->begin_step(Phase::resting, "nothing", nullptr, 0, limit_s);
}

void Watchdog::failing() {
  // This record shows the process that ends the job, through the others' reporter, whether anything is left to explain.
  record_->end(Ending::failed);
  if (view().peers.size() > 1) {
    record_->keep();
  } else {
    std::error_code ignored;
    std::filesystem::remove(record_->path(), ignored);
  }
}

void Watchdog::set_kept(std::string what) {
  const std::lock_guard lock(kept_mutex_);
  kept_ = std::move(what);
  result_reported_ = kept_.empty();
}

void Watchdog::postpone(double seconds) {
  next_look_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Watchdog::tick() {
  const std::shared_ptr<FlightRecord> own = current_record();
  own->beat();
  if (ending_ || stopping_) return;
  // At the start, if there is a thread left; from this thread, so that it is born with the signals blocked.
  if (!collector_.joinable()) make_collector();
  if (!look_at(own->state()) || Clock::now() < next_look_.load() || investigating_) return;
  {
    const std::lock_guard lock(collector_mutex_);
    investigating_ = true;
  }
  if (!collector_.joinable()) {
    investigate_once();  // unresponsive for some seconds is better than silent
    return;
  }
  wake_collector_.notify_one();
}

void Watchdog::make_collector() {
  try {
    collector_ = std::thread([this] {
      std::unique_lock lock(collector_mutex_);
      while (true) {
        wake_collector_.wait(lock, [this] { return stopping_ || investigating_; });
        if (stopping_) return;
        lock.unlock();
        investigate_once();
        lock.lock();
      }
    });
  } catch (const std::system_error&) {
    return;  // tried again at the next tick
  }
}

void Watchdog::investigate_once() {
  try {
    investigate();
    failed_looks_ = 0;
  } catch (const std::exception& error) {
    look_failed(error.what());
  }
  investigating_ = false;
}

/// Whether the step under way needs an action.
bool Watchdog::look_at(const FlightState& me) {
  if (alarmed_) return true;
  if (me.limit_s <= 0) return false;
  const bool waiting = me.idle_s >= me.limit_s / 2;
  if (!waiting) {
    looked_early_ = false;
    deferred_ = Clock::time_point{};
    const std::lock_guard lock(mutex_);
    stood_.clear();
  } else if (!looked_early_) {
    looked_early_ = true;
    observe_early();
  }
  if (me.idle_s >= me.limit_s) return true;
  // One host reports for all that it is slow.
  if (me.step_age_s < me.limit_s || view().host_index() != 0) return false;
  return !slow_reported_ ||
         me.step_age_s >= slow_limit_s(me.limit_s, me.step_age_s, static_cast<double>(me.entered - me.step_first),
                                       static_cast<double>(me.step_calls));
}

/// At half the limit: later observations are compared with this one.
void Watchdog::observe_early() {
  observer_.observe_early();
  const JobView now = view();
  std::string errors;
  {
    const std::lock_guard lock(mutex_);
    for (const Backend* backend : backends_)
      if (const auto error = backend->asynchronous_error()) errors += (errors.empty() ? "" : "; ") + *error;
  }
  current_record()->set_error(errors);
  const bool first_of_job = !now.hosts.empty() && now.hosts.front().front() == now.rank;
  if (!has_ras_ || !first_of_job) return;
  // The state of the other hosts' ranks is collected at the limit only.
  const RasFormat format = safe_ras_question(nccl_version_, RasHazards{}).format;
  if (format != RasFormat::none) ras_observer_.observe_early(format);
}

std::string Watchdog::handle(std::string_view request) {
  if (request == kAskEvidence) {
    const JobView now = view();
    observer_.look_closely(now);
    return encode(observer_.evidence(now));
  }
  if (request == kAlarm) {
    constexpr std::chrono::seconds kStillTrue{10};
    const Clock::time_point moved = last_moved_;
    if (moved != Clock::time_point{} && Clock::now() - moved < kStillTrue) return std::string(kMoves);
    alarmed_ = true;
    next_look_ = Clock::time_point{};
    return std::string(kComing);
  }
  if (request == kPing) return "here";
  if (request == kReported) {
    reported_elsewhere_ = true;
    return "noted";
  }
  if (request == kForget) {
    keep_records_ = false;
    forget_ = true;
    return "noted";
  }
  if (request == kStop || request == kStopAndKeep) {
    if (request == kStopAndKeep) keep_records_ = true;
    ending_ = true;
    if (leaver_.joinable()) return "leaving";
    leaver_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for the reply
      leave();
    });
    return "leaving";
  }
  return "unknown request";
}

}  // namespace busbar
