#include "common/watch/watchdog.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/watch/local_evidence.h"
#include "common/watch/meeting.h"
#include "common/watch/peer_messages.h"
#include "common/watch/watchdog_impl.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace busbar {
namespace {

/// With which a launcher, a scheduler or a terminal ends the job: whoever started it without a launcher presses Ctrl-C.
/// What is ignored (nohup) stays so, and a debugger needs its own Ctrl-C.
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

Watchdog::Impl::Impl(double timeout, const Owner& owner, Json the_json)
    : json(std::move(the_json)), timeout_s(timeout) {
  job.jobid = environment_jobid();
  is_named = !job.jobid.empty();
  // Until the name is agreed: the processes of one host share a parent.
  if (!is_named) job.jobid = fmt::format("parent{}", getppid());
  job.host = owner.host;
  job.rank = owner.rank;
  job.nprocs = owner.nprocs;
  job.local_size = owner.local_size;
  command = owner.command;
  record = make_record(job.jobid, job, command);
  (void)remove_old_flights(flight_folders());
  // Blocked before any other thread begins, so that one of them alone takes it.
  signals = ending_signals(*record);
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before);
  try {
    signal_thread = std::thread([this] { wait_for_signal(); });
    server = std::make_unique<PeerServer>(PeerServer::Hooks{
        .handle = [this](std::string_view request) { return handle(request); }, .tick = [this] { tick(); }});
  } catch (const std::exception& error) {
    // An aid: a system that has no thread for it may have those that the job needs.
    warning = fmt::format("this process has no watchdog: {}", error.what());
    if (!signal_thread.joinable()) pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  }
}

Watchdog::Impl::~Impl() {
  {
    const std::lock_guard lock(collector_mutex);
    stopping = true;
  }
  server.reset();
  if (leaver.joinable()) leaver.join();  // does not come back: the process ends with the code that all others end with
  wake_collector.notify_one();
  if (collector.joinable()) collector.join();
  if (signal_thread.joinable()) {
    pthread_kill(signal_thread.native_handle(), SIGTERM);
    signal_thread.join();
  }
  record->end(Ending::good);
  record.reset();
  // A launcher's signal may be waiting: some other process's exit code is not 0. It must not find the record.
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
}

std::shared_ptr<FlightRecord> Watchdog::Impl::current_record() {
  const std::lock_guard lock(mutex);
  return record;
}

JobView Watchdog::Impl::view() {
  const std::lock_guard lock(mutex);
  return job;
}

Watchdog::Watchdog(double timeout_s, const Owner& owner, Json json)
    : impl_(std::make_unique<Impl>(timeout_s, owner, std::move(json))) {}

Watchdog::~Watchdog() = default;

void Watchdog::set_timeout(double timeout_s) { impl_->timeout_s = timeout_s; }

void Watchdog::use_ras(int nccl_version) {
  impl_->nccl_version = nccl_version;
  impl_->has_ras = true;
}

const std::string& Watchdog::jobid() const { return impl_->job.jobid; }

bool Watchdog::is_named() const { return impl_->is_named; }

PeerAddress Watchdog::listen(int rank, bool one_host, const std::string& token) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->job.token = token;
    impl_->job.rank = rank;
  }
  try {
    return impl_->listen_at(job_interface_address(one_host, [](const char* name) { return std::getenv(name); }));
  } catch (const Error& error) {
    impl_->warning = error.what();
  }
  // It is an aid, and no reason to refuse a job.
  try {
    const PeerAddress own = impl_->listen_at(job_interface_address(one_host, [](const char*) { return nullptr; }));
    impl_->warning += fmt::format("; the watchers use {}", own.ip);
    return own;
  } catch (const Error&) {
    impl_->warning += "; other hosts' watchers will not reach this one's";
    return impl_->nowhere();
  }
}

const std::string& Watchdog::warning() const { return impl_->warning; }

std::vector<std::string> Watchdog::interfaces() const {
  std::vector<std::string> names;
  for (const InterfaceAddress& a : usual_addresses(interface_addresses())) add_once(names, common_name(a));
  return names;
}

