// Would catch: a sick GPU that passes, a healthy one that is blamed, a structure that is not laid out as the driver's.

#include "common/machine/gpus.h"
#include "common/machine/nvml.h"
#include "driver/doctor/checks.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace busbar::nvml {

static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t) && offsetof(Memory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(ProcessInfo) == sizeof(nvmlProcessInfo_v2_t));
static_assert(offsetof(ProcessInfo, used) == offsetof(nvmlProcessInfo_v2_t, usedGpuMemory));
static_assert(sizeof(EventData) == sizeof(nvmlEventData_t) && kEventXid == nvmlEventTypeXidCriticalError);
static_assert(offsetof(EventData, type) == offsetof(nvmlEventData_t, eventType));
static_assert(offsetof(EventData, data) == offsetof(nvmlEventData_t, eventData));
static_assert(kTimeout == NVML_ERROR_TIMEOUT && kFunctionNotFound == NVML_ERROR_FUNCTION_NOT_FOUND);
static_assert(sizeof(FieldValue) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(FieldValue, scope) == offsetof(nvmlFieldValue_t, scopeId));
static_assert(offsetof(FieldValue, value_type) == offsetof(nvmlFieldValue_t, valueType));
static_assert(offsetof(FieldValue, result) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(FieldValue, value) == offsetof(nvmlFieldValue_t, value));
static_assert(kSuccess == NVML_SUCCESS && kNotSupported == NVML_ERROR_NOT_SUPPORTED);
static_assert(kInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE && kGpuIsLost == NVML_ERROR_GPU_IS_LOST);
static_assert(kResetRequired == NVML_ERROR_RESET_REQUIRED);
static_assert(kCorrected == NVML_MEMORY_ERROR_TYPE_CORRECTED && kUncorrected == NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
static_assert(kVolatile == NVML_VOLATILE_ECC && kAggregate == NVML_AGGREGATE_ECC);
static_assert(kDram == NVML_MEMORY_LOCATION_DRAM && kSram == NVML_MEMORY_LOCATION_SRAM);
static_assert(kSlowdown == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN && kMemoryMax == NVML_TEMPERATURE_THRESHOLD_MEM_MAX);
static_assert(kP2pRead == NVML_P2P_CAPS_INDEX_READ);
static_assert(kSingleBit == NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
static_assert(kDoubleBit == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
static_assert(kReplays == NVML_NVLINK_ERROR_DL_REPLAY && kRecoveries == NVML_NVLINK_ERROR_DL_RECOVERY);
static_assert(kCrcFlit == NVML_NVLINK_ERROR_DL_CRC_FLIT && kCrcData == NVML_NVLINK_ERROR_DL_CRC_DATA);
static_assert(kMostLinks <= NVML_NVLINK_MAX_LINKS);
static_assert(kFieldMemoryTemperature == NVML_FI_DEV_MEMORY_TEMP);
static_assert(kFieldCommonLinkSpeed == NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
#ifdef nvmlGpuFabricInfo_v2
static_assert(sizeof(FabricInfo) == sizeof(nvmlGpuFabricInfo_v2_t) && kFabricVersion2 == nvmlGpuFabricInfo_v2);
static_assert(offsetof(FabricInfo, cluster) == offsetof(nvmlGpuFabricInfo_v2_t, clusterUuid));
static_assert(offsetof(FabricInfo, status) == offsetof(nvmlGpuFabricInfo_v2_t, status));
static_assert(offsetof(FabricInfo, clique) == offsetof(nvmlGpuFabricInfo_v2_t, cliqueId));
static_assert(offsetof(FabricInfo, state) == offsetof(nvmlGpuFabricInfo_v2_t, state));
static_assert(offsetof(FabricInfo, health) == offsetof(nvmlGpuFabricInfo_v2_t, healthMask));
#endif
#ifdef NVML_FI_DEV_NVLINK_GET_SPEED
static_assert(kFieldLinkSpeed == NVML_FI_DEV_NVLINK_GET_SPEED);
#endif
#ifdef NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS
static_assert(kFieldLinkReceiveErrors == NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS);
static_assert(kFieldLinkRecoveries == NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS);
#endif

}  // namespace busbar::nvml
#endif

using namespace busbar;
using Catch::Contains;

namespace {

/// A GPU of a healthy HGX H100 board, as NVML tells of it when nothing runs.
GpuFacts healthy_gpu(int index) {
  GpuFacts gpu;
  gpu.index = index;
  gpu.bus_id = "0000:" + std::to_string(18 + index) + ":00.0";
  gpu.uuid = "GPU-" + std::to_string(index);
  gpu.model = "NVIDIA H100 80GB HBM3";
  gpu.vbios = "96.00.89.00.01";
  gpu.memory_nbytes = 85520809984ULL;
  gpu.memory_used = 590809984ULL;
  gpu.ecc = true;
  gpu.ecc_uncorrected = gpu.sram_uncorrected = gpu.sram_corrected = gpu.dram_corrected = 0;
  gpu.rows_remapped_uncorrected = 0;
  for (int link = 0; link < 18; ++link) gpu.nvlinks.push_back({link, true, 26562});
  gpu.fabric = GpuFabric{.state = 3, .status = 0, .clique = 0, .cluster = "00", .health = 0x2 | 0x8 | 0x20 | 0x80};
  gpu.p2p.assign(8, 0);
  gpu.clock_reasons = 1;  // idle
  gpu.temperature_c = 31;
  gpu.slowdown_c = 87;
  gpu.memory_temperature_c = 42;
  gpu.memory_max_c = 95;
  gpu.power_limit_w = gpu.power_default_w = 700;
  gpu.pcie_generation = gpu.pcie_generation_max = 5;
  gpu.pcie_width = gpu.pcie_width_max = 16;
  gpu.persistence = true;
  gpu.compute_mode = 0;
  gpu.mig = false;
  gpu.multicast = gpu.cumem = true;
  return gpu;
}

HostGpus healthy_host() {
  HostGpus host;
  host.library = true;
  host.driver = "580.82.07";
  host.on_bus = 8;
  for (int index = 0; index < 8; ++index) host.gpus.push_back(healthy_gpu(index));
  return host;
}

Rows rows_of(const HostGpus& host) {
  Rows rows;
  judge_gpus(host, rows);
  return rows;
}

std::vector<DoctorRow> bad_rows(const HostGpus& host) {
  Rows rows = rows_of(host);
  std::erase_if(rows, [](const DoctorRow& row) { return row.outcome == Outcome::pass; });
  return rows;
}

/// The one finding on GPU 2 after `change`, besides that its host's GPUs differ.
DoctorRow only(const std::function<void(GpuFacts&)>& change) {
  HostGpus host = healthy_host();
  change(host.gpus[2]);
  std::vector<DoctorRow> rows = bad_rows(host);
  std::erase_if(rows, [](const DoctorRow& row) { return row.subject.empty(); });
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].subject == "GPU 2 0000:20:00.0");
  CHECK(!rows[0].reason.empty());
  CHECK(!rows[0].remedy.empty());
  return rows[0];
}

/// What may be wrong with one GPU, and how it is told.
struct SickGpu {
  const char* check;
  Outcome outcome;
  const char* value;
  std::function<void(GpuFacts&)> change;
};
const std::vector<SickGpu> kSick = {
    {"gpu.lost", Outcome::fail, "lost", [](GpuFacts& g) { g.lost = true; }},
    {"gpu.needs_reset", Outcome::fail, "needs a reset", [](GpuFacts& g) { g.needs_reset = true; }},
    {"gpu.ecc", Outcome::fail, "1 uncorrected", [](GpuFacts& g) { g.ecc_uncorrected = 1; }},
    {"gpu.ecc", Outcome::fail, "3 uncorrected in SRAM", [](GpuFacts& g) { g.sram_uncorrected = 3; }},
    {"gpu.ecc", Outcome::warn, "10001 corrected in SRAM, 0 in DRAM", [](GpuFacts& g) { g.sram_corrected = 10001; }},
    {"gpu.ecc", Outcome::warn, "0 corrected in SRAM, 20000001 in DRAM",
     [](GpuFacts& g) { g.dram_corrected = 20000001; }},
    {"gpu.row_remap", Outcome::fail, "pending", [](GpuFacts& g) { g.remap_pending = true; }},
    {"gpu.row_remap", Outcome::fail, "failed", [](GpuFacts& g) { g.remap_failed = true; }},
    {"gpu.row_remap", Outcome::fail, "failed", [](GpuFacts& g) { g.rows_remapped_uncorrected = 513; }},
    {"gpu.row_remap", Outcome::warn, "2 replaced", [](GpuFacts& g) { g.rows_remapped_uncorrected = 2; }},
    {"gpu.retired_pages", Outcome::warn, "4 retired", [](GpuFacts& g) { g.pages_retired = 4; }},
    {"gpu.retired_pages", Outcome::fail, "pending",
     [](GpuFacts& g) {
       g.pages_retired = 4;
       g.retirement_pending = true;
     }},
    {"gpu.nvlink", Outcome::fail, "17 of 18 active",
     [](GpuFacts& g) {
       g.nvlinks[5] = {5, false, std::nullopt};
     }},
    {"gpu.nvlink", Outcome::fail, "17 of 17 active", [](GpuFacts& g) { g.nvlinks.pop_back(); }},
    {"gpu.nvlink_speed", Outcome::fail, "13281 MB/s", [](GpuFacts& g) { g.nvlinks[5].speed_mbps = 13281; }},
    {"gpu.fabric", Outcome::fail, "not started", [](GpuFacts& g) { g.fabric->state = 1; }},
    {"gpu.fabric", Outcome::fail, "in progress", [](GpuFacts& g) { g.fabric->state = 2; }},
    {"gpu.fabric", Outcome::fail, "error 999", [](GpuFacts& g) { g.fabric->status = 999; }},
    {"gpu.fabric", Outcome::fail, "clique 7", [](GpuFacts& g) { g.fabric->clique = 7; }},
    {"gpu.fabric", Outcome::fail, "degraded", [](GpuFacts& g) { g.fabric->health = 0x1; }},
    {"gpu.fabric", Outcome::fail, "route unhealthy", [](GpuFacts& g) { g.fabric->health = 0x10; }},
    {"gpu.fabric", Outcome::warn, "recovering", [](GpuFacts& g) { g.fabric->health = 0x4; }},
    {"gpu.multicast", Outcome::warn, "not supported", [](GpuFacts& g) { g.multicast = false; }},
    {"gpu.cumem", Outcome::warn, "not supported", [](GpuFacts& g) { g.cumem = false; }},
    {"gpu.p2p", Outcome::fail, "with none", [](GpuFacts& g) { g.p2p = {5, 5, 0, 5, 5, 5, 5, 5}; }},
    {"gpu.p2p", Outcome::warn, "not with GPU 0,3", [](GpuFacts& g) { g.p2p = {4, 0, 0, 4, 0, 0, 0, 0}; }},
    {"gpu.clocks", Outcome::fail, "slowed by heat (hardware)", [](GpuFacts& g) { g.clock_reasons = 0x41; }},
    {"gpu.clocks", Outcome::fail, "slowed by heat (driver)", [](GpuFacts& g) { g.clock_reasons = 0x20; }},
    {"gpu.clocks", Outcome::fail, "slowed by power brake", [](GpuFacts& g) { g.clock_reasons = 0x88; }},
    {"gpu.clocks", Outcome::fail, "slowed by hardware (heat or power)", [](GpuFacts& g) { g.clock_reasons = 0x8; }},
    {"gpu.clocks", Outcome::warn, "slowed by the power cap", [](GpuFacts& g) { g.clock_reasons = 0x4; }},
    {"gpu.temperature", Outcome::fail, "87 C, slows down at 87 C", [](GpuFacts& g) { g.temperature_c = 87; }},
    {"gpu.temperature", Outcome::warn, "78 C, slows down at 87 C", [](GpuFacts& g) { g.temperature_c = 78; }},
    {"gpu.memory_temperature", Outcome::fail, "96 C, slows down at 95 C",
     [](GpuFacts& g) { g.memory_temperature_c = 96; }},
    {"gpu.power_cap", Outcome::warn, "500 of 700 W", [](GpuFacts& g) { g.power_limit_w = 500; }},
    {"gpu.pcie", Outcome::fail, "gen 5 x8 of gen 5 x16", [](GpuFacts& g) { g.pcie_width = 8; }},
    {"gpu.pcie", Outcome::warn, "gen 3 x16 of gen 5 x16",
     [](GpuFacts& g) {
       g.pcie_generation = 3;
       g.clock_reasons = 0;
     }},
    {"gpu.persistence", Outcome::warn, "off", [](GpuFacts& g) { g.persistence = false; }},
    {"gpu.mig", Outcome::warn, "on", [](GpuFacts& g) { g.mig = true; }},
    {"gpu.compute_mode", Outcome::warn, "exclusive", [](GpuFacts& g) { g.compute_mode = 3; }},
    {"gpu.compute_mode", Outcome::fail, "prohibited", [](GpuFacts& g) { g.compute_mode = 2; }},
    {"gpu.processes", Outcome::fail, "python: 2000 MB by process 77",
     [](GpuFacts& g) {
       g.processes = {{77, 2000000000ULL, "python", false}};
     }},
    {"gpu.memory", Outcome::warn, "41000 MiB in use", [](GpuFacts& g) { g.memory_used = 41000ULL << 20; }},
};

/// All that is said of a host, a line for each row.
std::string said(const std::vector<DoctorRow>& rows) {
  std::string text;
  for (const DoctorRow& row : rows) {
    text += fmt::format("{} {} [{}] {}{}{}{}\n", name(row.outcome), row.check, row.subject, row.value,
                        row.must_agree ? fmt::format(", {} if it differs", name(row.if_differs)) : "",
                        row.reason.empty() ? "" : ": " + row.reason, row.remedy.empty() ? "" : "; " + row.remedy);
  }
  return text;
}

}  // namespace

TEST_CASE("A healthy board is told word by word", "[doctor][gpu]") {
  HostGpus host = healthy_host();
  host.gpus.resize(2);
  host.on_bus = 2;
  for (GpuFacts& gpu : host.gpus) gpu.p2p.resize(2);
  host.gpus[1].pages_retired = 0;
  const std::string all =
      R"(PASS gpu.count [] 2, FAIL if it differs; run nvidia-smi -L and lspci -d 10de: on that host; then dmesg | grep NVRM
PASS gpu.model [] 2 x NVIDIA H100 80GB HBM3 81559 MiB, WARN if it differs; use hosts of one kind
PASS gpu.vbios [] 2 x 96.00.89.00.01, WARN if it differs; flash the same VBIOS
PASS gpu.ecc_mode [] 2 x on, WARN if it differs; run nvidia-smi -e 1, and reboot
PASS gpu.power_limit [] 2 x 700 W, WARN if it differs; set the same limit with nvidia-smi -pl
PASS gpu.nvlinks [] 2 x 18 active, WARN if it differs; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager
)";
  const std::string first = R"(PASS gpu.ecc [GPU 0 0000:18:00.0] none uncorrected
PASS gpu.row_remap [GPU 0 0000:18:00.0] none
PASS gpu.nvlink [GPU 0 0000:18:00.0] 18 of 18 active
PASS gpu.nvlink_speed [GPU 0 0000:18:00.0] 26562 MB/s per link
PASS gpu.fabric [GPU 0 0000:18:00.0] completed
PASS gpu.multicast [GPU 0 0000:18:00.0] supported
PASS gpu.cumem [GPU 0 0000:18:00.0] supported
PASS gpu.p2p [GPU 0 0000:18:00.0] with all
PASS gpu.pcie [GPU 0 0000:18:00.0] gen 5 x16 of gen 5 x16
PASS gpu.clocks [GPU 0 0000:18:00.0] free
PASS gpu.temperature [GPU 0 0000:18:00.0] 31 C, slows down at 87 C
PASS gpu.memory_temperature [GPU 0 0000:18:00.0] 42 C, slows down at 95 C
PASS gpu.power_cap [GPU 0 0000:18:00.0] 700 of 700 W
PASS gpu.persistence [GPU 0 0000:18:00.0] on
PASS gpu.mig [GPU 0 0000:18:00.0] off
PASS gpu.compute_mode [GPU 0 0000:18:00.0] default
PASS gpu.processes [GPU 0 0000:18:00.0] none of others
PASS gpu.memory [GPU 0 0000:18:00.0] 563 MiB in use
)";
  const std::size_t next = first.find("PASS gpu.nvlink ");
  std::string second =
      first.substr(0, next) + "PASS gpu.retired_pages [GPU 0 0000:18:00.0] none\n" + first.substr(next);
  for (std::size_t at = 0; (at = second.find("GPU 0 0000:18")) != std::string::npos;)
    second.replace(at, 13, "GPU 1 0000:19");
  CHECK(said(rows_of(host)) == all + first + second);
}

