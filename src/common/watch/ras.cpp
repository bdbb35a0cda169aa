#include "common/watch/ras.h"

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/machine/answer_within.h"
#include "common/machine/mapped_nccl.h"
#include "common/watch/peer_address.h"
#include "common/watch/ras_answer.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

/// For 64k ranks, RAS's JSON has about 30 MB; a stranger on the port must not fill our memory.
constexpr std::size_t kMostBytes = 64 << 20;

/// The early question must be short. At the second one the job is over anyway, and NCCL may take the time that we allow
/// and 5 s more (ras_internal.h, RAS_COLLECTIVE_EXTRA_TIMEOUT).
constexpr std::chrono::milliseconds kEarlyLimit{3000};
constexpr std::chrono::milliseconds kLastLimit{8000};
constexpr int kRasExtraSeconds = 5;

/// All processes of a host listen on one port (SO_REUSEPORT), and the kernel may choose a stopped one: it accepts and
/// does not answer. Another try comes from another port of ours, so that the kernel may choose another process.
constexpr std::chrono::milliseconds kGreetingLimit{700};

struct NoAnswer : Error {
  NoAnswer() : Error(ExitCode::not_possible, "NCCL's RAS service: no answer in time") {}
};

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

/// A resolver that hangs must not hang the watchdog: it stays in its detached thread.
ServiceAddresses look_up_name(const HostPort& at, Clock::time_point end) {
  const std::chrono::duration<double> left = end - Clock::now();
  return answer_within(left.count(), [at] { return look_up(at, 0); }).value_or(nullptr);
}

class Connection {
 public:
  Connection(const HostPort& at, Clock::time_point end) : end_(end) {
    ServiceAddresses list = look_up(at, AI_NUMERICHOST);
    if (list == nullptr) list = look_up_name(at, end);
    if (list == nullptr) fail("the address cannot be found");
    std::string why;
    for (const addrinfo* a = list.get(); a != nullptr && !socket_.open(); a = a->ai_next) why = open(*a);
    if (!socket_.open()) fail(why);
  }

  void wait_until(Clock::time_point end) { end_ = end; }

  /// If the other side is gone, line() and rest() report it.
  void send(std::string_view text) {
    limit_wait(SO_SNDTIMEO);
    if (TEMP_FAILURE_RETRY(::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL)) >= 0) return;
    if (errno == EAGAIN) fail("it takes no request");
    if (errno != EPIPE && errno != ECONNRESET) fail(std::strerror(errno));
  }

  /// The next line; nullopt if the other side has closed.
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
    throw_not_possible(fmt::format("NCCL's RAS service: {}", why));
  }

 private:
  /// Connects within the deadline; else returns why not.
  std::string open(const addrinfo& a) {
    socket_ = Socket(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket_.open()) return std::strerror(errno);
    limit_wait(SO_SNDTIMEO);
    const int error = connect(socket_.fd(), a.ai_addr, a.ai_addrlen) == 0 ? 0 : errno;
    if (error == 0) return {};
    socket_ = Socket();
    return error == ECONNREFUSED ? "no process listens (no NCCL job runs here, or NCCL_RAS_ENABLE=0)"
                                 : std::strerror(error == EINPROGRESS ? ETIMEDOUT : error);
  }

  /// `option`: of what follows on the socket, to wait until the end at most.
  void limit_wait(int option) const {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end_ - Clock::now()).count();
    if (left <= 0) throw NoAnswer();
    const timeval limit{left / 1'000'000, left % 1'000'000};
    (void)setsockopt(socket_.fd(), SOL_SOCKET, option, &limit, sizeof limit);
  }

  /// False at the end of the stream.
  bool receive() {
    char piece[65536];
    limit_wait(SO_RCVTIMEO);
    const ssize_t n = TEMP_FAILURE_RETRY(recv(socket_.fd(), piece, sizeof piece, 0));
    if (n < 0 && errno == EAGAIN) throw NoAnswer();
    if (n < 0 && errno != ECONNRESET) fail(std::strerror(errno));
    if (n <= 0) return false;
    if (got_.size() + static_cast<std::size_t>(n) > kMostBytes) fail("its answer does not end");
    got_.append(piece, static_cast<std::size_t>(n));
    return true;
  }

  Clock::time_point end_;
  Socket socket_;
  std::string got_;
};