std::string Watchdog::interface() const {
  for (const InterfaceAddress& a : interface_addresses()) {
    if (a.ip == impl_->listens_at) return common_name(a);
  }
  return {};
}

PeerAddress Watchdog::listen_on(const std::string& interface) {
  for (const InterfaceAddress& a : usual_addresses(interface_addresses())) {
    if (common_name(a) != interface) continue;
    try {
      return impl_->listen_at(a.ip);
    } catch (const Error&) {
      return impl_->nowhere();
    }
  }
  return impl_->nowhere();
}

PeerAddress Watchdog::Impl::listen_at(const std::string& ip) {
  if (!server) return nowhere();
  const JobView now = view();
  const std::uint16_t port = server->listen(ip, now.token);
  listens_at = ip;
  return {now.rank, now.host, ip, port, full_host_name(), this_machine()};
}

PeerAddress Watchdog::Impl::nowhere() {
  const JobView now = view();
  return {now.rank, now.host, "", 0, full_host_name(), this_machine()};
}

std::vector<Unmet> Watchdog::try_to_meet() const { return busbar::try_to_meet(impl_->view()); }

void Watchdog::set_unmet(std::vector<Unmet> unmet) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->job.unmet = std::move(unmet);
  }
  impl_->observer.note_links(impl_->view());
}

std::string Watchdog::meeting_remark() const { return busbar::meeting_remark(impl_->view()); }

void Watchdog::connect(const std::string& jobid, std::vector<PeerAddress> peers) {
  const std::lock_guard lock(impl_->mutex);
  JobView& job = impl_->job;
  const std::string before = std::exchange(job.jobid, jobid);
  job.unmet.clear();
  job.nprocs = static_cast<int>(peers.size());
  tell_hosts_apart(peers);
  const std::string short_name = std::exchange(job.host, peers[static_cast<std::size_t>(job.rank)].host);
  job.hosts = group_by_host(peers);
  job.peers = std::move(peers);
  job.local_size = static_cast<int>(job.hosts[job.host_index()].size());
  if (before != jobid || short_name != job.host || impl_->record->state().rank != job.rank) {
    impl_->record = make_record(jobid, job, impl_->command);
  }
  impl_->record->set_nprocs(job.nprocs);
}

std::unique_ptr<Watchdog::Attached> Watchdog::attach(Backend& backend) {
  return std::make_unique<Attached>(*impl_, backend);
}

Watchdog::Attached::Attached(Impl& impl, Backend& backend) : impl_(impl), backend_(backend) {
  const std::lock_guard lock(impl_.mutex);
  impl_.backends.push_back(&backend_);
  backend_.count_operations(impl_.record->lanes());
  impl_.record->set_lanes(backend_.lanes());
}

Watchdog::Attached::~Attached() {
  const std::lock_guard lock(impl_.mutex);
  impl_.backends.remove(&backend_);
}

void Watchdog::begin(Phase phase, std::string_view step) {
  const double asked_s = impl_->timeout_s;
  impl_->record->begin(phase, step, nullptr, 0,
                       phase == Phase::output ? output_limit_s(asked_s) : start_limit_s(impl_->job.nprocs, asked_s));
}

void Watchdog::begin(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
                     double expected_s) {
  const double asked_s = impl_->timeout_s;
  const double limit_s = asked_s == kAutomaticLimit ? step_limit_s(expected_s) : asked_s;
  impl_->record->begin(phase, step, &call, calls, limit_s);
}

void Watchdog::rest() {
  const double limit_s = impl_->job.rank == 0 ? output_limit_s(impl_->timeout_s) : 0;
  impl_->record->begin(Phase::resting, "nothing", nullptr, 0, limit_s);
}

void Watchdog::failing() {
  // Whoever ends the job tells the others' speaker by this record whether anything is left to explain.
  impl_->record->end(Ending::failed);
  if (impl_->view().peers.size() > 1) {
    impl_->record->keep();
  } else {
    std::error_code ignored;
    std::filesystem::remove(impl_->record->path(), ignored);
  }
}