TEST_CASE("Reasons and remedies are told word by word", "[doctor][gpu]") {
  std::vector<DoctorRow> rows;
  for (const SickGpu& one : kSick) rows.push_back(only(one.change));
  CHECK(
      said(rows) ==
      R"(FAIL gpu.lost [GPU 2 0000:20:00.0] lost: it no longer answers the driver; run dmesg | grep Xid; reboot; check power and PCIe seating of the board; return it if it comes again
FAIL gpu.needs_reset [GPU 2 0000:20:00.0] needs a reset: the driver refuses it until you reset it; run nvidia-smi -r -i 2, or reboot
FAIL gpu.ecc [GPU 2 0000:20:00.0] 1 uncorrected: memory errors that were not corrected, since the driver was loaded; drain the host, reset the GPU; return the board if it comes again
FAIL gpu.ecc [GPU 2 0000:20:00.0] 3 uncorrected in SRAM: errors in the GPU's own memories cannot be mapped away; return the board
WARN gpu.ecc [GPU 2 0000:20:00.0] 10001 corrected in SRAM, 0 in DRAM: unusually many errors, all corrected; watch it: uncorrected ones may follow
WARN gpu.ecc [GPU 2 0000:20:00.0] 0 corrected in SRAM, 20000001 in DRAM: unusually many errors, all corrected; watch it: uncorrected ones may follow
FAIL gpu.row_remap [GPU 2 0000:20:00.0] pending: a bad row of memory waits to be replaced; drain the host; run nvidia-smi -r -i 2, or reboot
FAIL gpu.row_remap [GPU 2 0000:20:00.0] failed: a bad row of memory could not be replaced; return the board
FAIL gpu.row_remap [GPU 2 0000:20:00.0] failed: a bad row of memory could not be replaced; return the board
WARN gpu.row_remap [GPU 2 0000:20:00.0] 2 replaced: rows of memory with uncorrected errors were replaced; the GPU is healthy again; watch it; return the board if the number grows
WARN gpu.retired_pages [GPU 2 0000:20:00.0] 4 retired: bad pages of memory were taken out of use; watch it; NVIDIA replaces boards from 60 on
FAIL gpu.retired_pages [GPU 2 0000:20:00.0] pending: a bad page of memory waits to be retired; drain the host; run nvidia-smi -r -i 2, or reboot
FAIL gpu.nvlink [GPU 2 0000:20:00.0] 17 of 18 active: down: link 5; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink [GPU 2 0000:20:00.0] 17 of 17 active: 18 are expected; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink_speed [GPU 2 0000:20:00.0] 13281 MB/s: a link is slower than 26562 MB/s; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] not started: the GPU is not registered with the NVSwitch fabric; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] in progress: the GPU is not registered with the NVSwitch fabric; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] error 999: registration with the NVSwitch fabric failed; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] clique 7: another clique than GPU 0: no NVLink between them; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] degraded: the fabric has less bandwidth than it should; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.fabric [GPU 2 0000:20:00.0] route unhealthy: a way through the NVSwitches is broken; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
WARN gpu.fabric [GPU 2 0000:20:00.0] recovering: the fabric is being repaired; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
WARN gpu.multicast [GPU 2 0000:20:00.0] not supported: no reductions inside NVSwitch (NVLS): all_reduce is a quarter slower; install driver and fabric manager of one version, from 530 on; give a virtual machine all GPUs of the board
WARN gpu.cumem [GPU 2 0000:20:00.0] not supported: memory cannot be shared by handles: no CUMEM and no NVLS; install NVIDIA's driver from 470 on; give a container the same capabilities as the host's programs
FAIL gpu.p2p [GPU 2 0000:20:00.0] with none: GPUs cannot reach each other's memory: not supported; run nvidia-smi topo -p2p r; turn IOMMU and ACS off; check the driver's settings
WARN gpu.p2p [GPU 2 0000:20:00.0] not with GPU 0,3: GPUs cannot reach each other's memory: disabled in the driver's settings; run nvidia-smi topo -p2p r; turn IOMMU and ACS off; check the driver's settings
FAIL gpu.clocks [GPU 2 0000:20:00.0] slowed by heat (hardware): the clocks are held down; check cooling and power of the host: nvidia-smi -q -d PERFORMANCE
FAIL gpu.clocks [GPU 2 0000:20:00.0] slowed by heat (driver): the clocks are held down; check cooling and power of the host: nvidia-smi -q -d PERFORMANCE
FAIL gpu.clocks [GPU 2 0000:20:00.0] slowed by power brake: the clocks are held down; check cooling and power of the host: nvidia-smi -q -d PERFORMANCE
FAIL gpu.clocks [GPU 2 0000:20:00.0] slowed by hardware (heat or power): the clocks are held down; check cooling and power of the host: nvidia-smi -q -d PERFORMANCE
WARN gpu.clocks [GPU 2 0000:20:00.0] slowed by the power cap: the GPU works at its power limit; check with nvidia-smi that nobody else's job is there; read the limit: nvidia-smi -q -d POWER
FAIL gpu.temperature [GPU 2 0000:20:00.0] 87 C, slows down at 87 C: too hot; check air flow, fans, filters and coolant of the host
WARN gpu.temperature [GPU 2 0000:20:00.0] 78 C, slows down at 87 C: little margin below the threshold; check air flow, fans, filters and coolant of the host
FAIL gpu.memory_temperature [GPU 2 0000:20:00.0] 96 C, slows down at 95 C: too hot; check air flow, fans, filters and coolant of the host
WARN gpu.power_cap [GPU 2 0000:20:00.0] 500 of 700 W: the power limit is below the default; run nvidia-smi -i 2 -pl 700
FAIL gpu.pcie [GPU 2 0000:20:00.0] gen 5 x8 of gen 5 x16: the PCIe link lost lanes; check seating, riser and slot of the board; run lspci -vv (LnkSta)
WARN gpu.pcie [GPU 2 0000:20:00.0] gen 3 x16 of gen 5 x16: the PCIe link is slower than GPU and slot allow; check again under load; check slot and BIOS settings; run lspci -vv (LnkSta)
WARN gpu.persistence [GPU 2 0000:20:00.0] off: the driver starts the GPU again for every job: slow first calls; run systemctl enable --now nvidia-persistenced
WARN gpu.mig [GPU 2 0000:20:00.0] on: the GPU is divided: NCCL sees parts, without NVLink; run nvidia-smi -i 2 -mig 0
WARN gpu.compute_mode [GPU 2 0000:20:00.0] exclusive: only one process may use it; run nvidia-smi -i 2 -c DEFAULT
FAIL gpu.compute_mode [GPU 2 0000:20:00.0] prohibited: no program may use it; run nvidia-smi -i 2 -c DEFAULT
FAIL gpu.processes [GPU 2 0000:20:00.0] python: 2000 MB by process 77: somebody else's process holds memory there; end it, or use another host
WARN gpu.memory [GPU 2 0000:20:00.0] 41000 MiB in use: others of the host have 563 MiB in use: a process that is not visible from here?; run nvidia-smi on the host itself; look for a job that did not end
)");
}