/// How long RAS itself may gather, in whole seconds: it should answer before we give up, and 0 would mean for ever.
long ras_seconds(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(end - Clock::now()).count();
  return std::clamp<long>(static_cast<long>(left) - kRasExtraSeconds, 1, 5);
}

/// One exchange.
std::string exchange(const HostPort& at, Clock::time_point end, RasFormat format) {
  const auto answered = [](std::optional<std::string> line) {
    if (!line) Connection::fail("it closed the connection without an answer");
    return std::move(*line);
  };
  Connection ras(at, std::min(end, Clock::now() + kGreetingLimit));
  ras.send("CLIENT PROTOCOL 2\n");
  const std::string greeting = answered(ras.line());
  ras.wait_until(end);
  if (!greeting.starts_with("SERVER PROTOCOL")) Connection::fail("the process that listens there is not RAS");
  ras.send(fmt::format("TIMEOUT {}\n", ras_seconds(end)));
  (void)answered(ras.line());
  if (format == RasFormat::json) {
    ras.send("SET FORMAT json\n");
    if (!answered(ras.line()).starts_with("OK"))
      Connection::fail("not asked: an NCCL before 2.28.7 answers there; it has no JSON, and its text can crash a job");
  }
  ras.send("VERBOSE STATUS\n");
  std::string answer = ras.rest();
  if (answer.empty()) Connection::fail("it closed the connection without an answer");
  return answer;
}

constexpr std::size_t kMostRasLines = 60;
constexpr std::size_t kLongestLine = 300;

RasAnswer parse(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? parse_ras_json(text) : parse_ras_text(text);
}

/// Makes any input fit for a terminal.
std::string plain(std::string_view text) {
  std::string result(text.substr(0, kLongestLine));
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) c = '?';
  }
  return result;
}

/// RAS lists a group's ranks if they are few. If one group is not listed, it has the rest, except the missing ones.
/// `room`: how many ranks still fit, over all communicators of an answer, which may contain any number.
void fill_in_the_rest(RasAnswer::Counts& counts, const RasAnswer::Communicator& c, std::int64_t& room) {
  RasAnswer::Group* unlisted = nullptr;
  std::vector<int> others = c.missing;
  for (RasAnswer::Group& group : counts.groups) {
    if (!group.ranks.empty()) {
      others.insert(others.end(), group.ranks.begin(), group.ranks.end());
      continue;
    }
    if (unlisted != nullptr) return;
    unlisted = &group;
  }
  if (unlisted == nullptr) return;
  const std::int64_t all = static_cast<std::int64_t>(others.size()) + unlisted->size;
  if ((c.size >= 0 && all != c.size) || all > INT_MAX || unlisted->size > room) return;
  std::ranges::sort(others);
  const RankList rest = missing_ranks(others, static_cast<int>(all));
  // Else the numbers do not fit together: no names are better than wrong ones.
  if (rest.size() != static_cast<std::uint64_t>(unlisted->size)) return;
  room -= unlisted->size;
  unlisted->ranks = rest.each();
}

std::string who(const RasAnswer::Group& group) {
  if (group.ranks.empty() || group.ranks.size() > 64) return counted(group.size, "rank");
  return fmt::format("rank{} {}", group.ranks.size() == 1 ? "" : "s", compress_ranks(group.ranks));
}

const RasAnswer::Communicator* same_communicator(const RasAnswer& answer, const std::string& id) {
  const auto found = std::ranges::find(answer.communicators, id, &RasAnswer::Communicator::id);
  return found != answer.communicators.end() ? &*found : nullptr;
}

class Evidence {
 public:
  Evidence(RasAnswer answer, RasAnswer earlier) : answer_(std::move(answer)), earlier_(std::move(earlier)) {}

