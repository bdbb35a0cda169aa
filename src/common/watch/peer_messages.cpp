#include "common/watch/peer_messages.h"

#include "common/base/error.h"
#include "common/watch/peer_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace busbar {
namespace {

// A message is lines: a title, then one line per value, in the order in which fields() below names them. Lists and
// optional values begin with their count.
constexpr std::string_view kTitle = "busbar host evidence 2";
constexpr std::size_t kMaxText = 1000;

[[noreturn]] void reject(std::string_view why) {
  throw Error(ExitCode::internal, fmt::format("a watcher's message cannot be read: {}", why));
}

constexpr Phase last_of(Phase) { return Phase::ended; }
constexpr Ending last_of(Ending) { return Ending::signalled; }
constexpr ProcessState::Life last_of(ProcessState::Life) { return ProcessState::Life::gone; }
constexpr Trouble::Kind last_of(Trouble::Kind) { return Trouble::Kind::notice; }
constexpr Silence last_of(Silence) { return Silence::unreadable; }
constexpr PeerProbe::Result last_of(PeerProbe::Result) { return PeerProbe::Result::large_lost; }

class Writer {
 public:
  explicit Writer(std::string_view title) { value(title); }

  template <typename... T>
  void operator()(const T&... values) {
    (value(values), ...);
  }
  std::string take() { return std::move(text_); }

 private:
  void value(std::string_view text) {
    for (const char c : text.substr(0, kMaxText)) text_ += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
    text_ += '\n';
  }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(char c) { value(std::string_view(&c, 1)); }
  void value(bool yes) { value(yes ? "1" : "0"); }
  void value(const char* text) { value(std::string_view(text)); }
  void value(double number) { value(fmt::format("{}", std::isfinite(number) ? number : 0.0)); }
  void value(std::integral auto number) { value(fmt::format("{}", number)); }
  template <typename E>
  requires std::is_enum_v<E>
  void value(E e) { value(static_cast<int>(e)); }
  template <typename T>
  void value(const std::optional<T>& maybe) {
    value(maybe.has_value());
    if (maybe) fields(*this, *maybe);
  }
  template <typename T>
  void value(const std::vector<T>& list) {
    value(list.size());
    for (const T& item : list) fields(*this, item);
  }

  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}

  template <typename... T>
  void operator()(T&... values) {
    (value(values), ...);
  }
  std::string_view line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) reject("it ends too early");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

 private:
  void value(std::string& text) { text = line(); }
  void value(char& c) {
    const std::string_view text = line();
    if (text.size() != 1) reject("one character was expected");
    c = text[0];
  }
  void value(bool& yes) { yes = number<int>(1) == 1; }
  void value(double& number) { number = parsed<double>(); }
  template <std::integral T>
  void value(T& number) {
    number = parsed<T>();
  }
  template <typename E>
  requires std::is_enum_v<E>
  void value(E& e) { e = static_cast<E>(number<int>(static_cast<int>(last_of(E{})))); }
  template <typename T>
  void value(std::optional<T>& maybe) {
    bool there = false;
    value(there);
    if (there) fields(*this, maybe.emplace());
  }
  template <typename T>
  void value(std::vector<T>& list) {
    // Item by item, not resized at once: the count comes from somebody else, and too high a one ends with the message.
    for (auto left = parsed<std::size_t>(); left > 0; --left) fields(*this, list.emplace_back());
  }

  template <typename T>
  T parsed() {
    const std::string_view text = line();
    T result{};
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (error != std::errc{} || at != text.data() + text.size()) reject("a number was expected");
    return result;
  }
  template <typename T>
  T number(T most) {
    const T result = parsed<T>();
    if (result < 0 || result > most) reject("a number is out of range");
    return result;
  }

  std::string_view rest_;
};

// What each struct consists of, for both directions. The bindings make a field that is added and forgotten here a
// compile error.

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, CalledOperation>
void fields(Io& io, T& call) {
  auto& [communicator, collective, count, dtype, op, root, nbytes, in_place] = call;
  io(communicator, collective, count, dtype, op, root, nbytes, in_place);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, FinishedStep>
void fields(Io& io, T& step) {
  auto& [phase, collective, nbytes, last_entered, begun_age_s, ended_age_s] = step;
  io(phase, collective, nbytes, last_entered, begun_age_s, ended_age_s);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, FlightState>
void fields(Io& io, T& flight) {
  auto& [jobid, host, rank, nprocs, pid, pid_start, command, started_unix_s, heartbeat_age_s, ending, phase, step, call,
         entered, step_first, step_calls, step_age_s, limit_s, idle_s, error, finished] = flight;
  io(jobid, host, rank, nprocs, pid, pid_start, command, started_unix_s, heartbeat_age_s, ending, phase, step, call,
     entered, step_first, step_calls, step_age_s, limit_s, idle_s, error, finished);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, ProcessState>
void fields(Io& io, T& process) {
  auto& [life, state, wchan] = process;
  io(life, state, wchan);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, RankEvidence>
void fields(Io& io, T& rank) {
  auto& [flight, process] = rank;
  fields(io, flight);
  fields(io, process);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, Trouble>
void fields(Io& io, T& trouble) {
  auto& [kind, text, slows, on_gpu] = trouble;
  io(kind, text, slows, on_gpu);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, PeerProbe>
void fields(Io& io, T& probe) {
  auto& [host, result, stalled] = probe;
  io(host, result, stalled);
}

template <typename Io, typename T>
requires std::same_as<std::remove_const_t<T>, HostEvidence>
void fields(Io& io, T& evidence) {
  auto& [host, reached, why_not, ranks, net_bytes_per_s, troubles, probes, mtu, silence] = evidence;
  io(host, reached, why_not, ranks, net_bytes_per_s, troubles, probes, mtu, silence);
}

std::string written(const HostEvidence& host) {
  Writer writer(kTitle);
  fields(writer, host);
  return writer.take();
}

}  // namespace

std::string encode(const HostEvidence& host) {
  HostEvidence sent = host;
  if (!std::isfinite(sent.net_bytes_per_s)) sent.net_bytes_per_s = -1;
  std::string message = written(sent);
  if (message.size() <= kMaxReply) return message;
  for (RankEvidence& rank : sent.ranks) rank.flight.finished.clear();
  while ((message = written(sent)).size() > kMaxReply) {
    if (sent.ranks.empty()) {
      sent.troubles.clear();
      sent.probes.clear();
    }
    sent.ranks.resize(sent.ranks.size() / 2);
  }
  return message;
}

HostEvidence decode_host(std::string_view message) {
  if (message.size() > kMaxReply) reject("it is too long");
  Reader reader(message);
  if (reader.line() != kTitle) reject("its title is another");
  HostEvidence host;
  fields(reader, host);
  // What else could be written for the same (a leading zero, a tail) was not made by encode().
  if (written(host) != message) reject("it has more than it should");
  return host;
}

}  // namespace busbar