TEST_CASE("What is wrong with a whole board is told word by word", "[doctor][gpu]") {
  std::string text;
  const auto tell = [&](const std::function<void(HostGpus&)>& change) {
    HostGpus host = healthy_host();
    host.gpus.resize(3);
    host.on_bus = 3;
    for (GpuFacts& gpu : host.gpus) gpu.p2p.resize(3);
    change(host);
    text += said(bad_rows(host)) + "-\n";
  };
  tell([](HostGpus& h) { h.gpus[0].fabric->state = 2; });
  tell([](HostGpus& h) { h.gpus[0].fabric->cluster = "11"; });
  tell([](HostGpus& h) { h.gpus[1].fabric->health = 0x40; });
  tell([](HostGpus& h) { h.gpus[1].fabric->health = 0x2 | 0x8 | 0x10 | 0x80; });
  tell([](HostGpus& h) {
    for (GpuFacts& gpu : h.gpus) gpu.nvlinks.resize(17);
  });
  tell([](HostGpus& h) {
    for (GpuFacts& gpu : h.gpus) {
      for (NvLink& link : gpu.nvlinks) link.speed_mbps = 25000;
    }
  });
  tell([](HostGpus& h) {
    for (GpuFacts& gpu : h.gpus) {
      gpu.model = "NVIDIA L40S";
      gpu.nvlinks.clear();
      gpu.fabric.reset();
    }
    h.gpus[0].p2p = {0, 1, 2};
    h.gpus[1].p2p = {3, 0, 0};
    h.gpus[2].p2p = {0, 9, 0};
  });
  tell([](HostGpus& h) {
    h.gpus[0].multicast = h.gpus[0].cumem = false;
    h.gpus[0].mig = true;
    h.gpus[1].multicast = false;
  });
  tell([](HostGpus& h) {
    h.gpus[0].compute_mode = 3;
    h.gpus[0].processes = {{7, 100000001, "", false}, {8, 100000000, "small", false}, {9, 5000000000, "big", false}};
  });
  tell([](HostGpus& h) {
    h.gpus[0].memory_used = (1ULL << 30) + 590809985ULL;
    h.gpus[1].memory_used = (1ULL << 30) + 590809984ULL;
  });
  tell([](HostGpus& h) {
    h.gpus[0].power_limit_w = 699;
    h.gpus[1].power_limit_w = 698.9;
    h.gpus[2].temperature_c = 77;
    h.gpus[2].slowdown_c = 0;
    h.gpus[1].sram_corrected = 10000;
    h.gpus[1].dram_corrected = 20000000;
    h.gpus[0].rows_remapped_uncorrected = 512;
  });
  tell([](HostGpus& h) {
    h.gpus[0].model = "NVIDIA H100 PCIe";
    h.gpus[1].memory_nbytes.reset();
    h.gpus[2].lost = true;
  });
  tell([](HostGpus& h) {
    h.on_bus = 4;
    h.gpus[1].pcie_generation_max.reset();
    h.gpus[1].pcie_generation = 4;
    h.gpus[2].pcie_width_max.reset();
    h.gpus[2].pcie_width = 8;
  });
  for (const bool library : {false, true}) {
    for (const int on_bus : {0, 2}) {
      for (const bool silent : {false, true}) {
        HostGpus none;
        none.library = library;
        none.on_bus = on_bus;
        none.silent = silent;
        none.problem = "a problem";
        text += said(rows_of(none));
      }
    }
  }
  HostGpus nothing;
  nothing.library = true;
  text += said(rows_of(nothing));
  CHECK(
      text ==
      R"(FAIL gpu.fabric [GPU 0 0000:18:00.0] in progress: the GPU is not registered with the NVSwitch fabric; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
FAIL gpu.fabric [GPU 0 0000:18:00.0] clique 0: another clique than GPU 1: no NVLink between them; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
WARN gpu.fabric [GPU 1 0000:19:00.0] recovering: the fabric is being repaired; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
FAIL gpu.fabric [GPU 1 0000:19:00.0] route unhealthy: a way through the NVSwitches is broken; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
FAIL gpu.nvlink [GPU 0 0000:18:00.0] 17 of 17 active: 18 are expected; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink [GPU 1 0000:19:00.0] 17 of 17 active: 18 are expected; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink [GPU 2 0000:20:00.0] 17 of 17 active: 18 are expected; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
FAIL gpu.nvlink_speed [GPU 0 0000:18:00.0] 25000 MB/s: a link is slower than 26562 MB/s; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink_speed [GPU 1 0000:19:00.0] 25000 MB/s: a link is slower than 26562 MB/s; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
FAIL gpu.nvlink_speed [GPU 2 0000:20:00.0] 25000 MB/s: a link is slower than 26562 MB/s; run nvidia-smi nvlink -s; check systemctl status nvidia-fabricmanager; reset all GPUs
-
WARN gpu.p2p [GPU 0 0000:18:00.0] with none: GPUs cannot reach each other's memory: GPU not supported; run nvidia-smi topo -p2p r; turn IOMMU and ACS off; check the driver's settings
WARN gpu.p2p [GPU 1 0000:19:00.0] not with GPU 0: GPUs cannot reach each other's memory: bridges between them not supported; run nvidia-smi topo -p2p r; turn IOMMU and ACS off; check the driver's settings
WARN gpu.p2p [GPU 2 0000:20:00.0] not with GPU 1: GPUs cannot reach each other's memory: unknown; run nvidia-smi topo -p2p r; turn IOMMU and ACS off; check the driver's settings
-
WARN gpu.mig [GPU 0 0000:18:00.0] on: the GPU is divided: NCCL sees parts, without NVLink; run nvidia-smi -i 0 -mig 0
WARN gpu.multicast [GPU 1 0000:19:00.0] not supported: no reductions inside NVSwitch (NVLS): all_reduce is a quarter slower; install driver and fabric manager of one version, from 530 on; give a virtual machine all GPUs of the board
-
FAIL gpu.compute_mode [GPU 0 0000:18:00.0] exclusive: one process may use it, and another one does; run nvidia-smi -i 0 -c DEFAULT
FAIL gpu.processes [GPU 0 0000:18:00.0] 100 MB by process 7, big: 5000 MB by process 9: somebody else's process holds memory there; end it, or use another host
-
-
WARN gpu.row_remap [GPU 0 0000:18:00.0] 512 replaced: rows of memory with uncorrected errors were replaced; the GPU is healthy again; watch it; return the board if the number grows
WARN gpu.power_cap [GPU 1 0000:19:00.0] 699 of 700 W: the power limit is below the default; run nvidia-smi -i 1 -pl 700
-
WARN gpu.model [] 1 x NVIDIA H100 80GB HBM3, 1 x NVIDIA H100 PCIe 81559 MiB, WARN if it differs: not the same on all GPUs of the host; use hosts of one kind
FAIL gpu.lost [GPU 2 0000:20:00.0] lost: it no longer answers the driver; run dmesg | grep Xid; reboot; check power and PCIe seating of the board; return it if it comes again
-
WARN gpu.count [] 3, FAIL if it differs: the PCI bus shows 4: the driver does not manage all, or the container was not given all; run nvidia-smi -L and lspci -d 10de: on that host; then dmesg | grep NVRM
-
SKIP gpu.count [] : a problem
SKIP gpu.count [] : a problem
WARN gpu.count [] 2 on the PCI bus: a problem; install the driver, or give the container its GPUs (--gpus all)
WARN gpu.count [] 2 on the PCI bus: a problem; install the driver, or give the container its GPUs (--gpus all)
SKIP gpu.count [] : NVML: a problem
FAIL gpu.count [] 0 on the PCI bus: NVML: a problem; run nvidia-smi; dmesg | grep NVRM; reboot
FAIL gpu.count [] 2 on the PCI bus: NVML: a problem; run nvidia-smi; dmesg | grep NVRM; reboot
FAIL gpu.count [] 2 on the PCI bus: NVML: a problem; run nvidia-smi; dmesg | grep NVRM; reboot
PASS gpu.count [] 0, FAIL if it differs; run nvidia-smi -L and lspci -d 10de: on that host; then dmesg | grep NVRM
)");
}

