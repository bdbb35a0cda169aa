#include "common/machine/caches.h"

#include "common/machine/cgroup.h"
#include "common/machine/cores.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace busbar {

std::vector<CpuCache> data_caches(const std::filesystem::path& root) {
  std::vector<CpuCache> caches;
  const std::filesystem::path all = root / "sys/devices/system/cpu/cpu0/cache";
  for (int index = 0;; ++index) {
    const std::filesystem::path folder = all / ("index" + std::to_string(index));
    const std::optional<long long> level = read_number(folder / "level");
    if (!level) return caches;
    // "2048K"; the kernel has no other unit.
    const std::string size = read_trimmed(folder / "size").value_or("");
    std::size_t kib = 0;
    const auto [end, failure] = std::from_chars(size.data(), size.data() + size.size(), kib);
    if (failure != std::errc{} || std::string_view(end) != "K" || read_trimmed(folder / "type") == "Instruction")
      continue;
    const std::set<int> cpus = parse_cpu_list(read_trimmed(folder / "shared_cpu_list").value_or(""));
    caches.push_back({static_cast<int>(*level), kib << 10, std::max(1, static_cast<int>(cpus.size()))});
  }
}

}  // namespace busbar
