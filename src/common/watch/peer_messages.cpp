#include "common/watch/peer_messages.h"

#include "common/base/error.h"
#include "common/record/packed_fields.h"
#include "common/watch/evidence_fields.h"
#include "common/watch/peer_wire.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

namespace busbar {
namespace {

constexpr std::string_view kTitle = "busbar host evidence 3\n";  // and behind it the packed fields
constexpr std::size_t kMaxText = 1000;

[[noreturn]] void reject(std::string_view why) {
  throw Error(ExitCode::internal, fmt::format("a watcher's message cannot be read: {}", why));
}

/// Makes of every field what may be sent.
struct Tidier {
  template <class T>
  void operator()(const char*, T& field, auto...) const {
    tidy(field);
  }

  static void tidy(char& c) { c = static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c; }
  static void tidy(std::string& text) {
    if (text.size() > kMaxText) text.resize(kMaxText);
    for (char& c : text) tidy(c);
  }
  static void tidy(double& number) { number = std::isfinite(number) ? number : 0; }
  template <class T>
  static void tidy(std::optional<T>& value) {
    if (value) tidy(*value);
  }
  template <class T>
  static void tidy(std::vector<T>& list) {
    for (T& item : list) tidy(item);
  }
  template <class T>
  static void tidy(T& field) {
    if constexpr (std::is_class_v<T>) visit_fields(Tidier{}, field);
  }
};

HostEvidence tidied(HostEvidence host) {
  if (!std::isfinite(host.net_bytes_per_s)) host.net_bytes_per_s = -1;
  Tidier::tidy(host);
  return host;
}

std::string message_of(const HostEvidence& host) { return std::string(kTitle) + pack_fields(host); }

}  // namespace

std::string encode(const HostEvidence& host) {
  HostEvidence sent = tidied(host);
  std::string message = message_of(sent);
  if (message.size() <= kMaxReply) return message;
  for (RankEvidence& rank : sent.ranks) rank.flight.finished.clear();
  while ((message = message_of(sent)).size() > kMaxReply) {
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
  if (!message.starts_with(kTitle)) reject("its title is another");
  HostEvidence host = unpack_fields<HostEvidence>(message.substr(kTitle.size()));
  // What else could be read as the same (a text with control characters, a number that is none) encode() does not make.
  if (message_of(tidied(host)) != message) reject("its writer was another");
  return host;
}

}  // namespace busbar
