#pragma once

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/machine/hmac.h"
#include "common/machine/job_interface.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What processes without MPI say when they meet, before any of them trusts another. Each message is
//   "BBMEET01" kind length(4, big end first) payload
// with packed fields as its payload. A listener speaks first, so that a client knows what it has reached:
//   rank 0: welcome; a process: hello; rank 0, when all are there: answer, or why not
//   between two processes: link, of the one that connects

inline constexpr std::size_t kMaxHello = 256 * 1024;  ///< [bytes] of a payload
inline constexpr std::size_t kHelloHeader = 13;

enum class HelloKind : std::uint8_t { welcome, hello, answer, link };

/// What has arrived on a connection so far.
struct HelloInput {
  enum class State : std::uint8_t { incomplete, whole, bad };
  State state = State::incomplete;
  std::size_t expected = kHelloHeader;  ///< bytes of the message, as far as known; what follows is not part of it
  std::string_view payload = {};        ///< of a whole message; into what was received
};

/// Bad as soon as the first wrong byte is there, if it is of another kind, or if more follows.
HelloInput parse_hello(std::string_view received, HelloKind kind);

/// Throws Error(internal) if the payload exceeds kMaxHello.
std::string hello_bytes(HelloKind kind, std::string_view payload);

/// Which job it is, as the launcher names it.
struct MeetJob {
  std::string name;  ///< torchrun's run id, Slurm's job and step; empty: none
  int nprocs = 0;
  bool operator==(const MeetJob&) const = default;
};

struct Welcome {
  std::string version;
  MeetJob job;
  std::string started;  ///< rank 0's local time, for messages
  std::string nonce;
};

/// A process and where the others reach it.
struct JobMember {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string machine;  ///< this_machine()
  std::string ip;       ///< empty: it knows none that other hosts could reach
  std::uint16_t port = 0;
};

struct Hello {
  std::string version;
  MeetJob job;
  std::string arguments;
  JobMember member;
  std::string nonce;
  std::string proof;  ///< of the key, over both nonces and the rest
};

/// Rank 0's answer.
struct MeetAnswer {
  int code = 0;                      ///< the job's exit code, if it cannot begin
  std::string why;                   ///< empty: rank 0 has said it
  std::string token;                 ///< of this job; proves who links
  std::vector<JobMember> neighbors;  ///< in the circulant graph
  std::string proof;
};

struct LinkHello {
  int rank = 0;
  std::string proof;
};

BUSBAR_RECORD(MeetJob, name, nprocs);
BUSBAR_RECORD(Welcome, version, job, started, nonce);
BUSBAR_RECORD(JobMember, rank, pid, host, machine, ip, port);
BUSBAR_RECORD(Hello, version, job, arguments, member, nonce, proof);
BUSBAR_RECORD(MeetAnswer, code, why, token, neighbors, proof);
BUSBAR_RECORD(LinkHello, rank, proof);

/// nullopt for any other bytes.
template <class Message>
std::optional<Message> unpack_message(std::string_view payload) {
  try {
    return unpack_fields<Message>(payload);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// HMAC-SHA256 under `key` in hexadecimal, cut to 128 bits.
std::string meet_proof(std::string_view key, std::string_view text);
/// With the proof that this process knows the key; `nonce` is the welcome's.
template <class Message>
Message proven(Message message, std::string_view key, std::string_view nonce) {
  message.proof.clear();
  message.proof = meet_proof(key, fmt::format("{}\n{}", nonce, pack_fields(message)));
  return message;
}
template <class Message>
bool is_proven(const Message& message, std::string_view key, std::string_view nonce) {
  return equal_in_constant_time(message.proof, proven(message, key, nonce).proof);
}
/// The proof of the process `from` that it may link with `to`.
std::string link_proof(std::string_view token, int from, int to);

/// A listener on all addresses of this host, IPv6 and IPv4, with that port (0: any). Not open if it is taken; see
/// errno.
Socket listen_everywhere(std::uint16_t port);

/// Sends all of it within that time; whether that came about.
bool send_within(const Socket& socket, std::string_view bytes, std::chrono::milliseconds patience);

/// Reads what is there of one message, and nothing of what follows; `in` is what was read so far. Bad if it is closed.
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
