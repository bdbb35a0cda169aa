#pragma once

#include "common/watch/evidence.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// How watchers talk to each other while the main threads may be stuck in MPI: TCP, one request and one reply per
// connection, bounded, with the job's token.

/// Where a process's watcher listens.
struct PeerAddress {
  int rank = 0;
  std::string host;
  std::string ip;  ///< IPv4 or IPv6, no names: a resolver can hang
  std::uint16_t port = 0;
};

inline constexpr std::size_t kMaxRequest = 64 * 1024;
inline constexpr std::size_t kMaxReply = 4 * 1024 * 1024;

/// The address on which other hosts of this job reach this one: of the interface that the launcher or the user names
/// (OMPI_MCA_btl_tcp_if_include, OMPI_MCA_oob_tcp_if_include, NCCL_SOCKET_IFNAME, a CIDR too), else of the one that the
/// route to the launcher's daemon takes, else the first that is up and not a bridge for containers. 127.0.0.1 where
/// `one_host`. Throws Error with the choices where a named interface does not exist.
std::string job_interface_address(bool one_host, const std::function<const char*(const char*)>& get);

/// 128 random bits in hexadecimal.
std::string make_token();

/// Listens on `ip` from construction to destruction, in one thread of its own that also ticks. Requests with a wrong
/// token, too long ones and slow ones are dropped. Never throws once it runs.
class PeerServer {
 public:
  /// `handle` and `tick` run in the server's thread; a long answer belongs into a thread of the handler's own.
  struct Hooks {
    std::function<std::string(std::string_view request)> handle;
    std::function<void()> tick;
    std::chrono::milliseconds period{500};
  };
  explicit PeerServer(Hooks hooks);  ///< ticks from now on; listens after listen()
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  ~PeerServer();

  /// Opens the socket; returns its port. Throws Error.
  std::uint16_t listen(const std::string& ip, const std::string& token);

  /// Ticks at once.
  void wake() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct PeerReply {
  PeerProbe::Result result = PeerProbe::Result::timed_out;
  std::string text;
};

/// Asks all at once and waits until all answered or `limit` is over; replies in the order of `peers`. Any thread.
/// `meanwhile`, where given, is called at least every 500 ms.
std::vector<PeerReply> ask_peers(std::span<const PeerAddress> peers, const std::string& token, std::string_view request,
                                 std::chrono::milliseconds limit, const std::function<void()>& meanwhile = {});

/// How this host reaches each of them: connects, sends 32 KiB and wants them back. Any thread.
std::vector<PeerProbe> probe_peers(std::span<const PeerAddress> peers, const std::string& token,
                                   std::chrono::milliseconds limit);

/// A host's evidence as one message and back; decoding throws Error on anything else than what encoding made.
std::string encode(const HostEvidence& host);
HostEvidence decode_host(std::string_view message);

}  // namespace busbar
