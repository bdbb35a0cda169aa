#include "driver/accept/platform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace busbar {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// "NVIDIA A100-SXM4-80GB" as nvidia, a100, sxm4, 80gb: GB200 is no B200.
std::set<std::string> words(std::string_view text) {
  std::set<std::string> found;
  std::string word;
  for (char c : lower(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      found.insert(word);
      word.clear();
    }
  }
  return found;
}

/// Without " x 8".
std::string device_name(const std::string& device) {
  const std::size_t at = device.rfind(" x ");
  return at == std::string::npos ? device : device.substr(0, at);
}

bool is_platform(const Platform& platform, const std::string& device) {
  const std::set<std::string> all = words(device);
  if (all.count(lower(platform.gpu)) == 0) return false;
  return std::none_of(platform.gpu_not.begin(), platform.gpu_not.end(),
                      [&](const std::string& word) { return all.count(lower(word)) != 0; });
}

bool same_word(const std::string& a, const std::string& b) { return lower(a) == lower(b); }

bool is_known(const std::string& algorithm) {
  return !algorithm.empty() && !same_word(algorithm, "default") && !same_word(algorithm, "unknown");
}

/// Whether the entry speaks of this cell, whatever algorithm ran.
bool speaks_of(const PlatformEntry& e, const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  const int nranks = e.nranks != 0 ? e.nranks : cell.nhosts * platform.gpus_per_node;
  return e.collective == cell.collective && cell.nbytes >= e.nbytes_min && cell.nbytes <= e.nbytes_max &&
         cell.nhosts >= e.nodes_min && cell.nhosts <= e.nodes_max && cell.nranks == nranks &&
         (cell.nhosts == 1 || e.network.empty() || e.network == network);
}

std::string why_nothing(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  return fmt::format("{} has no number for {} at {} bytes on {} node{} with {} ranks{}", platform.name, cell.collective,
                     cell.nbytes, cell.nhosts, cell.nhosts == 1 ? "" : "s", cell.nranks,
                     cell.nhosts == 1 ? "" : fmt::format(" over {}", network.empty() ? "an unknown network" : network));
}

/// What was measured says more than what a vendor still accepts.
bool says_more(const PlatformEntry* a, const PlatformEntry* b) {
  if (b == nullptr) return true;
  if (a->kind != b->kind) return a->kind == FigureKind::measured;
  return a->busbw > b->busbw;
}

}  // namespace

RecognisedPlatform recognise_platform(const std::vector<Platform>& platforms,
                                      const std::vector<AcceptResult::Host>& hosts) {
  std::set<std::string> names;
  for (const AcceptResult::Host& host : hosts) names.insert(device_name(host.device));
  if (names.empty()) return {nullptr, "no host is known"};
  if (names.size() > 1) return {nullptr, fmt::format("the hosts have different devices: {}", fmt::join(names, ", "))};
  const std::string& device = *names.begin();
  if (device == "host memory") return {nullptr, "host memory: no platform's numbers apply"};
  for (const Platform& platform : platforms) {
    if (is_platform(platform, device)) return {&platform, {}};
  }
  return {nullptr, fmt::format("no platform's table is about {}", device)};
}

Expected expected_busbw(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  const PlatformEntry* ran = nullptr;
  const PlatformEntry* any = nullptr;
  const PlatformEntry* other = nullptr;
  for (const PlatformEntry& e : platform.entries) {
    if (!speaks_of(e, platform, network, cell)) continue;
    const PlatformEntry*& best = e.algorithm.empty() ? any : same_word(e.algorithm, cell.algorithm) ? ran : other;
    if (says_more(&e, best)) best = &e;
  }
  const PlatformEntry* found = ran != nullptr ? ran : any;
  const auto expectation = [](const PlatformEntry& e) { return Expectation{e.busbw, e.kind, e.source}; };
  Expected expected;
  if (found != nullptr) {
    expected.expectation = expectation(*found);
  } else if (other == nullptr) {
    expected.reason = why_nothing(platform, network, cell);
  } else if (!is_known(cell.algorithm)) {
    expected.reason =
        fmt::format("the algorithm that ran is not known, and {}'s numbers are per algorithm", platform.name);
  } else {
    expected.reason = fmt::format("{}, with {}", why_nothing(platform, network, cell), cell.algorithm);
  }
  if (found != nullptr && other != nullptr && is_known(cell.algorithm) && other->kind == FigureKind::measured &&
      other->busbw > found->busbw) {
    expected.better = expectation(*other);
    expected.better_algorithm = other->algorithm;
  }
  return expected;
}

Ceiling ceiling_busbw(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  if (!is_known(cell.algorithm)) return {0, {}, "the algorithm that ran is not known, and ceilings are per algorithm"};
  const bool inside = cell.nhosts == 1;
  for (const PlatformCeiling& c : platform.ceilings) {
    const bool here = inside ? c.network.empty() : !c.network.empty() && c.network == network;
    if (here && same_word(c.algorithm, cell.algorithm) && (c.collective.empty() || c.collective == cell.collective)) {
      return {c.busbw, c.source, {}};
    }
  }
  return {
      0,
      {},
      fmt::format("{} has no ceiling for {} with {} {}", platform.name, cell.collective, cell.algorithm,
                  inside ? "inside a node" : fmt::format("over {}", network.empty() ? "an unknown network" : network))};
}

}  // namespace busbar
