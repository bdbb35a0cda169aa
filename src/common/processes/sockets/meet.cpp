#include "common/processes/sockets/meet.h"

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/random_source.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/timestamp.h"
#include "common/machine/this_machine.h"
#include "common/processes/session.h"
#include "common/processes/sockets/tree_shape.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <set>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kPorts = 16;  // torchrun's agent listens on MASTER_PORT itself

int last_port(const Launch& launch) { return std::min(launch.master_port + kPorts - 1, 65535); }

Clock::time_point limit_from_now(double limit_s) {
  if (limit_s <= 0) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
}

MeetJob job_of(const Launch& launch) { return {launch.job, launch.nprocs}; }

/// What this process says of itself; where it is reached is found later.
Hello own_hello(const MeetRequest& request, std::uint16_t port) {
  Hello hello;
  hello.version = BUSBAR_VERSION;
  hello.job = job_of(request.launch);
  hello.arguments = request.arguments;
  hello.member = {request.launch.rank, getpid(), hostname(), this_machine(), "", port};
  hello.nonce = random_id();
  return hello;
}

bool is_loopback(const std::string& ip) {
  return ip.starts_with("127.") || ip == "::1" || ip.starts_with("::ffff:127.");
}

/// This end of a connection, in figures, as others of the job can use it.
std::string local_ip(const Socket& socket) {
  std::string ip = ip_text(local_address(socket.fd()).get());
  constexpr std::string_view kMapped = "::ffff:";
  return ip.starts_with(kMapped) && ip.find('.') != std::string::npos ? ip.substr(kMapped.size()) : ip;
}

/// The address to tell the others: that of the interface that the user names for NCCL, else that of the connection to
/// rank 0.
std::string own_ip(const Socket& to_rank0) {
  const char* named = std::getenv("NCCL_SOCKET_IFNAME");
  const auto only_nccl = [](const char* name) -> const char* {
    return std::string_view(name) == "NCCL_SOCKET_IFNAME" ? std::getenv(name) : nullptr;
  };
  if (named != nullptr && *named != '\0') return job_interface_address(false, only_nccl);
  return local_ip(to_rank0);
}

