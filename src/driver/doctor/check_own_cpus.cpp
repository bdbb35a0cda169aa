#include "driver/doctor/check_own_cpus.h"

#include "common/base/compress_list.h"
#include "common/machine/cores.h"
#include "common/machine/machine_facts.h"
#include "common/mpi/launcher.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace busbar {
namespace {

constexpr const char* kOwnCpus = "rank.cpus";

/// The GPU of this rank as launchers and frameworks hand them out: by local rank, unless CUDA_VISIBLE_DEVICES leaves
/// one. Nothing where that cannot be told.
std::optional<PciFunction> own_gpu(const Probe& probe) {
  const std::vector<PciFunction> gpus = gpu_functions(probe);
  const Launch launch = detect_launch([&](const char* name) -> const char* {
    const auto found = probe.environment.find(name);
    return found == probe.environment.end() ? nullptr : found->second.c_str();
  });
  if (launch.local_rank < 0) return std::nullopt;
  auto index = static_cast<std::size_t>(launch.local_rank);
  const auto visible = probe.environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != probe.environment.end()) {
    // Only one plain number is beyond doubt: lists and names of MIG slices are not.
    if (visible->second.empty() || visible->second.find_first_not_of("0123456789") != std::string::npos) {
      return std::nullopt;
    }
    index = std::strtoul(visible->second.c_str(), nullptr, 10);
  }
  if (index >= gpus.size()) return std::nullopt;
  return gpus[index];
}

}  // namespace

void check_own_cpus(const Probe& probe, Rows& rows) {
  const std::string value = compress_ranks(probe.cpus);
  if (probe.cpus.empty()) return rows.push_back(skip_row(kOwnCpus, "", "/proc/self/status does not tell"));
  DoctorRow row = ok_row(kOwnCpus, "", value);
  const std::optional<PciFunction> gpu = own_gpu(probe);
  const std::set<int> local = gpu ? parse_cpu_list(gpu->local_cpus) : std::set<int>();
  const bool near = std::any_of(probe.cpus.begin(), probe.cpus.end(), [&](int cpu) { return local.contains(cpu); });
  if (gpu && !local.empty() && !near) {
    row.outcome = Outcome::warn;
    row.reason = "the rank runs on another NUMA node than its GPU (NCCL: Affinity for GPU is empty)";
    row.remedy = "mpirun --map-by ppr:N:numa --bind-to core, or srun --gpu-bind=closest";
  }
  rows.push_back(std::move(row));
}

void check_shared_cpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows) {
  constexpr const char* kShared = "rank.shared_cpus";
  std::map<std::string, std::vector<int>> ranks_on;  // one CPU -> who may run nowhere else
  int nranks = 0;
  for (const NodeReport& part : parts) {
    nranks += static_cast<int>(part.ranks.size());
    for (const DoctorRow& row : part.rows) {
      const bool one =
          row.check == kOwnCpus && !row.value.empty() && row.value.find_first_not_of("0123456789") == std::string::npos;
      if (one) ranks_on[row.value].insert(ranks_on[row.value].end(), part.ranks.begin(), part.ranks.end());
    }
  }
  const int cpus = online_cpus(probe);
  for (const auto& [cpu, ranks] : ranks_on) {
    if (ranks.size() < 2 || cpus == 1) continue;
    DoctorRow row =
        bad_row(Outcome::fail, kShared, "", fmt::format("CPU {}", cpu), "several ranks are bound to one CPU",
                "mpirun --bind-to core without a rankfile, or srun --cpu-bind=cores");
    row.ranks = ranks;
    rows.push_back(std::move(row));
    return;
  }
  const std::string value = fmt::format("{} ranks on {} CPUs", nranks, cpus);
  if (nranks <= cpus) return rows.push_back(ok_row(kShared, "", value));
  rows.push_back(bad_row(Outcome::warn, kShared, "", value,
                         "more ranks than CPUs: each waits for the other's time slice", "fewer ranks per node"));
}

}  // namespace busbar