TEST_CASE("A healthy board passes", "[doctor][gpu]") {
  CHECK(bad_rows(healthy_host()).empty());
  CHECK(rows_of(healthy_host()).size() > 8 * 10);
}

TEST_CASE("What is wrong with a GPU is told as that", "[doctor][gpu]") {
  for (const SickGpu& one : kSick) {
    INFO(one.check << " " << one.value);
    const DoctorRow row = only(one.change);
    CHECK(row.check == one.check);
    CHECK(row.outcome == one.outcome);
    CHECK(row.value == one.value);
  }
}

TEST_CASE("What is not a fault is not told as one", "[doctor][gpu]") {
  const std::vector<std::function<void(HostGpus&)>> changes = {
      [](HostGpus& h) { h.gpus[2].pcie_generation = 1; },  // idle saves power
      [](HostGpus& h) { h.gpus[2].clock_reasons = 0x5; },  // idle at its cap
      [](HostGpus& h) { h.gpus[2].temperature_c = 77; },
      [](HostGpus& h) {
        h.gpus[2].processes = {{1, 30000000, "nvidia-cuda-mps", false}};
      },
      [](HostGpus& h) {  // another rank of ours
        h.gpus[2].processes = {{1, 3000000000ULL, "busbar-ranks", true}};
        h.gpus[2].memory_used = 4ULL << 30;
      },
      [](HostGpus& h) {  // a lone GPU of a board that is shared out
        h.gpus.resize(1);
        h.on_bus = 1;
        h.gpus[0].multicast = false;
        for (NvLink& link : h.gpus[0].nvlinks) link = {link.link, false, std::nullopt};
      },
      [](HostGpus& h) {  // cards without NVLink and fabric
        for (GpuFacts& g : h.gpus) {
          g.model = "NVIDIA L40S";
          g.nvlinks.clear();
          g.fabric.reset();
          g.multicast = false;
        }
      },
      [](HostGpus& h) {  // an old model tells little
        GpuFacts bare;
        bare.model = "Tesla P4";
        h.gpus.assign(8, bare);
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO(i);
    HostGpus host = healthy_host();
    changes[i](host);
    CHECK(bad_rows(host).empty());
  }
}

TEST_CASE("All NVLinks of a board down is a fault of the fabric", "[doctor][gpu]") {
  HostGpus host = healthy_host();
  for (GpuFacts& gpu : host.gpus) {
    for (NvLink& link : gpu.nvlinks) link = {link.link, false, std::nullopt};
  }
  const auto rows = bad_rows(host);
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].check == "gpu.nvlink");
  CHECK(rows[0].outcome == Outcome::fail);
}