// Rank 0. ---------------------------------------------------------------------------------------------------------

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
      if (now >= until) refuse_all(ExitCode::timeout, waiting_for());
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

  /// All leave with that code, and this process says why.
  [[noreturn]] void refuse_all(ExitCode code, const std::string& why) const {
    for (const auto& [rank, guest] : guests_) refuse(guest, code, "");
    throw AgreedError(code, why);
  }

  void answer_all(const std::map<int, JobMember>& members, const std::string& token) {
    for (auto& [rank, guest] : guests_) {
      MeetAnswer answer;
      answer.token = token;
      for (const int neighbor : circulant_neighbors(rank, request_.launch.nprocs)) {
        answer.neighbors.push_back(members.at(neighbor));
      }
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
    return hello_bytes(HelloKind::welcome, packed(Welcome{own_.version, own_.job, local_timestamp(), own_.nonce}));
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
    send_within(guest.socket, hello_bytes(HelloKind::answer, packed(proven(answer, request_.key, guest.nonce))),
                kPatience);
  }

  void refuse(const Guest& guest, ExitCode code, const std::string& why) const {
    MeetAnswer answer;
    answer.code = static_cast<int>(code);
    answer.why = why;
    send(guest, answer);
  }

  void receive(Reception::Arrival arrival) {
    const std::optional<Hello> hello = unpack_hello(arrival.payload);
    if (!hello || hello->job != own_.job) return;  // it has read the welcome, and knows
    Guest guest{std::move(arrival.socket), hello->member, hello->nonce};
    const int rank = guest.member.rank;
    if (!is_proven(*hello, request_.key, own_.nonce)) {
      return refuse(guest, ExitCode::bad_config, "rank 0 has another --meet-key, or one of the two has none");
    }
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
};

// The others. -----------------------------------------------------------------------------------------------------

/// How far the attempts of a round came, the best last.
enum class Reached { unknown_name, refused, silent, stranger, rank0 };

struct Attempt {
  Socket socket;
  std::string in = {};
  bool connected = false;
};

class Seeker {
 public:
  Seeker(const MeetRequest& request, Hello own) : request_(request), own_(std::move(own)) {}

  Socket take_connection() { return std::move(rank0_); }

  MeetAnswer seek() {
    const auto until = limit_from_now(request_.limit_s > 0 ? request_.limit_s + 10 : 0);  // rank 0's limit comes first
    const auto until_found = limit_from_now(request_.limit_s);
    milliseconds pause{100}, patience{500};
    constexpr milliseconds kMostPause{2000}, kMostPatience{4000};
    for (;;) {
      const std::optional<Welcome> welcome = find_rank0(patience);
      if (welcome) {
        if (std::optional<MeetAnswer> answer = ask(*welcome, until)) return *std::move(answer);
      }
      if (Clock::now() > (welcome ? until : until_found)) throw Error(ExitCode::timeout, why_not());
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kMostPause);
      patience = std::min(2 * patience, kMostPatience);
    }
  }

 private:
  std::string where() const {
    const Launch& launch = request_.launch;
    return fmt::format("{}, ports {} to {}", printable(launch.master_address), launch.master_port, last_port(launch));
  }

  std::string why_not() const {
    const Launch& launch = request_.launch;
    switch (reached_) {
      case Reached::unknown_name:
        return fmt::format(
            "MASTER_ADDR={} is no name that this host knows ({}): in Kubernetes it needs a headless service, with "
            "publishNotReadyAddresses",
            printable(launch.master_address), unknown_because_);
      case Reached::refused:
        return fmt::format("nobody listens at {}: start rank 0 there", where());
      case Reached::silent:
        return fmt::format("no answer from {}: a firewall is between, or MASTER_ADDR is of another network", where());
      case Reached::stranger:
        return fmt::format("{} answer, but not as rank 0 of this job ({}): another MASTER_PORT", where(),
                           stranger_.empty() ? "no busbar" : stranger_);
      case Reached::rank0:
        break;
    }
    return fmt::format("rank 0 at {} has not answered", where());
  }

  std::vector<SocketAddress> addresses() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(request_.launch.master_address.c_str(), nullptr, &hints, &found);
    std::vector<SocketAddress> all;
    if (error != 0) {
      unknown_because_ = gai_strerror(error);
      return all;
    }
    constexpr std::size_t kMost = 8;
    for (const addrinfo* a = found; a != nullptr && all.size() < kMost; a = a->ai_next) {
      if (auto address = socket_address(ip_text(a->ai_addr), 0)) all.push_back(*address);
    }
    freeaddrinfo(found);
    return all;
  }

  /// Connects to all ports of the window at once, and takes the first that welcomes this job.
  std::optional<Welcome> find_rank0(milliseconds patience) {
    reached_ = Reached::unknown_name;
    std::vector<Attempt> attempts;
    for (const SocketAddress& address : addresses()) {
      reached_ = std::max(reached_, Reached::refused);
      for (int port = request_.launch.master_port; port <= last_port(request_.launch); ++port) {
        const SocketAddress at = *socket_address(ip_text(address.get()), static_cast<std::uint16_t>(port));
        Socket socket = make_tcp_socket(at.family());
        if (!socket.open()) continue;
        if (connect(socket.fd(), at.get(), at.length) == 0 || errno == EINPROGRESS)
          attempts.push_back({std::move(socket)});
      }
    }
    const auto until = Clock::now() + patience;
    while (!attempts.empty()) {
      std::vector<pollfd> events;
      for (const Attempt& a : attempts)
        events.push_back({a.socket.fd(), static_cast<short>(a.connected ? POLLIN : POLLOUT), 0});
      const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
      if (left.count() <= 0 || poll(events.data(), events.size(), static_cast<int>(left.count())) < 0) break;
      std::vector<Attempt> going_on;
      for (std::size_t i = 0; i < attempts.size(); ++i) {
        if (events[i].revents == 0) {
          going_on.push_back(std::move(attempts[i]));
          continue;
        }
        if (std::optional<Welcome> welcome = go_on(attempts[i], going_on)) {
          reached_ = Reached::rank0;
          rank0_ = std::move(attempts[i].socket);
          return welcome;
        }
      }
      attempts = std::move(going_on);
    }
    for (const Attempt& a : attempts) reached_ = std::max(reached_, a.connected ? Reached::stranger : Reached::silent);
    return std::nullopt;
  }

  std::optional<Welcome> go_on(Attempt& attempt, std::vector<Attempt>& going_on) {
    if (!attempt.connected) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(attempt.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT)
        reached_ = std::max(reached_, Reached::silent);
      attempt.connected = error == 0;
      if (attempt.connected) going_on.push_back(std::move(attempt));
      return std::nullopt;
    }
    const HelloInput input = read_hello(attempt.socket, attempt.in, HelloKind::welcome);
    if (input.state == HelloInput::State::incomplete) {
      going_on.push_back(std::move(attempt));
      return std::nullopt;
    }
    std::optional<Welcome> welcome;
    if (input.state == HelloInput::State::whole) welcome = unpack_welcome(input.payload);
    if (welcome && welcome->job == own_.job) return welcome;
    reached_ = std::max(reached_, Reached::stranger);
    if (welcome) {
      stranger_ = fmt::format("a job of {} ranks, started {}", welcome->job.nprocs, printable(welcome->started));
    }
    return std::nullopt;
  }

  /// Says who this is, and waits until all are there. nullopt if rank 0 has gone: it may be started again.
  std::optional<MeetAnswer> ask(const Welcome& welcome, Clock::time_point until) {
    own_.member.ip = own_ip(rank0_);
    const std::string bytes = hello_bytes(HelloKind::hello, packed(proven(own_, request_.key, welcome.nonce)));
    constexpr milliseconds kPatience{5000};
    if (!send_within(rank0_, bytes, kPatience)) return std::nullopt;
    std::string in;
    while (Clock::now() < until) {
      pollfd event{rank0_.fd(), POLLIN, 0};
      if (poll(&event, 1, 1000) <= 0) continue;
      const HelloInput input = read_hello(rank0_, in, HelloKind::answer);
      if (input.state == HelloInput::State::incomplete) continue;
      std::optional<MeetAnswer> answer = unpack_answer(input.payload);
      if (!answer) return std::nullopt;
      check(*answer);
      return answer;
    }
    return std::nullopt;
  }

  void check(const MeetAnswer& answer) const {
    const auto code = static_cast<ExitCode>(answer.code & 0xFF);
    if (answer.code != 0 && answer.why.empty()) throw AgreedError(code, "");
    if (answer.code != 0) throw Error(code, printable(answer.why));
    if (!is_proven(answer, request_.key, own_.nonce)) {
      throw_bad_config(fmt::format("the process at {} does not know --meet-key", where()));
    }
  }

  const MeetRequest& request_;
  Hello own_;
  Socket rank0_;
  Reached reached_ = Reached::unknown_name;
  std::string unknown_because_, stranger_;
};

}  // namespace

Meeting meet(const MeetRequest& request) {
  const Launch& launch = request.launch;
  Socket listener = listen_everywhere(0);
  if (!listener.open()) throw_not_possible(fmt::format("no port to listen on: {}", std::strerror(errno)));
  Meeting meeting{Reception(std::move(listener), HelloKind::link, ""), "", {}, {}};
  const Hello own = own_hello(request, meeting.reception.port());
  if (launch.nprocs == 1) {
    meeting.neighbors = {own.member};
    return meeting;
  }
  if (launch.rank > 0) {
    Seeker seeker(request, own);
    MeetAnswer answer = seeker.seek();
    meeting.token = std::move(answer.token);
    meeting.neighbors = std::move(answer.neighbors);
    meeting.met.emplace(0, seeker.take_connection());
    return meeting;
  }
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
  return meeting;
}

}  // namespace busbar
