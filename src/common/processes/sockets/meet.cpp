#include "common/processes/sockets/meet.h"

#include "common/base/error.h"
#include "common/base/random_source.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPorts = 16;

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

/// Of the interface that the user names for NCCL; empty: none. Throws Error(bad_config) if there is no such interface.
std::string named_ip() {
  const char* named = std::getenv("NCCL_SOCKET_IFNAME");
  const auto only_nccl = [](const char* name) -> const char* {
    return std::string_view(name) == "NCCL_SOCKET_IFNAME" ? std::getenv(name) : nullptr;
  };
  return named != nullptr && *named != '\0' ? job_interface_address(false, only_nccl) : "";
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
      if (welcome)
        if (std::optional<MeetAnswer> answer = ask(*welcome, until)) return *std::move(answer);
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
    for (const addrinfo* a = found; a != nullptr && all.size() < kMost; a = a->ai_next)
      if (auto address = socket_address(ip_text(a->ai_addr), 0)) all.push_back(*address);
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
    if (input.state == HelloInput::State::whole) welcome = unpack_message<Welcome>(input.payload);
    if (welcome && welcome->job == own_.job) return welcome;
    reached_ = std::max(reached_, Reached::stranger);
    if (welcome)
      stranger_ = fmt::format("a job of {} ranks, started {}", welcome->job.nprocs, printable(welcome->started));
    return std::nullopt;
  }

  /// Says who this is, and waits until all are there. nullopt if rank 0 has gone: it may be started again.
  std::optional<MeetAnswer> ask(const Welcome& welcome, Clock::time_point until) {
    own_.member.ip = own_ip(rank0_);
    const std::string bytes = hello_bytes(HelloKind::hello, pack_fields(proven(own_, request_.key, welcome.nonce)));
    constexpr milliseconds kPatience{5000};
    if (!send_within(rank0_, bytes, kPatience)) return std::nullopt;
    std::string in;
    while (Clock::now() < until) {
      pollfd event{rank0_.fd(), POLLIN, 0};
      if (poll(&event, 1, 1000) <= 0) continue;
      const HelloInput input = read_hello(rank0_, in, HelloKind::answer);
      if (input.state == HelloInput::State::incomplete) continue;
      std::optional<MeetAnswer> answer = unpack_message<MeetAnswer>(input.payload);
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
    if (!is_proven(answer, request_.key, own_.nonce))
      throw_bad_config(fmt::format("the process at {} does not know --meet-key", where()));
  }

  const MeetRequest& request_;
  Hello own_;
  Socket rank0_;
  Reached reached_ = Reached::unknown_name;
  std::string unknown_because_, stranger_;
};

}  // namespace

int last_port(const Launch& launch) { return std::min(launch.master_port + kPorts - 1, 65535); }

Clock::time_point limit_from_now(double limit_s) {
  if (limit_s <= 0) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
}

std::string local_ip(const Socket& socket) {
  std::string ip = ip_text(local_address(socket.fd()).get());
  constexpr std::string_view kMapped = "::ffff:";
  return ip.starts_with(kMapped) && ip.find('.') != std::string::npos ? ip.substr(kMapped.size()) : ip;
}

std::string own_ip(const Socket& to_rank0) {
  const std::string named = named_ip();
  return named.empty() ? local_ip(to_rank0) : named;
}

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
  (void)named_ip();  // every process finds the mistake before it waits for another
  launch.rank == 0 ? meet_as_rank0(request, own, meeting) : seek_rank0(request, own, meeting);
  return meeting;
}

void seek_rank0(const MeetRequest& request, const Hello& own, Meeting& meeting) {
  Seeker seeker(request, own);
  MeetAnswer answer = seeker.seek();
  meeting.token = std::move(answer.token);
  meeting.neighbors = std::move(answer.neighbors);
  meeting.met.emplace(0, seeker.take_connection());
}

}  // namespace busbar
