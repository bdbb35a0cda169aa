#include "common/machine/answer_within.h"
#include "common/machine/gpu_facts.h"
#include "common/machine/gpus_on_bus.h"
#include "common/machine/nvml_device.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace busbar {
namespace {

using nvml::Calls;

template <class Target, class Value, class Call, class... Before>
void ask(Target& target, Call call, Value value, Before... before) {
  if (call != nullptr && call(before..., &value) == nvml::kSuccess)
    target = static_cast<typename Target::value_type>(value);
}

std::string text_of(NvmlResult (*call)(NvmlDevice, char*, unsigned), NvmlDevice device) {
  std::array<char, 96> text{};
  if (call == nullptr || call(device, text.data(), text.size()) != nvml::kSuccess) return {};
  text.back() = '\0';
  return text.data();
}

std::optional<std::uint64_t> number_in(const nvml::FieldValue& field) {
  switch (field.value_type) {  // nvmlValueType_t
    case 1:
      return field.value.as_unsigned;
    case 2:
      return field.value.as_ulong;
    case 3:
      return field.value.as_ulonglong;
    case 4:
      return static_cast<std::uint64_t>(field.value.as_longlong);
    case 5:
      return static_cast<std::uint64_t>(field.value.as_int);
    case 6:
      return field.value.as_ushort;
    default:
      return std::nullopt;
  }
}

std::optional<std::uint64_t> ask_field(const Calls& calls, NvmlDevice device, unsigned id, unsigned scope = 0) {
  nvml::FieldValue field{};
  field.field = id;
  field.scope = scope;
  if (calls.fields == nullptr || calls.fields(device, 1, &field) != nvml::kSuccess || field.result != nvml::kSuccess) {
    return std::nullopt;
  }
  return number_in(field);
}

void ask_memory(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  nvml::Memory memory{};
  if (calls.memory != nullptr && calls.memory(device, &memory) == nvml::kSuccess) {
    gpu.memory_nbytes = memory.total;
    gpu.memory_used = memory.used;
  }
  int current = 0, pending = 0;
  if (calls.ecc_mode != nullptr && calls.ecc_mode(device, &current, &pending) == nvml::kSuccess) gpu.ecc = current != 0;
  ask(gpu.ecc_uncorrected, calls.ecc_total, 0ULL, device, nvml::kUncorrected, nvml::kVolatile);
  ask(gpu.sram_uncorrected, calls.ecc_at, 0ULL, device, nvml::kUncorrected, nvml::kAggregate, nvml::kSram);
  ask(gpu.sram_corrected, calls.ecc_at, 0ULL, device, nvml::kCorrected, nvml::kAggregate, nvml::kSram);
  ask(gpu.dram_corrected, calls.ecc_at, 0ULL, device, nvml::kCorrected, nvml::kAggregate, nvml::kDram);
  unsigned corrected = 0, uncorrected = 0, to_come = 0, failed = 0;
  if (calls.remapped != nullptr &&
      calls.remapped(device, &corrected, &uncorrected, &to_come, &failed) == nvml::kSuccess) {
    gpu.rows_remapped_corrected = corrected;
    gpu.rows_remapped_uncorrected = uncorrected;
    gpu.remap_pending = to_come != 0;
    gpu.remap_failed = failed != 0;
  }
  // Asked for none, it tells how many there are.
  for (const int cause : {nvml::kSingleBit, nvml::kDoubleBit}) {
    unsigned count = 0;
    if (calls.retired == nullptr) break;
    const NvmlResult result = calls.retired(device, cause, &count, nullptr);
    if (result == nvml::kSuccess || result == nvml::kInsufficientSize)
      gpu.pages_retired = gpu.pages_retired.value_or(0) + count;
  }
  if (calls.retirement_pending != nullptr && calls.retirement_pending(device, &pending) == nvml::kSuccess) {
    gpu.retirement_pending = pending != 0;
  }
}

/// Adds a counter of one link; false where the GPU does not have it.
bool add_errors(const Calls& calls, NvmlDevice device, unsigned link, int counter, std::optional<std::uint64_t>& sum) {
  unsigned long long errors = 0;
  if (calls.nvlink_errors == nullptr || calls.nvlink_errors(device, link, counter, &errors) != nvml::kSuccess)
    return false;
  sum = sum.value_or(0) + errors;
  return true;
}

/// From Blackwell on, fields have what the counters of before do not.
void add_field(const Calls& calls, NvmlDevice device, unsigned link, unsigned field,
               std::optional<std::uint64_t>& sum) {
  if (const auto errors = ask_field(calls, device, field, link)) sum = sum.value_or(0) + *errors;
}

void ask_links(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  const auto common = ask_field(calls, device, nvml::kFieldCommonLinkSpeed);
  for (unsigned link = 0; calls.nvlink_state != nullptr && link < nvml::kMostLinks; ++link) {
    int active = 0;
    if (calls.nvlink_state(device, link, &active) != nvml::kSuccess) continue;
    NvLink one{.link = static_cast<int>(link), .active = active != 0, .speed_mbps = std::nullopt};
    if (one.active) {
      const auto own = ask_field(calls, device, nvml::kFieldLinkSpeed, link);
      if (own || common) one.speed_mbps = static_cast<unsigned>(own ? *own : *common);
      (void)add_errors(calls, device, link, nvml::kReplays, gpu.nvlink_replays);
      if (!add_errors(calls, device, link, nvml::kRecoveries, gpu.nvlink_recoveries)) {
        add_field(calls, device, link, nvml::kFieldLinkRecoveries, gpu.nvlink_recoveries);
      }
      const bool flit = add_errors(calls, device, link, nvml::kCrcFlit, gpu.nvlink_crc_errors);
      const bool data = add_errors(calls, device, link, nvml::kCrcData, gpu.nvlink_crc_errors);
      if (!flit && !data) add_field(calls, device, link, nvml::kFieldLinkReceiveErrors, gpu.nvlink_crc_errors);
    }
    gpu.nvlinks.push_back(one);
  }
  nvml::FabricInfo info{};
  info.version = nvml::kFabricVersion2;
  if (calls.fabric != nullptr && calls.fabric(device, &info) == nvml::kSuccess) {
    GpuFabric fabric{
        .state = info.state, .status = info.status, .clique = info.clique, .cluster = "", .health = info.health};
    for (const unsigned char byte : info.cluster) fabric.cluster += fmt::format("{:02x}", byte);
    gpu.fabric = fabric;
  }
}

void ask_state(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  ask(gpu.clock_reasons, calls.clock_reasons, 0ULL, device);
  ask(gpu.temperature_c, calls.temperature, 0U, device, 0);
  ask(gpu.slowdown_c, calls.temperature_threshold, 0U, device, nvml::kSlowdown);
  ask(gpu.memory_max_c, calls.temperature_threshold, 0U, device, nvml::kMemoryMax);
  if (const auto celsius = ask_field(calls, device, nvml::kFieldMemoryTemperature); celsius && *celsius > 0) {
    gpu.memory_temperature_c = static_cast<int>(*celsius);
  }
  ask(gpu.power_limit_w, calls.power_limit, 0U, device);
  ask(gpu.power_default_w, calls.power_default, 0U, device);
  for (auto* milliwatts : {&gpu.power_limit_w, &gpu.power_default_w}) {
    if (*milliwatts) **milliwatts /= 1e3;
  }
  ask(gpu.pcie_generation, calls.pcie_generation, 0U, device);
  ask(gpu.pcie_generation_max, calls.pcie_generation_max, 0U, device);
  ask(gpu.pcie_width, calls.pcie_width, 0U, device);
  ask(gpu.pcie_width_max, calls.pcie_width_max, 0U, device);
  ask(gpu.pcie_replays, calls.pcie_replays, 0U, device);
  ask(gpu.persistence, calls.persistence, 0, device);
  ask(gpu.compute_mode, calls.compute_mode, 0, device);
  unsigned current = 0, pending = 0;
  if (calls.mig != nullptr && calls.mig(device, &current, &pending) == nvml::kSuccess) gpu.mig = current != 0;
}

void ask_processes(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  namespace fs = std::filesystem;
  std::array<nvml::ProcessInfo, 64> found{};
  unsigned count = found.size();
  if (calls.processes == nullptr || calls.processes(device, &count, found.data()) != nvml::kSuccess) return;
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  for (unsigned i = 0; i < count && i < found.size(); ++i) {
    constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
    GpuProcess process;
    process.pid = found[i].pid;
    process.nbytes = found[i].used == kNotAvailable ? 0 : found[i].used;
    const fs::path program = fs::read_symlink(fmt::format("/proc/{}/exe", process.pid), ignored);
    process.program = program.filename().string();
    process.ours = !program.empty() && program == self;
    gpu.processes.push_back(process);
  }
}

GpuFacts ask_one(const Calls& calls, unsigned index, const std::vector<NvmlDevice>& devices) {
  GpuFacts gpu;
  gpu.index = static_cast<int>(index);
  NvmlDevice device = devices[index];
  if (device == nullptr) {
    gpu.lost = true;
    return gpu;
  }
  gpu.bus_id = nvml::bus_id_of(calls, device);
  gpu.model = text_of(calls.name, device);
  gpu.uuid = text_of(calls.uuid, device);
  gpu.vbios = text_of(calls.vbios, device);
  // The first real question to the device.
  unsigned ignored = 0;
  const NvmlResult result = calls.temperature == nullptr ? nvml::kSuccess : calls.temperature(device, 0, &ignored);
  gpu.lost = result == nvml::kGpuIsLost;
  gpu.needs_reset = result == nvml::kResetRequired;
  if (gpu.lost || gpu.needs_reset) return gpu;
  ask_memory(calls, device, gpu);
  ask_links(calls, device, gpu);
  ask_state(calls, device, gpu);
  ask_processes(calls, device, gpu);
  for (std::size_t other = 0; calls.p2p != nullptr && other < devices.size(); ++other) {
    int status = 0;
    const bool told = other == index || (devices[other] != nullptr &&
                                         calls.p2p(device, devices[other], nvml::kP2pRead, &status) == nvml::kSuccess);
    if (!told) {
      gpu.p2p.clear();
      break;
    }
    gpu.p2p.push_back(status);
  }
  return gpu;
}

}  // namespace

