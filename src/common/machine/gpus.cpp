#include "common/machine/gpus.h"

#include "common/machine/answer_within.h"
#include "common/machine/machine_facts.h"
#include "common/machine/nvml.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <utility>

namespace busbar {
namespace {

using nvml::Calls;

template <class Target, class Value, class Call, class... Before>
void ask(Target& target, const Call& call, Value value, Before... before) {
  if (call(before..., &value) == nvml::kSuccess) target = static_cast<typename Target::value_type>(value);
}

void ask_watts(std::optional<double>& watts, const nvml::Call<NvmlResult(NvmlDevice, unsigned*)>& call,
               NvmlDevice device) {
  unsigned milliwatts = 0;
  if (call(device, &milliwatts) == nvml::kSuccess) watts = milliwatts / 1e3;
}

template <class Call, class... Before>
std::string text_of(const Call& call, Before... before) {
  std::array<char, 96> text{};
  if (call(before..., text.data(), text.size()) != nvml::kSuccess) return {};
  text.back() = '\0';
  return text.data();
}

std::optional<std::uint64_t> number_in(const nvml::FieldValue& field) {
  const int type = field.value_type;  // nvmlValueType_t
  if (type == 1) return field.value.as_unsigned;
  if (type == 2) return field.value.as_ulong;
  if (type == 3) return field.value.as_ulonglong;
  if (type == 4) return static_cast<std::uint64_t>(field.value.as_longlong);
  if (type == 5) return static_cast<std::uint64_t>(field.value.as_int);
  if (type == 6) return field.value.as_ushort;
  return std::nullopt;
}

std::optional<std::uint64_t> ask_field(const Calls& calls, NvmlDevice device, unsigned id, unsigned scope = 0) {
  nvml::FieldValue field{};
  field.field = id;
  field.scope = scope;
  if (calls.fields(device, 1, &field) != nvml::kSuccess || field.result != nvml::kSuccess) return std::nullopt;
  return number_in(field);
}

void ask_remapping(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  unsigned corrected = 0, uncorrected = 0, to_come = 0, failed = 0;
  if (calls.remapped(device, &corrected, &uncorrected, &to_come, &failed) == nvml::kSuccess) {
    gpu.rows_remapped_uncorrected = uncorrected;
    gpu.remap_pending = to_come != 0;
    gpu.remap_failed = failed != 0;
  }
}

/// What can hold a job up and what the GPU does.
void ask_health(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  // The first real question shows whether it is lost.
  unsigned ignored = 0;
  const NvmlResult result = calls.temperature ? calls.temperature(device, 0, &ignored) : nvml::kSuccess;
  gpu.lost = result == nvml::kGpuIsLost;
  gpu.needs_reset = result == nvml::kResetRequired;
  if (gpu.lost || gpu.needs_reset) return;
  ask_watts(gpu.power_w, calls.power, device);
  ask_watts(gpu.power_limit_w, calls.power_limit, device);
  ask(gpu.temperature_c, calls.temperature, 0U, device, 0);
  nvml::Utilization busy{};
  if (calls.utilization(device, &busy) == nvml::kSuccess) gpu.busy_percent = static_cast<int>(busy.gpu);
  ask(gpu.clock_reasons, calls.clock_reasons, 0ULL, device);
  ask(gpu.ecc_uncorrected, calls.ecc_total, 0ULL, device, nvml::kUncorrected, nvml::kVolatile);
  ask_remapping(calls, device, gpu);
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    int active = 0;
    if (calls.nvlink_state(device, link, &active) != nvml::kSuccess) continue;
    gpu.nvlinks.push_back({.link = static_cast<int>(link), .active = active != 0, .speed_mbps = std::nullopt});
  }
}

void ask_memory(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  nvml::Memory memory{};
  if (calls.memory(device, &memory) == nvml::kSuccess) {
    gpu.memory_nbytes = memory.total;
    gpu.memory_used = memory.used;
  }
  int current = 0, pending = 0;
  if (calls.ecc_mode(device, &current, &pending) == nvml::kSuccess) gpu.ecc = current != 0;
  ask(gpu.sram_uncorrected, calls.ecc_at, 0ULL, device, nvml::kUncorrected, nvml::kAggregate, nvml::kSram);
  ask(gpu.sram_corrected, calls.ecc_at, 0ULL, device, nvml::kCorrected, nvml::kAggregate, nvml::kSram);
  ask(gpu.dram_corrected, calls.ecc_at, 0ULL, device, nvml::kCorrected, nvml::kAggregate, nvml::kDram);
  // Asked for none, it returns how many there are.
  for (const int cause : {nvml::kSingleBit, nvml::kDoubleBit}) {
    unsigned count = 0;
    const NvmlResult result = calls.retired(device, cause, &count, nullptr);
    if (result == nvml::kSuccess || result == nvml::kInsufficientSize)
      gpu.pages_retired = gpu.pages_retired.value_or(0) + count;
  }
  if (calls.retirement_pending(device, &pending) == nvml::kSuccess) gpu.retirement_pending = pending != 0;
}

/// Adds a counter of one link; false if the GPU does not have it.
bool add_errors(const Calls& calls, NvmlDevice device, unsigned link, int counter, std::optional<std::uint64_t>& sum) {
  unsigned long long errors = 0;
  if (calls.nvlink_errors(device, link, counter, &errors) != nvml::kSuccess) return false;
  sum = sum.value_or(0) + errors;
  return true;
}

/// Since Blackwell, fields have what the older counters do not.
void add_field(const Calls& calls, NvmlDevice device, unsigned link, unsigned field,
               std::optional<std::uint64_t>& sum) {
  if (const auto errors = ask_field(calls, device, field, link)) sum = sum.value_or(0) + *errors;
}

void ask_links(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  const auto common = ask_field(calls, device, nvml::kFieldCommonLinkSpeed);
  for (NvLink& one : gpu.nvlinks) {
    if (!one.active) continue;
    const auto link = static_cast<unsigned>(one.link);
    const auto own = ask_field(calls, device, nvml::kFieldLinkSpeed, link);
    if (own || common) one.speed_mbps = static_cast<unsigned>(own ? *own : *common);
    (void)add_errors(calls, device, link, nvml::kReplays, gpu.nvlink_replays);
    if (!add_errors(calls, device, link, nvml::kRecoveries, gpu.nvlink_recoveries))
      add_field(calls, device, link, nvml::kFieldLinkRecoveries, gpu.nvlink_recoveries);
    const bool flit = add_errors(calls, device, link, nvml::kCrcFlit, gpu.nvlink_crc_errors);
    const bool data = add_errors(calls, device, link, nvml::kCrcData, gpu.nvlink_crc_errors);
    if (!flit && !data) add_field(calls, device, link, nvml::kFieldLinkReceiveErrors, gpu.nvlink_crc_errors);
  }
  nvml::FabricInfo info{};
  info.version = nvml::kFabricVersion2;
  if (calls.fabric(device, &info) == nvml::kSuccess) {
    GpuFabric fabric{
        .state = info.state, .status = info.status, .clique = info.clique, .cluster = "", .health = info.health};
    for (const unsigned char byte : info.cluster) fabric.cluster += fmt::format("{:02x}", byte);
    gpu.fabric = fabric;
  }
}

void ask_state(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  ask(gpu.slowdown_c, calls.temperature_threshold, 0U, device, nvml::kSlowdown);
  ask(gpu.memory_max_c, calls.temperature_threshold, 0U, device, nvml::kMemoryMax);
  if (const auto celsius = ask_field(calls, device, nvml::kFieldMemoryTemperature); celsius && *celsius > 0)
    gpu.memory_temperature_c = static_cast<int>(*celsius);
  ask_watts(gpu.power_default_w, calls.power_default, device);
  ask(gpu.pcie_generation, calls.pcie_generation, 0U, device);
  ask(gpu.pcie_generation_max, calls.pcie_generation_max, 0U, device);
  ask(gpu.pcie_width, calls.pcie_width, 0U, device);
  ask(gpu.pcie_width_max, calls.pcie_width_max, 0U, device);
  ask(gpu.pcie_replays, calls.pcie_replays, 0U, device);
  ask(gpu.persistence, calls.persistence, 0, device);
  ask(gpu.compute_mode, calls.compute_mode, 0, device);
  unsigned current = 0, pending = 0;
  if (calls.mig(device, &current, &pending) == nvml::kSuccess) gpu.mig = current != 0;
}

void ask_processes(const Calls& calls, NvmlDevice device, GpuFacts& gpu) {
  namespace fs = std::filesystem;
  std::array<nvml::ProcessInfo, 64> found{};
  unsigned count = found.size();
  if (calls.processes(device, &count, found.data()) != nvml::kSuccess) return;
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

GpuFacts ask_one(const Calls& calls, std::size_t index, const std::vector<NvmlDevice>& devices) {
  GpuFacts gpu;
  gpu.index = static_cast<int>(index);
  NvmlDevice device = devices[index];
  if (device == nullptr) {
    const NvmlResult result = calls.handle(static_cast<unsigned>(index), &device);
    gpu.needs_reset = result == nvml::kResetRequired;
    gpu.lost = result == nvml::kGpuIsLost;
    gpu.refused = !gpu.lost && !gpu.needs_reset;
    return gpu;
  }
  gpu.bus_id = nvml::bus_id_of(calls, device);
  gpu.model = text_of(calls.name, device);
  gpu.uuid = text_of(calls.uuid, device);
  gpu.vbios = text_of(calls.vbios, device);
  ask_health(calls, device, gpu);
  if (gpu.lost || gpu.needs_reset) return gpu;
  ask_memory(calls, device, gpu);
  ask_links(calls, device, gpu);
  ask_state(calls, device, gpu);
  ask_processes(calls, device, gpu);
  for (std::size_t other = 0; calls.p2p && other < devices.size(); ++other) {
    int status = 0;
    const bool known = other == index || (devices[other] != nullptr &&
                                          calls.p2p(device, devices[other], nvml::kP2pRead, &status) == nvml::kSuccess);
    if (!known) {
      gpu.p2p.clear();
      break;
    }
    gpu.p2p.push_back(status);
  }
  return gpu;
}

// CUDA's driver interface as documented; results and devices are ints, 0 is success.
constexpr int kMemoryManagement = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kShareableHandles = 103;  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
constexpr int kMulticast = 132;         // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED

struct CudaCalls {
  void* in;  ///< the library
  nvml::Call<int(unsigned flags)> init{in, "cuInit"};
  nvml::Call<int(int*)> count{in, "cuDeviceGetCount"};
  nvml::Call<int(int*, int index)> device{in, "cuDeviceGet"};
  nvml::Call<int(char*, int length, int device)> bus_id{in, "cuDeviceGetPCIBusId"};
  nvml::Call<int(int*, int which, int device)> attribute{in, "cuDeviceGetAttribute"};
};

}  // namespace

std::vector<std::string> slowdown_words(std::uint64_t reasons) {
  // nvmlClocksEventReason... 0x08, hardware slowdown, stands for the next two on old GPUs.
  constexpr std::array<std::pair<std::uint64_t, const char*>, 3> kReasons{
      {{0x20, "heat (driver)"}, {0x40, "heat (hardware)"}, {0x80, "power brake"}}};
  std::vector<std::string> words;
  for (const auto& [bit, reason] : kReasons)
    if ((reasons & bit) != 0) words.emplace_back(reason);
  if (words.empty() && (reasons & 0x08) != 0) words.emplace_back("hardware (heat or power)");
  return words;
}

std::string gpu_subject(const GpuFacts& gpu) {
  return gpu.bus_id.empty() ? fmt::format("GPU {}", gpu.index) : fmt::format("GPU {} {}", gpu.index, gpu.bus_id);
}

HostGpus read_gpus(const std::string& library_name) {
  HostGpus host;
  host.on_bus = gpus_on_bus().size();
  const nvml::Driver session(library_name);
  host.library = session.library != nullptr;
  if (!host.library) {
    host.problem = "no NVIDIA driver here (or the container was not given it)";
  } else if (!session.complete) {
    host.problem = library_name + " lacks functions that every NVML has";
  } else if (!session.open) {
    host.problem = session.refusal;
  }
  if (!session.open) return host;
  host.driver = text_of(session.calls.driver_version);
  const std::vector<NvmlDevice> devices = session.devices(host.problem);
  for (std::size_t index = 0; index < devices.size(); ++index)
    host.gpus.push_back(ask_one(session.calls, index, devices));
  return host;
}

HostGpus read_gpus_within(double seconds) {
  // A driver whose GPU fell off the bus may never answer.
  if (auto gpus = answer_within(seconds, [] { return read_gpus(); })) return *std::move(gpus);
  HostGpus host;
  host.library = true;
  host.silent = true;
  host.problem = fmt::format("NVML does not answer within {:.0f} s: the driver may wait for a GPU", seconds);
  return host;
}

std::string nvml_problem(const std::string& library_name) {
  const nvml::Driver session(library_name);
  if (session.library == nullptr)
    return library_name + " is not there: no NVIDIA driver is installed (or the container was not given it)";
  if (!session.complete) return library_name + " lacks functions that every NVML since 2011 has";
  return session.open ? "" : "NVML: " + session.refusal;
}

std::vector<CudaAbilities> ask_cuda(const std::string& name) {
  const SharedLibrary library = open_library(name);
  const CudaCalls calls{library.get()};
  int count = 0;
  std::vector<CudaAbilities> found;
  if (calls.init(0) != 0 || calls.count(&count) != 0) return found;
  for (int index = 0; index < count; ++index) {
    int device = 0;
    std::array<char, 32> bus_id{};
    if (calls.device(&device, index) != 0) continue;
    if (calls.bus_id(bus_id.data(), static_cast<int>(bus_id.size()), device) != 0) continue;
    const auto has = [&](int which) {
      int value = 0;
      return calls.attribute(&value, which, device) == 0 && value != 0;
    };
    found.push_back(
        {nvml::plain_bus_id(bus_id.data()), has(kMulticast), has(kMemoryManagement) && has(kShareableHandles)});
  }
  return found;
}

/// Owned by the listener and by the thread that asks, whichever lives longer.
struct XidListener::Session {
  nvml::Driver driver;
  nvml::EventSet events = nullptr;
  std::map<NvmlDevice, std::string> gpus;  ///< those that are listened to