void Watchdog::set_kept(std::string what) {
  const std::lock_guard lock(impl_->kept_mutex);
  impl_->kept = std::move(what);
  impl_->result_told = impl_->kept.empty();
}

void Watchdog::Impl::postpone(double seconds) {
  next_look = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Watchdog::Impl::tick() {
  const std::shared_ptr<FlightRecord> own = current_record();
  own->beat();
  if (ending || stopping) return;
  // At the start, when there is a thread to be had; of this one's, so that it is born with the signals blocked.
  if (!collector.joinable()) make_collector();
  if (!look_at(own->state()) || Clock::now() < next_look.load() || investigating) return;
  {
    const std::lock_guard lock(collector_mutex);
    investigating = true;
  }
  if (!collector.joinable()) {
    investigate_once();  // better to be mute for the seconds that it takes than to say nothing
    return;
  }
  wake_collector.notify_one();
}

void Watchdog::Impl::make_collector() {
  try {
    collector = std::thread([this] {
      std::unique_lock lock(collector_mutex);
      while (true) {
        wake_collector.wait(lock, [this] { return stopping || investigating; });
        if (stopping) return;
        lock.unlock();
        investigate_once();
        lock.lock();
      }
    });
  } catch (const std::system_error&) {
    return;  // tried again at the next tick
  }
}

void Watchdog::Impl::investigate_once() {
  try {
    investigate();
    failed_looks = 0;
  } catch (const std::exception& error) {
    look_failed(error.what());
  }
  investigating = false;
}

/// Whether something is to be done about the step under way.
bool Watchdog::Impl::look_at(const FlightState& me) {
  if (alarmed) return true;
  if (me.limit_s <= 0) return false;
  const bool waiting = me.idle_s >= me.limit_s / 2;
  if (!waiting) {
    looked_early = false;
    deferred = Clock::time_point{};
    const std::lock_guard lock(mutex);
    stood.clear();
  } else if (!looked_early) {
    looked_early = true;
    look_early();
  }
  if (me.idle_s >= me.limit_s) return true;
  // That it is slow one host says for all.
  if (me.step_age_s < me.limit_s || view().host_index() != 0) return false;
  return !slow_told ||
         me.step_age_s >= slow_limit_s(me.limit_s, me.step_age_s, static_cast<double>(me.entered - me.step_first),
                                       static_cast<double>(me.step_calls));
}

/// At half the limit: what later looks are compared with.
void Watchdog::Impl::look_early() {
  observer.look_early();
  const JobView now = view();
  std::string errors;
  {
    const std::lock_guard lock(mutex);
    for (const Backend* backend : backends) {
      if (const auto error = backend->asynchronous_error()) errors += (errors.empty() ? "" : "; ") + *error;
    }
  }
  current_record()->set_error(errors);
  const bool first_of_job = !now.hosts.empty() && now.hosts.front().front() == now.rank;
  if (!has_ras || !first_of_job) return;
  // What the other hosts' ranks are at is asked for at the limit only.
  const RasFormat format = safe_ras_question(nccl_version, RasHazards{}).format;
  if (format != RasFormat::none) ras_observer.look_early(format);
}

std::string Watchdog::Impl::handle(std::string_view request) {
  if (request == kAskEvidence) {
    const JobView now = view();
    observer.look_closely(now);
    return encode(observer.evidence(now));
  }
  if (request == kAlarm) {
    constexpr std::chrono::seconds kStillTrue{10};
    const Clock::time_point moved = last_moved;
    if (moved != Clock::time_point{} && Clock::now() - moved < kStillTrue) return std::string(kMoves);
    alarmed = true;
    next_look = Clock::time_point{};
    return std::string(kComing);
  }
  if (request == kPing) return "here";
  if (request == kTold) {
    told = true;
    return "noted";
  }
  if (request == kForget) {
    keep_records = false;
    forget = true;
    return "noted";
  }
  if (request == kStop || request == kStopAndKeep) {
    if (request == kStopAndKeep) keep_records = true;
    ending = true;
    if (leaver.joinable()) return "leaving";
    leaver = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for the reply
      leave();
    });
    return "leaving";
  }
  return "unknown request";
}

}  // namespace busbar
