#include "common/base/compress_list.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/resources.h"
#include "common/processes/launcher.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace busbar {
namespace {

constexpr const char* kRankGpus = "rank.gpu";

Launch launch_of(const Probe& probe) {
  return detect_launch([&](const char* name) -> const char* {
    const auto found = probe.environment.find(name);
    return found == probe.environment.end() ? nullptr : found->second.c_str();
  });
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The ranks by what a check found on them.
std::map<std::string, std::vector<int>> ranks_by_value(const std::vector<NodeReport>& parts, std::string_view check) {
  std::map<std::string, std::vector<int>> ranks;
  for (const NodeReport& part : parts) {
    for (const DoctorRow& row : part.rows) {
      if (row.check == check) ranks[row.value].insert(ranks[row.value].end(), part.ranks.begin(), part.ranks.end());
    }
  }
  return ranks;
}

std::size_t count_ranks(const std::vector<NodeReport>& parts) {
  std::size_t count = 0;
  for (const NodeReport& part : parts) count += part.ranks.size();
  return count;
}

constexpr const char* kOwnCpus = "rank.cpus";

/// The GPU of this rank as launchers and frameworks hand them out: by local rank, unless CUDA_VISIBLE_DEVICES leaves
/// one. Nothing if that is not known.
std::optional<PciFunction> own_gpu(const Probe& probe) {
  const std::vector<PciFunction> gpus = gpu_functions(probe);
  const Launch launch = launch_of(probe);
  if (launch.local_rank < 0) return std::nullopt;
  auto index = static_cast<std::size_t>(launch.local_rank);
  const auto visible = probe.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != probe.environment.end()) {
    // Only one plain number is beyond doubt: lists and names of MIG slices are not.
    if (!is_number(visible->second)) return std::nullopt;
    index = std::strtoul(visible->second.c_str(), nullptr, 10);
  }
  if (index >= gpus.size()) return std::nullopt;
  return gpus[index];
}

}  // namespace

std::vector<std::string> visible_gpus(const std::string& value, std::size_t ngpus) {
  std::vector<std::string> seen;
  for (const std::string_view part : split_text(value, ',')) {
    std::string one(part);
    one.erase(0, one.find_first_not_of(' '));
    one.erase(one.find_last_not_of(' ') + 1);
    const bool number = is_number(one) && one.size() < 5 && std::strtoul(one.c_str(), nullptr, 10) < ngpus;
    const bool uuid = one.starts_with("GPU-") || one.starts_with("MIG-");
    if (!number && !uuid) break;
    seen.push_back(one);
  }
  return seen;
}

void check_own_gpu(const Probe& probe, Rows& rows) {
  const std::size_t ngpus = gpu_functions(probe).size();
  const Launch launch = launch_of(probe);
  if (ngpus == 0 || launch.local_rank < 0) return;
  std::vector<std::string> seen;
  const auto set = probe.environment.find("CUDA_VISIBLE_DEVICES");
  if (set != probe.environment.end()) {
    seen = visible_gpus(set->second, ngpus);
  } else {
    for (std::size_t i = 0; i < ngpus; ++i) seen.push_back(fmt::format("{}", i));
  }
  const CheckRows check(rows, kRankGpus);
  if (seen.empty()) return check.warn("none", "gpus-hidden");
  // A launcher that shows each rank one GPU has chosen; else ranks take them in turn.
  const auto local = static_cast<std::size_t>(launch.local_rank);
  const std::string& mine = seen[seen.size() == 1 ? 0 : local % seen.size()];
  const bool numbers = std::ranges::all_of(seen, is_number);
  const bool ordered = std::ranges::is_sorted(seen, [](const std::string& a, const std::string& b) {
    return std::strtoul(a.c_str(), nullptr, 10) < std::strtoul(b.c_str(), nullptr, 10);
  });
  if (!numbers || ordered) return check.ok("GPU " + mine);
  check.warn("GPU " + mine, "gpus-unordered", set->second);
}

void check_shared_gpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows) {
  auto ranks_on = ranks_by_value(parts, kRankGpus);
  ranks_on.erase("none");
  const std::size_t nranks = count_ranks(parts);
  const std::size_t ngpus = gpu_functions(probe).size();
  for (const auto& [gpu, ranks] : ranks_on) {
    if (ranks.size() < 2) continue;
    // If there are enough GPUs for all ranks it is an oversight.
    const bool enough = nranks <= ngpus;
    const CheckRows check(rows, "rank.shared_gpu");
    if (enough) check.fail(gpu, "ranks-on-one-gpu");
    if (!enough) check.warn(fmt::format("{} ranks for {} GPUs", nranks, ngpus), "too-few-gpus");
    rows.back().ranks = ranks;
    if (!enough) return;
  }
}

void check_own_cpus(const Probe& probe, Rows& rows) {
  const std::string value = compress_ranks(probe.cpus);
  const CheckRows check(rows, kOwnCpus);
  if (probe.cpus.empty()) return check.skip("/proc/self/status does not say");
  const std::optional<PciFunction> gpu = own_gpu(probe);
  const std::set<int> local = gpu ? parse_cpu_list(gpu->local_cpus) : std::set<int>();
  const bool near = std::ranges::any_of(probe.cpus, [&](int cpu) { return local.contains(cpu); });
  check.warn_unless(!gpu || local.empty() || near, value, "rank-far-from-gpu");
}

void check_shared_cpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows) {
  const CheckRows check(rows, "rank.shared_cpus");
  const auto nranks = static_cast<int>(count_ranks(parts));
  const int cpus = online_cpus(probe);
  for (const auto& [cpu, ranks] : ranks_by_value(parts, kOwnCpus)) {
    if (ranks.size() < 2 || cpus == 1 || !is_number(cpu)) continue;  // a rank that may run elsewhere has several
    check.fail(fmt::format("CPU {}", cpu), "ranks-on-one-cpu");
    rows.back().ranks = ranks;
    return;
  }
  check.warn_unless(nranks <= cpus, fmt::format("{} ranks on {} CPUs", nranks, cpus), "too-many-ranks");
}

}  // namespace busbar