  RasEvidence evidence() && {
    evidence_.answered = true;
    evidence_.nccl_version = nccl_version_number(answer_.version);
    for (const RasAnswer::Process& p : answer_.dead) {
      evidence_.dead_pids.push_back(p.pid);
      evidence_.lost_hosts.push_back(p.host);
      say("{} is dead: RAS has no connection to it", described(p));
    }
    for (const RasAnswer::Process& p : answer_.silent) {
      if (is_dead(p)) continue;
      evidence_.silent_pids.push_back(p.pid);
      evidence_.lost_hosts.push_back(p.host);
      say("{} gave RAS no data (stopped, or gone for less than a minute)", described(p));
    }
    for (RasAnswer::Communicator& c : answer_.communicators) notice(c);
    report_doubts();
    if (answer_.timeouts > 0) say("{} inside RAS while it gathered data", counted(answer_.timeouts, "timeout"));
    report_movement();
    if (evidence_.lines.empty() && evidence_.doubts.empty())
      say("NCCL {}: {}, no rank missing, none behind", answer_.version, counted(communicators(), "communicator"));
    // Do not repeat what is reported in detail above.
    for (const std::string& doubt : evidence_.lines.empty() ? evidence_.doubts : std::vector<std::string>{})
      say("{}", doubt);
    unique(evidence_.lagging_ranks);
    unique(evidence_.lagging_pids);
    unique(evidence_.dead_pids);
    return std::move(evidence_);
  }

 private:
  enum class Seen { once, twice, changed };

  template <typename... T>
  void say(fmt::format_string<T...> text, T&&... values) {
    if (evidence_.lines.size() < kMostRasLines)
      evidence_.lines.push_back(plain(fmt::format(text, std::forward<T>(values)...)));
  }

  static std::string described(const RasAnswer::Process& p) {
    return fmt::format("process {} on {}{}", p.pid, p.host, p.gpus.empty() ? "" : fmt::format(" (GPU {})", p.gpus));
  }

  bool is_dead(const RasAnswer::Process& p) const {
    return std::ranges::any_of(answer_.dead,
                               [&](const RasAnswer::Process& d) { return d.pid == p.pid && d.host == p.host; });
  }

  void notice(RasAnswer::Communicator& c) {
    if (!c.missing.empty()) {
      std::ranges::sort(c.missing);
      if (c.size >= largest_with_missing_) {
        largest_with_missing_ = c.size;
        evidence_.missing_ranks = c.missing;
      }
      say("communicator {}: rank{} {} missing", c.id, c.missing.size() == 1 ? "" : "s", compress_ranks(c.missing));
    }
    const RasAnswer::Communicator* before = same_communicator(earlier_, c.id);
    for (RasAnswer::Counts& counts : c.counts) {
      const bool same = before != nullptr && std::ranges::find(before->counts, counts) != before->counts.end();
      fill_in_the_rest(counts, c, room_);
      report_counts(c, counts, same ? Seen::twice : before != nullptr ? Seen::changed : Seen::once);
    }
    for (const std::string& note : c.notes) say("communicator {}: {}", c.id, note);
  }

  std::int64_t communicators() const {
    std::int64_t all = 0;
    for (const auto& [group, kind] : answer_.kinds) all += kind.communicators;
    return all > 0 ? all : static_cast<std::int64_t>(answer_.communicators.size());
  }

  template <typename... T>
  void doubt(fmt::format_string<T...> text, T&&... values) {
    evidence_.doubts.push_back(plain(fmt::format(text, std::forward<T>(values)...)));
  }

  /// RAS groups communicators by complaint, so the table has everything; excerpts have no table.
  void report_doubts() {
    bool running = true;
    for (const auto& [group, kind] : answer_.kinds) {
      running = running && kind.status == "RUNNING";
      if (kind.nodes == 0 && kind.communicators > 0) {
        doubt("{} of {} on no node, which is impossible", counted(kind.communicators, "communicator"),
              counted(kind.size, "rank"));
      } else if (kind.errors != "OK") {
        doubt("{} in {} of {}", kind.errors, counted(kind.communicators, "communicator"), counted(kind.size, "rank"));
      } else if (kind.status == "ABORT" || kind.status == "NOCOMM") {
        doubt("{} of {}: {}", counted(kind.communicators, "communicator"), counted(kind.size, "rank"), kind.status);
      }
    }
    for (const RasAnswer::Communicator& c : answer_.communicators) {
      if (c.garbage) {
        doubt("communicator {}: what RAS reports about its ranks is impossible (a rank beyond its size, or no node)",
              c.id);
      } else if (!c.complaint.empty() && answer_.kinds.empty()) {
        doubt("communicator {}: {}", c.id, c.complaint);
      } else if (answer_.kinds.empty() && !(c.missing.empty() && c.counts.empty() && c.notes.empty())) {
        doubt("communicator {}: {}", c.id,
              !c.missing.empty()  ? "ranks are missing"
              : !c.counts.empty() ? "ranks launched different numbers of operations"
                                  : c.notes.front());
      }
    }
    for (const std::string& event : answer_.events) doubt("{}", event);
    constexpr std::size_t kMostDoubts = 8;
    if (evidence_.doubts.size() > kMostDoubts) evidence_.doubts.resize(kMostDoubts);
    evidence_.well = running && evidence_.doubts.empty() && evidence_.lost_hosts.empty() && communicators() > 0;
  }

