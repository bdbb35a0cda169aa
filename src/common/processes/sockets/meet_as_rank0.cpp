#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/random_source.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/processes/session.h"
#include "common/processes/sockets/meet.h"
#include "common/processes/sockets/socket_group.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool is_loopback(const std::string& ip) {
  return ip.starts_with("127.") || ip == "::1" || ip.starts_with("::ffff:127.");
}

/// In quotes, from a little before the first difference on: messages are cut.
std::string from_difference(std::string_view text, std::string_view other) {
  constexpr std::size_t kBefore = 20;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
  return at > kBefore ? in_quotes(fmt::format("...{}", text.substr(at - kBefore))) : in_quotes(text);
}

std::string who(const JobMember& m) { return fmt::format("pid {} on {}", m.pid, printable(m.host)); }

class Host {
 public:
  explicit Host(const MeetRequest& request, const Hello& own)
      : request_(request), own_(own), reception_(open(request.launch), HelloKind::hello, welcome()) {
    allow_descriptors();
  }

  /// Waits for all; returns the members, by rank.
  std::map<int, JobMember> gather() {
    const auto begun = Clock::now();
    const auto until = limit_from_now(request_.limit_s);
    constexpr std::chrono::seconds kSayAfter{10};
    bool said = false;
    auto next_look = begun;
    while (static_cast<int>(guests_.size()) + 1 < request_.launch.nprocs) {
      for (Reception::Arrival& arrival : reception_.wait(milliseconds(200))) receive(std::move(arrival));
      const auto now = Clock::now();
      if (now >= next_look) {
        // A process that has given up, or was started again.
        std::erase_if(guests_, [](const auto& guest) { return has_closed(guest.second.socket); });
        next_look = now + std::chrono::seconds(1);
      }
      if (now >= until) refuse_all(ExitCode::timeout, "gave up " + waiting_for());
      if (!said && now - begun > kSayAfter) {
        said = true;
        say("{}", waiting_for());
      }
    }
    return places();
  }

  std::map<int, Socket> take_connections() {
    std::map<int, Socket> all;
    for (auto& [rank, guest] : guests_) all.emplace(rank, std::move(guest.socket));
    return all;
  }

  /// All leave with that code, and this process says why. Those that come a moment later would wait for it in vain.
  [[noreturn]] void refuse_all(ExitCode code, const std::string& why) {
    for (const auto& [rank, guest] : guests_) refuse(guest, code, "");
    const auto until = limit_from_now(code == ExitCode::timeout ? 0.01 : 3);
    while (refused_ < request_.launch.nprocs - 1 && Clock::now() < until) {
      for (Reception::Arrival& late : reception_.wait(milliseconds(100))) {
        const std::optional<Hello> hello = unpack_message<Hello>(late.payload);
        if (!hello || hello->job != own_.job) continue;
        refuse({std::move(late.socket), hello->member, hello->nonce}, code, "");
      }
    }
    throw AgreedError(code, why);
  }

  void answer_all(const std::map<int, JobMember>& members, const std::string& token) {
    for (auto& [rank, guest] : guests_) {
      MeetAnswer answer;
      answer.token = token;
      for (const int neighbor : circulant_neighbors(rank, request_.launch.nprocs))
        answer.neighbors.push_back(members.at(neighbor));
      answer.neighbors.push_back(members.at(rank));
      send(guest, answer);
    }
  }

 private:
  struct Guest {
    Socket socket;
    JobMember member;
    std::string nonce;
  };

  static Socket open(const Launch& launch) {
    for (int port = launch.master_port; port <= last_port(launch); ++port) {
      Socket listener = listen_everywhere(static_cast<std::uint16_t>(port));
      if (listener.open()) return listener;
    }
    throw_not_possible(fmt::format("no port from {} to {} is free on {} ({}): another MASTER_PORT", launch.master_port,
                                   last_port(launch), hostname(), std::strerror(errno)));
  }

  std::string welcome() const {
    return hello_bytes(HelloKind::welcome, pack_fields(Welcome{own_.version, own_.job, local_timestamp(), own_.nonce}));
  }