TEST_CASE("GPUs of one host that differ are told with the odd one", "[doctor][gpu]") {
  HostGpus host = healthy_host();
  host.gpus[3].vbios = "96.00.00.00.00";
  host.gpus[5].ecc = false;
  const auto rows = bad_rows(host);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].check == "gpu.vbios");
  CHECK(rows[0].value == "7 x 96.00.89.00.01, 1 x 96.00.00.00.00 (GPU 3)");
  CHECK(rows[1].check == "gpu.ecc_mode");
  CHECK(rows[1].value == "7 x on, 1 x off (GPU 5)");
}

TEST_CASE("Count and model must agree between hosts", "[doctor][gpu]") {
  const Rows rows = rows_of(healthy_host());
  REQUIRE(rows[0].check == "gpu.count");
  CHECK(rows[0].value == "8");
  CHECK(rows[0].must_agree);
  CHECK(rows[0].if_differs == Outcome::fail);
  CHECK(rows[1].value == "8 x NVIDIA H100 80GB HBM3 81559 MiB");
  CHECK(rows[1].must_agree);
}

TEST_CASE("No GPU is a skip, a GPU without its driver is not", "[doctor][gpu]") {
  HostGpus host;
  host.problem = "no NVIDIA driver here";
  CHECK(rows_of(host).at(0).outcome == Outcome::skip);
  host.on_bus = 8;
  CHECK(rows_of(host).at(0).outcome == Outcome::warn);
  host.library = true;
  host.problem = "Driver/library version mismatch";
  CHECK(rows_of(host).at(0).outcome == Outcome::fail);
  host.on_bus = 0;
  CHECK(rows_of(host).at(0).outcome == Outcome::skip);
  host.problem = "NVML does not answer within 30 s: the driver may wait for a GPU";
  host.silent = true;
  CHECK(rows_of(host).at(0).outcome == Outcome::fail);
  HostGpus seven = healthy_host();
  seven.gpus.pop_back();
  for (GpuFacts& gpu : seven.gpus) gpu.p2p.pop_back();
  const auto rows = bad_rows(seven);
  REQUIRE(rows.size() == 1);
  CHECK_THAT(rows[0].reason, Contains("the PCI bus shows 8"));
}