  void report_counts(const RasAnswer::Communicator& c, RasAnswer::Counts& counts, Seen seen) {
    auto& groups = counts.groups;
    if (groups.size() < 2) return;
    std::ranges::sort(groups, {}, &RasAnswer::Group::launched);
    const std::string op = counts.op.empty() ? "operation" : counts.op;
    std::string text = fmt::format("communicator {}:", c.id);
    for (const RasAnswer::Group& group : groups) {
      text += fmt::format(" {} launched {} {},", who(group), op, group.launched);
      if (seen == Seen::twice && group.launched < groups.back().launched) {
        evidence_.lagging_ranks.insert(evidence_.lagging_ranks.end(), group.ranks.begin(), group.ranks.end());
        for (const int rank : group.ranks)
          if (const auto pid = c.pids.find(rank); pid != c.pids.end()) evidence_.lagging_pids.push_back(pid->second);
      }
    }
    text.pop_back();
    say("{}{}", text,
        seen == Seen::twice     ? "; the same in both answers"
        : seen == Seen::changed ? "; different in the answer before, so it moves"
                                : "; one answer only, so it may be temporary");
  }

  void report_movement() {
    if (answer_.launched < 0 || earlier_.launched < 0) return;
    const std::int64_t more = answer_.launched - earlier_.launched;
    if (more == 0) {
      say("no rank launched anything between the two answers");
    } else {
      say("{} launched between the two answers", counted(more, "operation"));
    }
  }

  template <typename T>
  static void unique(std::vector<T>& values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  RasAnswer answer_;
  RasAnswer earlier_;
  RasEvidence evidence_;
  std::int64_t largest_with_missing_ = -1;
  std::int64_t room_ = 1 << 20;
};

}  // namespace

std::string ask_ras(std::chrono::milliseconds limit, RasFormat format) {
  const Clock::time_point end = Clock::now() + limit;
  const HostPort at = ras_address();
  // The kernel chooses the process; try until one answers.
  while (Clock::now() + kGreetingLimit < end) {
    try {
      return exchange(at, end, format);
    } catch (const NoAnswer&) {
      if (Clock::now() >= end) throw;
    }
  }
  return exchange(at, end, format);
}

void RasObserver::observe_early(RasFormat format) {
  const std::lock_guard lock(mutex_);
  if (earlier_.valid()) earlier_.wait();
  earlier_ = std::async(std::launch::async, [format]() -> std::string {
    try {
      return ask_ras(kEarlyLimit, format);
    } catch (const std::exception&) {
      return {};  // asked again at expiry, which reports the reason
    }
  });
}

RasEvidence RasObserver::look_again(RasFormat format) {
  std::string earlier;
  {
    const std::lock_guard lock(mutex_);
    if (earlier_.valid()) earlier = earlier_.get();
  }
  RasEvidence answer;
  try {
    answer = read_ras(ask_ras(kLastLimit, format), earlier);
  } catch (const std::exception& e) {
    answer.why_not = e.what();
  }
  return answer;
}

RasEvidence read_ras(std::string_view text, std::string_view earlier) {
  RasAnswer answer = parse(text);
  if (!answer.known) {
    RasEvidence evidence;
    evidence.why_not = text.empty() ? "no answer" : "an answer that is not RAS's";
    return evidence;
  }
  return Evidence(std::move(answer), parse(earlier)).evidence();
}

}  // namespace busbar