  explicit Session(const std::string& library) : driver(library) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (events != nullptr) (void)driver.calls.event_set_free(events);
  }

  /// Whether it listens to any GPU.
  bool start() {
    const Calls& calls = driver.calls;
    const bool able =
        driver.open && calls.event_set_create && calls.event_set_free && calls.register_events && calls.wait_event;
    std::string problem;
    const std::vector<NvmlDevice> devices = able ? driver.devices(problem) : std::vector<NvmlDevice>();
    if (!able || !problem.empty() || calls.event_set_create(&events) != nvml::kSuccess) return false;
    for (std::size_t index = 0; index < devices.size(); ++index) {
      if (devices[index] == nullptr) continue;
      if (calls.register_events(devices[index], nvml::kEventXid, events) != nvml::kSuccess) continue;
      GpuFacts gpu;
      gpu.index = static_cast<int>(index);
      gpu.bus_id = nvml::bus_id_of(calls, devices[index]);
      gpus[devices[index]] = gpu_subject(gpu);
    }
    return !gpus.empty();
  }

  std::vector<XidEvent> drain() const {
    constexpr std::size_t kMost = 10'000;  // a GPU that reports without end must not hold the run up
    std::vector<XidEvent> heard;
    nvml::EventData data{};
    while (heard.size() < kMost && driver.calls.wait_event(events, &data, 0) == nvml::kSuccess) {
      const auto gpu = gpus.find(data.device);
      if (data.type != nvml::kEventXid || gpu == gpus.end()) continue;
      heard.push_back({gpu->second, static_cast<int>(data.data)});
    }
    return heard;
  }
};

XidListener::XidListener(const std::string& library, double patience_s) : patience_s_(patience_s) {
  const auto answer = answer_within(patience_s, [library] {
    auto session = std::make_shared<Session>(library);
    return session->start() ? session : nullptr;
  });
  session_ = answer.value_or(nullptr);
}

std::vector<XidEvent> XidListener::heard() const {
  if (session_ == nullptr) return {};
  return answer_within(patience_s_, [session = session_] { return session->drain(); })
      .value_or(std::vector<XidEvent>());
}

}  // namespace busbar