TEST_CASE("Models with NVSwitch are known by name", "[doctor][gpu]") {
  CHECK(nvlink_model("NVIDIA H100 80GB HBM3").links == 18);
  CHECK(nvlink_model("NVIDIA H100 80GB HBM3").speed_mbps == 26562);
  CHECK(nvlink_model("NVIDIA H200").speed_mbps == 26562);
  CHECK(nvlink_model("NVIDIA B300 SXM6 AC").speed_mbps == 53125);
  CHECK(nvlink_model("NVIDIA B300 SXM6 AC").links == 18);
  CHECK(nvlink_model("NVIDIA A100-SXM4-80GB").speed_mbps == 0);
  CHECK(nvlink_model("NVIDIA H100 PCIe").links == 0);
  CHECK(nvlink_model("NVIDIA H200 NVL").links == 0);
  CHECK(nvlink_model("NVIDIA A100-SXM4-80GB").links == 12);
  CHECK(nvlink_model("NVIDIA GB200").speed_mbps == 53125);
  CHECK(nvlink_model("NVIDIA L40S").links == 0);
}

#ifdef BUSBAR_FAKE_NVML
namespace {

HostGpus read_fake(const char* mode) {
  setenv("BUSBAR_FAKE_NVML", mode, 1);
  HostGpus host = read_gpus(BUSBAR_FAKE_NVML);
  unsetenv("BUSBAR_FAKE_NVML");
  host.on_bus = 2;  // the machine's own has none or others
  return host;
}

}  // namespace

