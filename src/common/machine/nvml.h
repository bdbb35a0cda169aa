#pragma once

#include "common/machine/shared_library.h"

#include <string>
#include <vector>

namespace busbar {

// What is asked of NVML's stable C interface: our own declarations, checked against nvml.h where a CUDA toolkit is at
// hand (test/unit/doctor_gpu_test.cpp). Enumerations are ints, as the C ABI passes them.

using NvmlResult = int;
using NvmlDevice = void*;

namespace nvml {

// nvmlReturn_t
constexpr NvmlResult kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kTimeout = 10, kGpuIsLost = 15,
                     kResetRequired = 16;

struct PciInfo {  // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct Utilization {     // nvmlUtilization_t
  unsigned gpu, memory;  // [%]
};

struct ProcessInfo {  // nvmlProcessInfo_v2_t, of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

struct FieldValue {  // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp, latency_us;
  int value_type;  // nvmlValueType_t
  NvmlResult result;
  union Value {
    double as_double;
    int as_int;
    unsigned as_unsigned;
    unsigned long as_ulong;
    unsigned long long as_ulonglong;
    long long as_longlong;
    unsigned short as_ushort;
  } value;
};

struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster[16];
  NvmlResult status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
constexpr unsigned kFabricVersion2 = sizeof(FabricInfo) | 2U << 24;  // NVML_STRUCT_VERSION

using EventSet = void*;
struct EventData {  // nvmlEventData_t
  NvmlDevice device;
  unsigned long long type, data;  // of kEventXid: the XID
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kEventXid = 8;  // nvmlEventTypeXidCriticalError

constexpr unsigned kMostLinks = 18;                // NVML_NVLINK_MAX_LINKS
constexpr int kCorrected = 0, kUncorrected = 1;    // nvmlMemoryErrorType_t
constexpr int kVolatile = 0, kAggregate = 1;       // nvmlEccCounterType_t
constexpr int kDram = 2, kSram = 7;                // nvmlMemoryLocation_t
constexpr int kSlowdown = 1, kMemoryMax = 2;       // nvmlTemperatureThresholds_t
constexpr int kP2pRead = 0;                        // nvmlGpuP2PCapsIndex_t
constexpr int kSingleBit = 0, kDoubleBit = 1;      // nvmlPageRetirementCause_t
constexpr unsigned kFieldMemoryTemperature = 82;   // NVML_FI_DEV_MEMORY_TEMP
constexpr unsigned kFieldCommonLinkSpeed = 90;     // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
constexpr unsigned kFieldLinkSpeed = 164;          // NVML_FI_DEV_NVLINK_GET_SPEED, scope: link
constexpr unsigned kFieldLinkReceiveErrors = 208;  // NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, scope: link
constexpr unsigned kFieldLinkRecoveries = 215;     // NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, scope: link
constexpr int kReplays = 0, kRecoveries = 1, kCrcFlit = 2, kCrcData = 3;  // nvmlNvLinkErrorCounter_t

/// Old drivers lack some: what is null is not asked.
struct Calls {
  using R = NvmlResult;
  using D = NvmlDevice;
  R (*init)() = nullptr;
  R (*shutdown)() = nullptr;
  const char* (*error_string)(R) = nullptr;
  R (*driver_version)(char*, unsigned) = nullptr;
  R (*count)(unsigned*) = nullptr;
  R (*handle)(unsigned, D*) = nullptr;
  R (*pci)(D, PciInfo*) = nullptr;
  R (*name)(D, char*, unsigned) = nullptr;
  R (*uuid)(D, char*, unsigned) = nullptr;
  R (*vbios)(D, char*, unsigned) = nullptr;
  R (*memory)(D, Memory*) = nullptr;
  R (*ecc_mode)(D, int* current, int* pending) = nullptr;
  R (*ecc_total)(D, int type, int counter, unsigned long long*) = nullptr;
  R (*ecc_at)(D, int type, int counter, int location, unsigned long long*) = nullptr;
  R (*remapped)(D, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) = nullptr;
  R (*retired)(D, int cause, unsigned* count, unsigned long long* addresses) = nullptr;
  R (*retirement_pending)(D, int*) = nullptr;
  R (*nvlink_state)(D, unsigned link, int*) = nullptr;
  R (*nvlink_errors)(D, unsigned link, int counter, unsigned long long*) = nullptr;
  R (*fields)(D, int count, FieldValue*) = nullptr;
  R (*p2p)(D, D, int index, int*) = nullptr;
  R (*fabric)(D, FabricInfo*) = nullptr;
  R (*clock_reasons)(D, unsigned long long*) = nullptr;
  R (*temperature)(D, int sensor, unsigned*) = nullptr;
  R (*temperature_threshold)(D, int threshold, unsigned*) = nullptr;
  R (*power)(D, unsigned* mw) = nullptr;
  R (*power_limit)(D, unsigned* mw) = nullptr;
  R (*power_default)(D, unsigned* mw) = nullptr;
  R (*pcie_generation)(D, unsigned*) = nullptr;
  R (*pcie_generation_max)(D, unsigned*) = nullptr;
  R (*pcie_width)(D, unsigned*) = nullptr;
  R (*pcie_width_max)(D, unsigned*) = nullptr;
  R (*pcie_replays)(D, unsigned*) = nullptr;
  R (*utilization)(D, Utilization*) = nullptr;
  R (*persistence)(D, int*) = nullptr;
  R (*compute_mode)(D, int*) = nullptr;
  R (*mig)(D, unsigned* current, unsigned* pending) = nullptr;
  R (*processes)(D, unsigned* count, ProcessInfo*) = nullptr;
  R (*event_set_create)(EventSet*) = nullptr;
  R (*event_set_free)(EventSet) = nullptr;
  R (*register_events)(D, unsigned long long types, EventSet) = nullptr;
  R (*wait_event)(EventSet, EventData*, unsigned timeout_ms) = nullptr;
};

/// NVML while this lives.
struct Driver {
  explicit Driver(const std::string& library_name);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  SharedLibrary library;  ///< null: no driver is installed, or the container was not given it
  Calls calls;
  bool complete = false;  ///< what every NVML has is there
  bool open = false;      ///< and it may be asked
  std::string refusal;    ///< why it may not, in NVML's words

  /// The devices in NVML's order, null where it does not give one; `problem`: why it does not tell how many.
  std::vector<NvmlDevice> devices(std::string& problem) const;
};

/// "0000:18:00.0", as sysfs and the kernel's log write it, of what NVML or CUDA write.
std::string plain_bus_id(std::string id);

/// The same of a device; empty where NVML does not tell.
std::string bus_id_of(const Calls& calls, NvmlDevice device);

}  // namespace nvml
}  // namespace busbar