HostGpus read_gpus(const std::string& library_name) {
  HostGpus host;
  host.on_bus = gpus_on_bus().size();
  const NvmlLibrary library = open_nvml(library_name);
  if (library == nullptr) {
    host.problem = "no NVIDIA driver here (or the container was not given it)";
    return host;
  }
  host.library = true;
  Calls calls;
  if (!nvml::find_calls(library, calls)) {
    host.problem = library_name + " lacks functions that every NVML has";
    return host;
  }
  if (const NvmlResult result = calls.init(); result != nvml::kSuccess) {
    host.problem = calls.error_string(result);
    return host;
  }
  std::array<char, 96> version{};
  if (calls.driver_version != nullptr && calls.driver_version(version.data(), version.size()) == nvml::kSuccess) {
    host.driver = version.data();
  }
  unsigned count = 0;
  if (const NvmlResult result = calls.count(&count); result != nvml::kSuccess)
    host.problem = calls.error_string(result);
  std::vector<NvmlDevice> devices(count, nullptr);
  for (unsigned index = 0; index < count; ++index) {
    if (calls.handle(index, &devices[index]) != nvml::kSuccess) devices[index] = nullptr;
  }
  for (unsigned index = 0; index < count; ++index) host.gpus.push_back(ask_one(calls, index, devices));
  (void)calls.shutdown();
  return host;
}

HostGpus read_gpus_within(double seconds) {
  // A driver whose GPU fell off the bus may never answer.
  if (auto gpus = answer_within(seconds, [] { return read_gpus(); })) return *std::move(gpus);
  HostGpus host;
  host.library = true;
  host.problem = fmt::format("NVML does not answer within {:.0f} s: the driver may wait for a GPU", seconds);
  return host;
}

}  // namespace busbar
