#include "common/watch/peer_server.h"

#include "common/base/error.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_connections.h"
#include "common/watch/peer_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 512;  // what waits while all connections are taken; the
                               // system may hold it lower

/// While it lives, threads are born with all signals blocked but those that a fault of their own raises, so that a
/// handler runs in the main thread and interrupts what that is doing.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigfillset(&set);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&set, fault);
    pthread_sigmask(SIG_SETMASK, &set, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ExitCode::not_possible, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Whether the MTU of the interface with that address is lower than now, when the job begins.
std::function<bool()> mtu_watch(const std::string& ip) {
  const std::string name = interface_of(ip);
  return [name, at_first = interface_mtu(name)] {
    const int mtu = interface_mtu(name);
    return mtu > 0 && mtu < at_first;
  };
}

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

struct PeerServer::Impl {
  explicit Impl(Hooks given) : hooks(std::move(given)) {}

  void run() noexcept;
  void serve();
  void tick_when_due() noexcept;
  void ring() noexcept;
  /// Takes over the socket that listen() opened.
  void adopt_listener();

  Hooks hooks;
  Socket bell;  ///< an eventfd: wake(), listen() and the destructor ring it
  std::atomic<bool> stopping = false;
  std::atomic<bool> woken = true;
  std::mutex mutex;
  std::optional<PeerConnections> opened;  ///< by listen(), until the thread takes it
  bool listened = false;
  std::optional<PeerConnections> connections;  ///< of the thread
  Clock::time_point next_tick = Clock::now();
  std::thread thread;
};

void PeerServer::Impl::run() noexcept {
  while (!stopping) {
    try {
      serve();
    } catch (...) {  // memory: whoever asks will ask again, but the ticks must go on
      tick_when_due();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

void PeerServer::Impl::serve() {
  while (!stopping) {
    tick_when_due();
    adopt_listener();
    std::vector<pollfd> events{{bell.fd(), POLLIN, 0}};
    Clock::time_point until = next_tick;
    if (connections) until = std::min(until, connections->add_events(events));
    poll(events.data(), events.size(), milliseconds_until(until));
    if ((events[0].revents & POLLIN) != 0) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t n = read(bell.fd(), &rings, sizeof rings);
    }
    if (connections) {
      connections->serve(std::span(events).subspan(1), hooks.handle, [this] { tick_when_due(); });
    }
  }
}

void PeerServer::Impl::tick_when_due() noexcept {
  const Clock::time_point now = Clock::now();
  if (stopping || (!woken.exchange(false) && now < next_tick)) return;
  next_tick = now + hooks.period;
  try {
    if (hooks.tick) hooks.tick();
  } catch (...) {  // nobody above could do anything about it
  }
}

void PeerServer::Impl::ring() noexcept {
  const int kept = errno;  // of what a signal handler interrupted
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(bell.fd(), &one, sizeof one);
  errno = kept;
}

void PeerServer::Impl::adopt_listener() {
  const std::lock_guard lock(mutex);
  if (!opened) return;
  connections.emplace(std::move(*opened));
  opened.reset();
}

PeerServer::PeerServer(Hooks hooks) : impl_(std::make_unique<Impl>(std::move(hooks))) {
  impl_->bell = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl_->bell.open()) fail("no event descriptor for the watcher");
  try {
    const SignalsBlocked blocked;
    impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
  } catch (const std::system_error& error) {
    throw Error(ExitCode::not_possible, fmt::format("no thread for the watcher: {}", error.what()));
  }
}

PeerServer::~PeerServer() {
  impl_->stopping = true;
  impl_->ring();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::uint16_t PeerServer::listen(const std::string& ip, const std::string& token) {
  if (token.size() != kTokenLength) throw Error(ExitCode::internal, "a watcher's token of another length");
  std::optional<SocketAddress> address = socket_address(ip, 0);
  if (!address) throw Error(ExitCode::internal, fmt::format("the watcher cannot listen on '{}': no IP address", ip));
  Socket listener = make_tcp_socket(address->family());
  if (!listener.open()) fail("no socket for the watcher");
  if (bind(listener.fd(), address->get(), address->length) != 0 || ::listen(listener.fd(), kBacklog) != 0 ||
      getsockname(listener.fd(), address->get(), &address->length) != 0) {
    fail(fmt::format("the watcher cannot listen on {}", ip));
  }
  const std::uint16_t port = port_of(*address);
  {
    const std::lock_guard lock(impl_->mutex);
    if (std::exchange(impl_->listened, true)) throw Error(ExitCode::internal, "the watcher listens already");
    impl_->opened.emplace(std::move(listener), token, mtu_watch(ip));
  }
  impl_->ring();
  return port;
}

void PeerServer::wake() noexcept {
  impl_->woken = true;
  impl_->ring();
}

}  // namespace busbar
