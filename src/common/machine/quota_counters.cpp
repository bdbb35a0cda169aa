#include "common/machine/quota_counters.h"

#include <charconv>
#include <sstream>
#include <string_view>

namespace busbar {
namespace {

/// "nr_throttled 12" of a cpu.stat (cgroup-v2.rst, sched-bwc.rst).
std::optional<std::uint64_t> throttled(const Probe& probe, const std::string& folder) {
  const auto text = probe.read(folder + "/cpu.stat");
  constexpr std::string_view kKey = "nr_throttled ";
  if (!text) return std::nullopt;
  const std::size_t at = text->find(kKey);
  std::uint64_t value = 0;
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = text->data() + at + kKey.size();
  if (std::from_chars(begin, text->data() + text->size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

bool lists_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

void read_quota_counters(const Probe& probe, std::vector<CounterReading>& readings) {
  std::istringstream lines(probe.read("/proc/self/cgroup").value_or(""));
  std::uint64_t sum = 0;
  bool found = false;
  // "id:controllers:path"; the unified hierarchy's line has no controllers (cgroups(7)).
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists_cpu(controllers)) continue;
    const std::string top = "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    // A group waits for those around it too; a container's own may be the top.
    for (std::string path = line.substr(second + 1); !path.empty(); path.resize(path.rfind('/'))) {
      if (path == "/") break;
      if (const auto times = throttled(probe, top + path)) {
        sum += *times;
        found = true;
      }
      if (path.find('/') == std::string::npos) break;
    }
    if (const auto times = throttled(probe, top)) {
      sum += *times;
      found = true;
    }
  }
  if (found) readings.push_back({"cpu/quota/nr_throttled", sum});
}

}  // namespace busbar
