#include "common/machine/answer_within.h"
#include "common/machine/ask_cuda.h"
#include "common/machine/gpu_facts.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/judge_gpus.h"

#include <fmt/format.h>

#include <utility>

namespace busbar {

// Without persistence mode the driver takes seconds per GPU to start.
static constexpr double kPatience = 30;  // [s]

static void add_cuda(HostGpus& host) {
  if (host.gpus.empty()) return;
  for (const CudaAbilities& able :
       answer_within(kPatience, [] { return ask_cuda(); }).value_or(std::vector<CudaAbilities>())) {
    for (GpuFacts& gpu : host.gpus) {
      if (gpu.bus_id != able.bus_id) continue;
      gpu.multicast = able.multicast;
      gpu.cumem = able.cumem;
    }
  }
}

void check_gpus(Rows& rows) {
  HostGpus host = read_gpus_within(kPatience);
  add_cuda(host);
  judge_gpus(host, rows);
}

std::vector<CounterReading> read_gpu_counters() {
  std::vector<CounterReading> readings;
  for (const GpuFacts& gpu : read_gpus_within(kPatience).gpus) {
    const auto add = [&](const char* name, const std::optional<std::uint64_t>& value) {
      if (value) readings.push_back({fmt::format("gpu/{}/{}", gpu.index, name), *value});
    };
    add("nvlink_replay", gpu.nvlink_replays);
    add("nvlink_recovery", gpu.nvlink_recoveries);
    add("nvlink_crc", gpu.nvlink_crc_errors);
    add("pcie_replay", gpu.pcie_replays);
    add("ecc_uncorrected", gpu.ecc_uncorrected);
    if (gpu.rows_remapped_uncorrected) add("remapped_rows", *gpu.rows_remapped_uncorrected);
  }
  return readings;
}

std::vector<CounterReading> read_all_counters() {
  std::vector<CounterReading> readings = read_counters(probe_this_machine());
  for (CounterReading& one : read_gpu_counters()) readings.push_back(std::move(one));
  return readings;
}

}  // namespace busbar
