#include "common/watch/judge_scene.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace busbar {
namespace {

using HostsByMtu = std::map<int, std::vector<std::string>>;

HostsByMtu hosts_by_mtu(const Scene& scene) {
  HostsByMtu hosts;
  for (const HostEvidence* host : scene.reached) {
    if (host->mtu > 0) hosts[host->mtu].push_back(host->host);
  }
  return hosts;
}

/// The MTU that more than half of the hosts have; 0 where none is.
int usual_mtu(const HostsByMtu& hosts) {
  std::size_t total = 0;
  for (const auto& [mtu, names] : hosts) total += names.size();
  for (const auto& [mtu, names] : hosts) {
    if (2 * names.size() > total) return mtu;
  }
  return 0;
}

std::string few_hosts(const std::vector<std::string>& names) {
  constexpr std::size_t kFew = 3;
  if (names.size() <= kFew) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} hosts ({}, ...)", names.size(), names.front());
}

}  // namespace

std::set<std::string> hosts_of_unlike_mtu(const Scene& scene) {
  const HostsByMtu hosts = hosts_by_mtu(scene);
  const int usual = usual_mtu(hosts);
  std::set<std::string> unlike;
  for (const auto& [mtu, names] : hosts) {
    if (usual > 0 && mtu != usual) unlike.insert(names.begin(), names.end());
  }
  return unlike;
}

std::string mtu_words(const Scene& scene) {
  const HostsByMtu hosts = hosts_by_mtu(scene);
  if (hosts.size() < 2) return {};
  std::vector<std::string> parts;
  for (const auto& [mtu, names] : hosts) parts.push_back(fmt::format("{} bytes on {}", mtu, few_hosts(names)));
  return fmt::format("the MTU is {}", fmt::join(parts, ", "));
}

}  // namespace busbar
