// What do the watchers of a large job say to each other when all of them have a reason to speak at once? The real
// collector and peer code, a server per rank over loopback: the table of docs/evidence/performance.md.
//
//     storm_simulation [HOSTS [RANKS_PER_HOST]]    512 and 8; needs some 3 descriptors per rank

#include "common/base/random_source.h"
#include "common/watch/collector.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace busbar;
using Clock = std::chrono::steady_clock;

/// A job whose processes only answer.
class Job {
 public:
  Job(int nhosts, int per_host) : nhosts_(nhosts), per_host_(per_host) {
    view_.jobid = "storm";
    view_.token = random_id();
    view_.nprocs = nhosts * per_host;
    told_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(view_.nprocs));
    for (int rank = 0; rank < view_.nprocs; ++rank) {
      servers_.push_back(std::make_unique<PeerServer>(
          PeerServer::Hooks{.handle = [this, rank](std::string_view request) { return answer(rank, request); },
                            .tick = {},
                            .period = std::chrono::hours(1)}));
      const std::string ip = "127.0.0.1";
      view_.peers.push_back({.rank = rank,
                             .host = fmt::format("node{}", rank / per_host),
                             .ip = ip,
                             .port = servers_.back()->listen(ip, view_.token)});
    }
    view_.hosts = group_by_host(view_.peers);
  }

  JobView seen_by(int host) const {
    JobView view = view_;
    view.rank = host * per_host_;
    view.host = view.peers[static_cast<std::size_t>(view.rank)].host;
    return view;
  }

  /// From now on those hosts are gone: nobody answers, and where `silent`, no connection comes about either.
  void lose(int from, int to, bool silent) {
    for (int rank = from * per_host_; rank < to * per_host_; ++rank) {
      servers_[static_cast<std::size_t>(rank)].reset();
      // A network that does not exist on this machine, behind an interface that swallows what is sent: see below.
      if (silent) view_.peers[static_cast<std::size_t>(rank)].port = swallowing_port();
    }
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
    for (std::atomic<bool>& told : told_) told = false;
  }
  std::map<std::string, std::size_t> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::size_t told() const {
    return static_cast<std::size_t>(std::count_if(told_.begin(), told_.end(), [](const auto& t) { return t.load(); }));
  }
  int nhosts() const { return nhosts_; }

 private:
  std::string answer(int rank, std::string_view request) {
    {
      const std::lock_guard lock(mutex_);
      ++requests_[std::string(request)];
    }
    if (request == kPing) return "here";
    if (request == kAlarm) return std::string(kComing);
    if (request != kAskEvidence) {
      told_[static_cast<std::size_t>(rank)] = true;
      return "noted";
    }
    HostEvidence host;
    host.host = fmt::format("node{}", rank / per_host_);
    host.reached = true;
    for (int i = 0; i < per_host_; ++i) {
      RankEvidence one;
      one.flight.rank = rank / per_host_ * per_host_ + i;
      one.flight.host = host.host;
      one.flight.command = "all_reduce_perf -b 8 -e 1G -f 2";
      one.flight.finished.resize(16);
      host.ranks.push_back(std::move(one));
    }
    return encode(host);
  }

  /// A listener whose queue is full lets no connection come about, as a way that is cut.
  std::uint16_t swallowing_port() {
    if (!full_.open()) {
      full_ = make_tcp_socket(AF_INET);
      SocketAddress address = *socket_address("127.0.0.1", 0);
      if (bind(full_.fd(), address.get(), address.length) != 0 || ::listen(full_.fd(), 0) != 0) std::abort();
      (void)getsockname(full_.fd(), address.get(), &address.length);
      for (int i = 0; i < 4; ++i) {
        waiting_.push_back(make_tcp_socket(AF_INET));
        (void)connect(waiting_.back().fd(), address.get(), address.length);
      }
      full_port_ = port_of(address);
    }
    return full_port_;
  }

  int nhosts_, per_host_;
  JobView view_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> requests_;
  std::vector<std::atomic<bool>> told_;
  Socket full_;
  std::vector<Socket> waiting_;
  std::uint16_t full_port_ = 0;
  std::vector<std::unique_ptr<PeerServer>> servers_;  // last: their threads use the rest
};

std::size_t descriptors() {
  std::error_code ignored;
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd", ignored),
                                                std::filesystem::directory_iterator()));
}

/// Lets each host's reporter do it, all at the same moment, and prints what it cost.
void storm(const std::string& name, Job& job, int from, const std::function<bool(const JobView&)>& speak) {
  job.forget();
  std::atomic<bool> go = false, over = false;
  std::atomic<int> spoke = 0;
  std::vector<std::thread> reporters;
  for (int host = from; host < job.nhosts(); ++host) {
    reporters.emplace_back([&, view = job.seen_by(host)] {
      while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      spoke += speak(view) ? 1 : 0;
    });
  }
  const std::size_t before = descriptors();
  std::size_t most = before;
  std::thread counts([&] {
    while (!over) {
      most = std::max(most, descriptors());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const auto begun = Clock::now();
  go = true;
  for (std::thread& reporter : reporters) reporter.join();
  const std::chrono::duration<double> took = Clock::now() - begun;
  over = true;
  counts.join();
  std::string messages;
  std::size_t all = 0;
  for (const auto& [request, times] : job.requests()) {
    messages += fmt::format("{}{} {}", messages.empty() ? "" : ", ", times, request);
    all += times;
  }
  fmt::print("| {} | {} | {} | {} | {} | {} | {:.1f} |\n", name, all, messages, spoke.load(), job.told(), most - before,
             took.count());
  std::fflush(stdout);
}

bool end_job(const JobView& view) {
  if (view.host_index() != 0 && another_host_reports(view)) return false;
  HostObserver own;
  (void)collect(view, own, true);
  notify_others(view, kForget);
  return true;
}

bool find_hang(const JobView& view) {
  if (view.host_index() != 0 && alarm_others(view, view.rank)) return false;
  HostObserver own;
  const HangEvidence evidence = collect(view, own, false);
  const bool aloud = reports_for_job(view, evidence);
  notify_others(view, aloud ? kStop : kStopAndKeep);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int nhosts = argc > 1 ? std::atoi(argv[1]) : 512, per_host = argc > 2 ? std::atoi(argv[2]) : 8;
  if (nhosts < 2 || per_host < 1) return 2;
  Job job(nhosts, per_host);
  fmt::print("{} hosts of {} ranks\n\n", nhosts, per_host);
  fmt::print("| what | messages | of which | hosts that report | ranks told | descriptors | seconds |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  storm("Ctrl-C or SIGTERM", job, 0, end_job);
  storm("a hang", job, 0, find_hang);
  job.lose(0, nhosts / 2, false);
  storm("half of the hosts dead, SIGTERM", job, nhosts / 2, end_job);
  job.lose(0, nhosts / 2, true);
  storm("half of the hosts cut off, SIGTERM", job, nhosts / 2, end_job);
  storm("half of the hosts cut off, a hang", job, nhosts / 2, find_hang);
}