TEST_CASE("What NVML tells reaches the facts", "[doctor][gpu]") {
  const HostGpus host = read_fake("");
  CHECK(host.driver == "580.82.07");
  REQUIRE(host.gpus.size() == 2);
  const GpuFacts& gpu = host.gpus[1];
  CHECK(gpu.bus_id == "0000:2a:00.0");
  CHECK(gpu.model == "NVIDIA H100 80GB HBM3");
  CHECK(gpu.memory_nbytes == 85520809984ULL);
  CHECK(gpu.nvlinks.size() == 18);
  CHECK(gpu.nvlinks[17].speed_mbps == 26562);
  CHECK(gpu.nvlink_replays == 7);
  CHECK(gpu.nvlink_crc_errors == 0);
  REQUIRE(gpu.fabric);
  CHECK(gpu.fabric->cluster == "abababababababababababababababab");
  CHECK(gpu.fabric->clique == 5);
  CHECK(gpu.power_limit_w == 700);
  CHECK(gpu.temperature_c == 33);
  CHECK(gpu.slowdown_c == 87);
  CHECK(gpu.memory_temperature_c == 45);
  CHECK(gpu.pcie_replays == 3);
  CHECK_FALSE(gpu.pages_retired);
  CHECK(gpu.p2p == std::vector<int>{0, 0});
  CHECK(bad_rows(host).empty());
}

