#pragma once

#include "common/machine/job_interface.h"
#include "common/processes/sockets/hello.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A listener on all addresses of this host, IPv6 and IPv4, with that port (0: any). Not open if the port is taken; see
/// errno.
Socket listen_everywhere(std::uint16_t port);

/// Sends all of it within that time; whether that came about.
bool send_within(const Socket& socket, std::string_view bytes, std::chrono::milliseconds patience);

/// Reads what is there of one message, and nothing of what follows; `in` is what was read so far. Bad if the connection
/// is closed.
HelloInput read_hello(const Socket& socket, std::string& in, HelloKind kind);

/// Accepts connections and reads the first message of each. A stranger that says nothing, or something else, costs a
/// descriptor for five seconds and holds up nobody.
class Reception {
 public:
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::size_t kMost = 1024;  ///< connections that have said nothing yet; then the oldest goes

  struct Arrival {
    Socket socket;
    std::string payload;  ///< of a message of `kind`, not checked any further
  };

  /// `greeting`: sent to every connection at once; may be empty.
  Reception(Socket listener, HelloKind kind, std::string greeting)
      : listener_(std::move(listener)), kind_(kind), greeting_(std::move(greeting)) {}

  /// Those that have arrived; waits for the first for that long. Throws Error(not_possible) if the system has no
  /// descriptors left.
  std::vector<Arrival> wait(std::chrono::milliseconds patience);

  std::uint16_t port() const { return port_of(local_address(listener_.fd())); }

 private:
  struct Waiting {
    Socket socket;
    std::chrono::steady_clock::time_point until;
    std::string in = {};
  };
  void accept_all();
  bool read(Waiting& one, std::vector<Arrival>& arrived) const;

  Socket listener_;
  HelloKind kind_;
  std::string greeting_;
  std::vector<Waiting> waiting_;
};

}  // namespace busbar
