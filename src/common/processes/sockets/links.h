#pragma once

#include "common/base/error.h"
#include "common/machine/job_interface.h"
#include "common/processes/sockets/hello.h"

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace busbar {

/// What a frame between two processes carries. Both sides name it: processes that take different ways are found.
enum class FrameKind : std::uint8_t { barrier, broadcast, reduce, gather, exchange, number, end, bye };

/// As it is sent.
struct FrameHead {
  std::uint32_t group = 0;
  FrameKind kind = FrameKind::barrier;
  std::uint8_t none = 0;
  std::int16_t core = -1;    ///< which sends it
  std::uint64_t length = 0;  ///< [bytes] that follow
};

/// How the job ends before its time.
struct JobEnd {
  ExitCode code = ExitCode::internal;
  int rank = -1;        ///< whose end it is
  bool silent = false;  ///< it has said nothing: its connections closed, and a watcher must find out why
};

/// The TCP connections of this process to others of its job: one to each process at a distance of 1, 2, 4, ..., on
/// either side, and what sub-groups need besides. The lower rank of a pair connects. The connections over which rank 0
/// was met remain, for the end. The main thread alone sends and receives; a thread of its own waits for the end of a
/// peer, which it passes on at once.
class Links {
 public:
  /// Called once, from any thread, when the job ends before its time.
  using OnEnd = std::function<void(const JobEnd&)>;

  static constexpr std::size_t kMostQueued = std::size_t{64} << 20;  ///< [bytes] of one peer that nobody has asked for
  static constexpr std::size_t kMostOfFrame = std::size_t{1} << 30;

  /// `met`: connections that exist, by rank.
  Links(int rank, Reception reception, std::string token, std::map<int, Socket> met, OnEnd on_end);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  ~Links();

  int rank() const { return rank_; }
  void add_members(const std::vector<JobMember>& members);
  const JobMember& member(int rank) const { return members_.at(rank); }
  /// Receives spin for a moment before they block: there are cores enough.
  void let_spin(bool spins) { spins_ = spins; }

  /// Connects to the processes to which there is no connection yet. Each of them must call it with this one.
  void require(std::span<const int> ranks);

  void send(int to, FrameHead head, std::string_view payload);
  /// The payload of the next frame of that group and kind.
  std::string receive(int from, std::uint32_t group, FrameKind kind);

  /// The number of the next group; all that are to be members agree on one that is new to each.
  std::uint32_t next_group() const { return next_group_; }
  void take_group(std::uint32_t number) { next_group_ = number + 1; }

  /// Says good-bye to all and waits a moment for theirs: connections that close afterwards are no failure.
  void finish();
  /// Ends the job with that code: passes it on, and leaves.
  [[noreturn]] void end_job(ExitCode code);
  /// Whether another process has gone, so that a failure here may be its consequence.
  bool has_ended() const { return ended_; }

 private:
  struct Frame {
    FrameHead head;
    std::string payload;
  };
  struct Peer {
    Socket socket;
    std::string in;           ///< bytes that are no whole frame yet
    std::deque<Frame> queue;  ///< not asked for yet
    std::size_t queued = 0;   ///< [bytes] in it
    int core = -1;            ///< on which it last sent
    bool in_frame = false;    ///< a frame has been sent in part
    bool bye = false;         ///< it has said good-bye
    bool closed = false;
  };

  [[noreturn]] void fail(int peer, const std::string& what);
  void adopt(std::map<int, Peer>& peers, int rank, Socket socket);
  void connect_to(int rank);
  void accept_some();
  void pump(int rank, Peer& peer);
  void take_frames(int rank, Peer& peer);
  std::optional<std::string> take(int from, Peer& peer, std::uint32_t group, FrameKind kind);
  void wait_and_read(int to_send_to, int timeout_ms);
  void note_end(const JobEnd& end);
  void announce();
  void leave_if_ended();
  void guard();
  void ring() const;

  int rank_;
  Reception reception_;
  std::string token_;
  OnEnd on_end_;
  std::map<int, JobMember> members_;
  std::uint32_t next_group_ = 0;
  bool spins_ = false;

  std::mutex mutex_;  ///< over peers_, aside_, end_ and chunk_
  std::map<int, Peer> peers_;
  std::map<int, Peer> aside_;  ///< connections that only the guard watches, until they are required
  std::optional<JobEnd> end_;
  std::vector<char> chunk_ = std::vector<char>(64 * 1024);  ///< what a read puts its bytes into
  std::atomic<bool> ended_{false};
  std::atomic<bool> announced_{false};
  std::atomic<bool> stopping_{false};
  Socket bell_;  ///< an eventfd: peers_ has changed
  std::thread guard_;
};

}  // namespace busbar
