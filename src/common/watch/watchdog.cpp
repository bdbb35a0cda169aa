#include "common/watch/watchdog.h"

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

}  // namespace busbar
