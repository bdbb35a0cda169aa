#include "common/watch/watchdog.h"

#include "common/watch/peer_messages.h"
#include "common/watch/watchdog_impl.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

namespace busbar {
namespace {

sigset_t sigterm_only() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

/// Where the environment has no name for the job: the processes of one host share a parent.
std::string jobid_until_agreed() {
  std::string jobid = environment_jobid();
  return jobid.empty() ? fmt::format("parent{}", getppid()) : jobid;
}

std::shared_ptr<FlightRecord> make_record(const std::string& jobid, const JobView& job, const std::string& command) {
  return std::make_shared<FlightRecord>(FlightOwner{jobid, job.host, job.rank, job.nprocs, command});
}

}  // namespace

Watchdog::Impl::Impl(double timeout, const Owner& owner, Json the_json)
    : json(std::move(the_json)), timeout_s(timeout) {
  job.jobid = jobid_until_agreed();
  job.host = owner.host;
  job.rank = owner.rank;
  job.nprocs = owner.nprocs;
  job.local_size = owner.local_size;
  command = owner.command;
  record = make_record(job.jobid, job, command);
  (void)remove_old_flights(flight_folders());
  // Blocked before any other thread begins, so that one of them alone takes it.
  const sigset_t set = sigterm_only();
  pthread_sigmask(SIG_BLOCK, &set, &mask_before);
  sigterm_thread = std::thread([this] { wait_for_sigterm(); });
  server = std::make_unique<PeerServer>(PeerServer::Hooks{
      .handle = [this](std::string_view request) { return handle(request); }, .tick = [this] { tick(); }});
}

Watchdog::Impl::~Impl() {
  stopping = true;
  server.reset();
  if (leaver.joinable()) leaver.join();  // does not come back: the process ends with the code that all others end with
  if (collector.joinable()) collector.join();
  pthread_kill(sigterm_thread.native_handle(), SIGTERM);
  sigterm_thread.join();
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

void Watchdog::use_ras() { impl_->has_ras = true; }

const std::string& Watchdog::jobid() const { return impl_->job.jobid; }

PeerAddress Watchdog::listen(int rank, bool one_host, const std::string& token) {
  const std::string ip = job_interface_address(one_host, [](const char* name) { return std::getenv(name); });
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->job.token = token;
    impl_->job.rank = rank;
  }
  const std::uint16_t port = impl_->server->listen(ip, token);
  return {rank, impl_->job.host, ip, port};
}

void Watchdog::connect(const std::string& jobid, std::vector<PeerAddress> peers) {
  const std::lock_guard lock(impl_->mutex);
  JobView& job = impl_->job;
  const std::string before = std::exchange(job.jobid, jobid);
  job.nprocs = static_cast<int>(peers.size());
  job.hosts = group_by_host(peers);
  job.peers = std::move(peers);
  job.local_size = static_cast<int>(job.hosts[job.host_index()].size());
  if (before != jobid || impl_->record->state().rank != job.rank) {
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
  impl_->record->begin(phase, step, nullptr, 0, start_limit_s(impl_->job.nprocs, impl_->timeout_s));
}

void Watchdog::begin(Phase phase, std::string_view step, const CalledOperation& call, std::uint64_t calls,
                     double expected_s) {
  const double asked_s = impl_->timeout_s;
  const double limit_s = asked_s == kAutomaticLimit ? step_limit_s(expected_s) : asked_s;
  impl_->record->begin(phase, step, &call, calls, limit_s);
}

void Watchdog::rest() { impl_->record->begin(Phase::resting, "nothing", nullptr, 0, 0); }

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

void Watchdog::Impl::postpone(double seconds) {
  next_look = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Watchdog::Impl::tick() {
  const std::shared_ptr<FlightRecord> own = current_record();
  own->beat();
  if (ending || stopping) return;
  if (!look_at(own->state()) || Clock::now() < next_look.load() || investigating.exchange(true)) return;
  if (collector.joinable()) collector.join();  // it is over: `investigating` was false
  collector = std::thread([this] {
    investigate();
    investigating = false;
  });
}

/// Whether something is to be done about the step under way.
bool Watchdog::Impl::look_at(const FlightState& me) {
  if (alarmed) return true;
  if (me.limit_s <= 0) return false;
  const bool waiting = me.idle_s >= me.limit_s / 2;
  if (!waiting) {
    looked_early = false;
    deferred = Clock::time_point{};
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
  if (has_ras && first_of_job) ras_observer.look_early();
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