TEST_CASE("A sick GPU behind NVML is found, a lost one and a dead driver too", "[doctor][gpu]") {
  std::vector<std::string> checks;
  for (const DoctorRow& row : bad_rows(read_fake("sick"))) {
    if (row.subject == "GPU 1 0000:2a:00.0") checks.push_back(row.check);
  }
  CHECK(checks == std::vector<std::string>{"gpu.ecc", "gpu.row_remap", "gpu.nvlink", "gpu.pcie", "gpu.clocks",
                                           "gpu.power_cap", "gpu.processes"});
  const auto lost = bad_rows(read_fake("lost"));
  CHECK(std::any_of(lost.begin(), lost.end(), [](const DoctorRow& row) { return row.check == "gpu.lost"; }));
  const HostGpus dead = read_fake("dead");
  CHECK(dead.problem == "Driver Not Loaded");
  CHECK(bad_rows(dead).at(0).outcome == Outcome::fail);
}

TEST_CASE("CUDA's driver tells what NVML does not, of the GPUs that it shows", "[doctor][gpu]") {
  const auto ask = [](const char* mode) {
    setenv("BUSBAR_FAKE_NVML", mode, 1);
    const std::vector<CudaAbilities> found = ask_cuda(BUSBAR_FAKE_NVML);
    unsetenv("BUSBAR_FAKE_NVML");
    return found;
  };
  REQUIRE(ask("").size() == 1);
  CHECK(ask("")[0].bus_id == "0000:2a:00.0");
  CHECK(ask("")[0].multicast);
  CHECK(ask("")[0].cumem);
  CHECK_FALSE(ask("sick").at(0).multicast);
  CHECK(ask("dead").empty());
  CHECK(ask_cuda("libc.so.6").empty());
  CHECK(ask_cuda("libno-such-cuda.so.1").empty());
}

TEST_CASE("XIDs that come while a run goes on are heard, once each", "[doctor][gpu]") {
  setenv("BUSBAR_FAKE_NVML", "xid", 1);
  const XidListener listener(BUSBAR_FAKE_NVML);
  unsetenv("BUSBAR_FAKE_NVML");
  REQUIRE(listener.listens());
  const std::vector<DoctorRow> rows = xid_rows(listener.heard());
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].check == "gpu.xid");
  CHECK(rows[0].subject == "GPU 1 0000:2a:00.0");
  CHECK(rows[0].value == "XID 79, once");
  CHECK(rows[0].outcome == Outcome::fail);
  CHECK_THAT(rows[0].reason, Contains("bus"));
  CHECK(!rows[0].remedy.empty());
  CHECK(rows[1].value == "XID 31, 2 times");
  CHECK(rows[1].outcome == Outcome::warn);
  CHECK(rows[2].value == "XID 43, once");
  CHECK(rows[2].outcome == Outcome::pass);
  CHECK(listener.heard().empty());

  const XidListener healthy(BUSBAR_FAKE_NVML);
  CHECK(healthy.listens());
  CHECK(healthy.heard().empty());
}
#endif

TEST_CASE("Without a driver nothing is heard, and an XID that speaks elsewhere is not a verdict", "[doctor][gpu]") {
  const XidListener none("libno-such-nvml.so.1");
  CHECK_FALSE(none.listens());
  CHECK(none.heard().empty());
  CHECK_FALSE(XidListener("libc.so.6").listens());
  // 154 says in the kernel's log what is to be done; the event has the number alone.
  const std::vector<XidEvent> told{{"GPU 0", 154}};
  CHECK(xid_rows(told).at(0).outcome == Outcome::warn);
}

TEST_CASE("This machine's GPUs are told or skipped with a reason", "[doctor][gpu]") {
  Rows rows;
  check_gpus(rows);
  REQUIRE(!rows.empty());
  CHECK(rows[0].check == "gpu.count");
  CHECK((rows[0].outcome == Outcome::pass || !rows[0].reason.empty()));
  CHECK(read_gpus("libc.so.6").problem.find("lacks") != std::string::npos);
}
