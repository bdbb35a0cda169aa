#include "driver/doctor/check_rank_gpus.h"

#include "common/machine/machine_facts.h"
#include "common/mpi/launcher.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace busbar {
namespace {

constexpr const char* kRankGpus = "rank.gpu";

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::vector<std::string> visible_gpus(const std::string& value, std::size_t ngpus) {
  std::vector<std::string> seen;
  std::string_view rest = value;
  while (!rest.empty()) {
    std::string one(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
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
  const Launch launch = detect_launch([&](const char* name) -> const char* {
    const auto found = probe.environment.find(name);
    return found == probe.environment.end() ? nullptr : found->second.c_str();
  });
  if (ngpus == 0 || launch.local_rank < 0) return;
  std::vector<std::string> seen;
  const auto set = probe.environment.find("CUDA_VISIBLE_DEVICES");
  if (set != probe.environment.end()) {
    seen = visible_gpus(set->second, ngpus);
  } else {
    for (std::size_t i = 0; i < ngpus; ++i) seen.push_back(fmt::format("{}", i));
  }
  if (seen.empty()) {
    rows.push_back(bad_row(Outcome::warn, kRankGpus, "", "none", "CUDA_VISIBLE_DEVICES hides all GPUs from this rank",
                           "unset it, or name GPUs as nvidia-smi -L does"));
    return;
  }
  // A launcher that shows each rank one GPU has chosen; else ranks take them in turn.
  const auto local = static_cast<std::size_t>(launch.local_rank);
  const std::string& mine = seen[seen.size() == 1 ? 0 : local % seen.size()];
  DoctorRow row = ok_row(kRankGpus, "", "GPU " + mine);
  const bool numbers = std::all_of(seen.begin(), seen.end(), is_number);
  const bool ordered = std::is_sorted(seen.begin(), seen.end(), [](const std::string& a, const std::string& b) {
    return std::strtoul(a.c_str(), nullptr, 10) < std::strtoul(b.c_str(), nullptr, 10);
  });
  if (numbers && !ordered) {
    row.outcome = Outcome::warn;
    row.reason = fmt::format(
        "CUDA_VISIBLE_DEVICES={} changes their order: ranks may sit far from their CPUs and network "
        "cards",
        set->second);
    row.remedy = "ascending numbers, or unset it";
  }
  rows.push_back(std::move(row));
}

void check_shared_gpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows) {
  std::map<std::string, std::vector<int>> ranks_on;
  std::size_t nranks = 0;
  for (const NodeReport& part : parts) {
    nranks += part.ranks.size();
    for (const DoctorRow& row : part.rows) {
      if (row.check != kRankGpus || row.value == "none") continue;
      ranks_on[row.value].insert(ranks_on[row.value].end(), part.ranks.begin(), part.ranks.end());
    }
  }
  const std::size_t ngpus = gpu_functions(probe).size();
  for (const auto& [gpu, ranks] : ranks_on) {
    if (ranks.size() < 2) continue;
    // Where there are enough GPUs for all ranks it is an oversight.
    const bool enough = nranks <= ngpus;
    DoctorRow row = bad_row(enough ? Outcome::fail : Outcome::warn, "rank.shared_gpu", "",
                            enough ? gpu : fmt::format("{} ranks for {} GPUs", nranks, ngpus),
                            "several ranks take one GPU: NCCL refuses that",
                            enough ? "CUDA_VISIBLE_DEVICES of each rank; one rank per GPU" : "one rank per GPU");
    row.ranks = ranks;
    rows.push_back(std::move(row));
    if (!enough) return;
  }
}

}  // namespace busbar