  /// All processes wait here at the same time.
  void allow_descriptors() const {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = static_cast<rlim_t>(request_.launch.nprocs) + 256;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  static bool has_closed(const Socket& socket) {
    char byte = 0;
    const ssize_t n = recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  }

  void send(const Guest& guest, const MeetAnswer& answer) const {
    constexpr milliseconds kPatience{2000};
    send_within(guest.socket, hello_bytes(HelloKind::answer, pack_fields(proven(answer, request_.key, guest.nonce))),
                kPatience);
  }

  void refuse(const Guest& guest, ExitCode code, const std::string& why) {
    ++refused_;
    MeetAnswer answer;
    answer.code = static_cast<int>(code);
    answer.why = why;
    send(guest, answer);
  }

  void receive(Reception::Arrival arrival) {
    const std::optional<Hello> hello = unpack_message<Hello>(arrival.payload);
    if (!hello || hello->job != own_.job) return;  // it has read the welcome, and knows
    Guest guest{std::move(arrival.socket), hello->member, hello->nonce};
    const int rank = guest.member.rank;
    if (!is_proven(*hello, request_.key, own_.nonce))
      return refuse(guest, ExitCode::bad_config, "rank 0 has another --meet-key, or one of the two has none");
    if (rank < 0 || rank >= request_.launch.nprocs) return;
    std::string why = difference(*hello);
    const auto known = guests_.find(rank);
    if (known != guests_.end() && has_closed(known->second.socket)) guests_.erase(rank);
    if (why.empty() && rank == 0) why = duplicate(own_.member, guest.member);
    if (why.empty() && guests_.contains(rank)) why = duplicate(guests_.at(rank).member, guest.member);
    const bool bad = !why.empty();
    if (bad) refuse(guest, ExitCode::bad_config, "");
    if (bad) refuse_all(ExitCode::bad_config, why);
    if (guest.member.ip.empty()) guest.member.ip = local_ip(guest.socket);
    guests_.insert_or_assign(rank, std::move(guest));
  }

  std::string difference(const Hello& hello) const {
    const auto differs = [&](std::string_view what, const std::string& theirs, const std::string& own) {
      return fmt::format("rank {} on {} has {} {}, rank 0 on {} {}: start every process with the same",
                         hello.member.rank, printable(hello.member.host), what, from_difference(theirs, own),
                         own_.member.host, from_difference(own, theirs));
    };
    if (hello.version != own_.version) return differs("version", hello.version, own_.version);
    if (hello.arguments != own_.arguments) return differs("the command line", hello.arguments, own_.arguments);
    return {};
  }

  std::string duplicate(const JobMember& one, const JobMember& other) const {
    return fmt::format("two processes have rank {}: {}, {}: give each its own, or two jobs share {} port {}", one.rank,
                       who(one), who(other), request_.launch.master_address, reception_.port());
  }

  std::string waiting_for() const {
    std::vector<int> here{0};
    for (const auto& [rank, guest] : guests_) here.push_back(rank);
    const int nprocs = request_.launch.nprocs;
    const RankList missing = missing_ranks(here, nprocs);
    return fmt::format("waiting for rank{} {} of {} at {} ({} port {})", missing.size() == 1 ? "" : "s",
                       compress_ranks(missing), nprocs, hostname(), request_.launch.master_address, reception_.port());
  }

  /// On one machine everybody is reached over loopback. On several, nobody is: a process on rank 0's host may have
  /// connected over it.
  std::map<int, JobMember> places() {
    std::map<int, JobMember> members{{0, own_.member}};
    bool one_machine = true;
    for (const auto& [rank, guest] : guests_) {
      members.emplace(rank, guest.member);
      if (guest.member.machine == own_.member.machine) continue;
      one_machine = false;
      if (members[0].ip.empty()) members[0].ip = own_ip(guest.socket);
    }
    for (auto& [rank, member] : members) {
      if (one_machine) {
        member.ip = "127.0.0.1";
      } else if (is_loopback(member.ip) || member.ip.empty()) {
        member.ip = members[0].ip;
      }
    }
    return members;
  }

  const MeetRequest& request_;
  const Hello& own_;
  Reception reception_;
  std::map<int, Guest> guests_;  ///< by rank; rank 0 is not among them
  int refused_ = 0;              ///< how many processes were refused
};

}  // namespace

void meet_as_rank0(const MeetRequest& request, const Hello& own, Meeting& meeting) {
  Host host(request, own);
  try {
    const std::map<int, JobMember> members = host.gather();
    meeting.token = random_id();
    host.answer_all(members, meeting.token);
    for (const auto& [rank, member] : members) meeting.neighbors.push_back(member);
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& e) {
    host.refuse_all(e.code(), e.what());
  }
  meeting.met = host.take_connections();
}

}  // namespace busbar
