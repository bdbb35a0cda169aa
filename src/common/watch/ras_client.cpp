#include "common/base/error.h"
#include "common/watch/ras.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

/// Of 64k ranks RAS's JSON has some 30 MB; a stranger on the port shall not fill our memory.
constexpr std::size_t kMostBytes = 64 << 20;

constexpr std::chrono::milliseconds kRasLimit{3000};

struct HostPort {
  std::string host;
  std::string port;
};

/// NCCL_RAS_ADDR: "host:port", "[::1]:port", as NCCL reads it.
HostPort ras_address() {
  const char* set = std::getenv("NCCL_RAS_ADDR");
  const std::string_view text = set != nullptr ? set : "";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {"127.0.0.1", "28028"};
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host == "localhost" ? "127.0.0.1" : std::string(host), std::string(text.substr(colon + 1))};
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using ServiceAddresses = std::unique_ptr<addrinfo, FreeAddresses>;

ServiceAddresses look_up(const HostPort& at, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) return nullptr;
  return ServiceAddresses(found);
}

/// A resolver that hangs must not hang the watchdog: it is then left behind with its thread.
ServiceAddresses look_up_name(const HostPort& at, Clock::time_point end) {
  auto promise = std::make_shared<std::promise<ServiceAddresses>>();
  std::future<ServiceAddresses> found = promise->get_future();
  std::thread([promise, at] { promise->set_value(look_up(at, 0)); }).detach();
  return found.wait_until(end) == std::future_status::ready ? found.get() : nullptr;
}

class Connection {
 public:
  Connection(const HostPort& at, Clock::time_point end) : end_(end) {
    ServiceAddresses list = look_up(at, AI_NUMERICHOST);
    if (list == nullptr) list = look_up_name(at, end);
    if (list == nullptr) fail("the address cannot be found");
    std::string why;
    for (const addrinfo* a = list.get(); a != nullptr && fd_ < 0; a = a->ai_next) why = open(*a);
    if (fd_ < 0) fail(why);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }

  /// Where the other side is gone, line() and rest() will tell.
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EINTR) {
        if (!ready(POLLOUT)) fail("it takes no request");
      } else if (errno == EPIPE || errno == ECONNRESET) {
        return;
      } else {
        fail(std::strerror(errno));
      }
    }
  }

  /// The next line; nothing where the other side is done.
  std::optional<std::string> line() {
    for (;;) {
      const std::size_t end = got_.find('\n');
      if (end != std::string::npos) {
        std::string text = got_.substr(0, end);
        got_.erase(0, end + 1);
        return text;
      }
      if (!receive()) return std::nullopt;
    }
  }

  std::string rest() {
    while (receive()) {
    }
    return std::move(got_);
  }

  [[noreturn]] static void fail(std::string_view why) {
    throw Error(ExitCode::not_possible, fmt::format("NCCL's RAS service: {}", why));
  }

 private:
  /// Connects within the deadline; else why not.
  std::string open(const addrinfo& a) {
    fd_ = socket(a.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return std::strerror(errno);
    int error = connect(fd_, a.ai_addr, a.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      socklen_t size = sizeof error;
      if (ready(POLLOUT)) getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return {};
    close(fd_);
    fd_ = -1;
    return error == ECONNREFUSED ? "nobody listens (no NCCL job runs here, or NCCL_RAS_ENABLE=0)"
                                 : std::strerror(error);
  }

  bool ready(short what) const {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
      if (left <= 0) return false;
      pollfd p{fd_, what, 0};
      const int n = poll(&p, 1, static_cast<int>(std::min<long>(left, 60'000)));
      if (n > 0) return true;
      if (n < 0 && errno != EINTR) return false;
    }
  }

  /// False at the end of the stream.
  bool receive() {
    char piece[65536];
    for (;;) {
      const ssize_t n = recv(fd_, piece, sizeof piece, 0);
      if (n == 0) return false;
      if (n > 0) {
        if (got_.size() + static_cast<std::size_t>(n) > kMostBytes) fail("its answer does not end");
        got_.append(piece, static_cast<std::size_t>(n));
        return true;
      }
      if (errno == ECONNRESET) return false;
      if (errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
      if (!ready(POLLIN)) fail("no answer in time");
    }
  }

  Clock::time_point end_;
  int fd_ = -1;
  std::string got_;
};

/// How long RAS itself may gather, in whole seconds: it must answer before we give up, and 0 would be for ever.
long ras_seconds(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return std::clamp<long>(static_cast<long>(left / 2000), 1, 5);
}

/// One exchange; nothing where RAS hung up before it said anything of the job.
std::optional<std::string> exchange(const HostPort& at, Clock::time_point end, bool ask_for_json) {
  Connection ras(at, end);
  ras.send("CLIENT PROTOCOL 2\n");
  const auto greeting = ras.line();
  if (!greeting) return std::nullopt;
  if (!greeting->starts_with("SERVER PROTOCOL")) Connection::fail("whoever listens there is not RAS");
  ras.send(fmt::format("TIMEOUT {}\n", ras_seconds(end)));
  if (!ras.line()) return std::nullopt;
  // Before 2.28.7 an ERROR, and text.
  if (ask_for_json) {
    ras.send("SET FORMAT json\n");
    if (!ras.line()) return std::nullopt;
  }
  ras.send("VERBOSE STATUS\n");
  std::string answer = ras.rest();
  return answer.empty() ? std::nullopt : std::optional(std::move(answer));
}

}  // namespace

std::string ask_ras(std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  const HostPort at = ras_address();
  auto answer = exchange(at, end, true);
  if (!answer) answer = exchange(at, end, false);
  if (!answer) Connection::fail("it hung up without an answer");
  return std::move(*answer);
}

RasObserver::~RasObserver() {
  if (thread_.joinable()) thread_.join();
}

void RasObserver::look_early() {
  const std::lock_guard thread_lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this] {
    std::string text;
    try {
      text = ask_ras(kRasLimit);
    } catch (const std::exception&) {
      text.clear();  // asked again at expiry, where the reason is told
    }
    const std::lock_guard lock(mutex_);
    earlier_ = std::move(text);
  });
}

RasEvidence RasObserver::look_again() {
  {
    const std::lock_guard thread_lock(thread_mutex_);
    if (thread_.joinable()) thread_.join();
  }
  std::string earlier;
  {
    const std::lock_guard lock(mutex_);
    earlier = earlier_;
  }
  RasEvidence answer;
  try {
    answer = read_ras(ask_ras(kRasLimit), earlier);
  } catch (const std::exception& e) {
    answer.why_not = e.what();
  }
  return answer;
}

}  // namespace busbar
