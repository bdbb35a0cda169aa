#pragma once

#include "common/machine/shared_library.h"

#include <string>
#include <vector>

namespace busbar {

// The part of NVML's stable C interface that we use: our own declarations, checked against nvml.h if there is a CUDA
// toolkit (test/unit/doctor_gpu_test.cpp). Enumerations are ints, as the C ABI passes them.

using NvmlResult = int;
using NvmlDevice = void*;

namespace nvml {

// nvmlReturn_t
constexpr NvmlResult kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7, kTimeout = 10, kFunctionNotFound = 13,
                     kGpuIsLost = 15, kResetRequired = 16;

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

/// A function of NVML, which old drivers may lack: then it returns kFunctionNotFound.
template <class Function>
struct Call;

template <class... Args>
struct Call<NvmlResult(Args...)> {
  NvmlResult (*function)(Args...);

  Call(void* library, const char* name) : function(Symbol{library, name}) {}
  explicit operator bool() const { return function != nullptr; }
  NvmlResult operator()(Args... args) const { return function != nullptr ? function(args...) : kFunctionNotFound; }
};

struct Calls {
  using R = NvmlResult;
  using D = NvmlDevice;
  void* in;  ///< the library; null: there is none
  Call<R()> init{in, "nvmlInit_v2"};
  Call<R()> shutdown{in, "nvmlShutdown"};
  const char* (*error_string)(NvmlResult) = Symbol{in, "nvmlErrorString"};
  Call<R(char*, unsigned)> driver_version{in, "nvmlSystemGetDriverVersion"};
  Call<R(unsigned*)> count{in, "nvmlDeviceGetCount_v2"};
  Call<R(unsigned, D*)> handle{in, "nvmlDeviceGetHandleByIndex_v2"};
  Call<R(D, PciInfo*)> pci{in, "nvmlDeviceGetPciInfo_v3"};
  Call<R(D, char*, unsigned)> name{in, "nvmlDeviceGetName"};
  Call<R(D, char*, unsigned)> uuid{in, "nvmlDeviceGetUUID"};
  Call<R(D, char*, unsigned)> vbios{in, "nvmlDeviceGetVbiosVersion"};
  Call<R(D, Memory*)> memory{in, "nvmlDeviceGetMemoryInfo"};
  Call<R(D, int* current, int* pending)> ecc_mode{in, "nvmlDeviceGetEccMode"};
  Call<R(D, int type, int counter, unsigned long long*)> ecc_total{in, "nvmlDeviceGetTotalEccErrors"};
  Call<R(D, int type, int counter, int location, unsigned long long*)> ecc_at{in, "nvmlDeviceGetMemoryErrorCounter"};
  Call<R(D, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed)> remapped{
      in, "nvmlDeviceGetRemappedRows"};
  Call<R(D, int cause, unsigned* count, unsigned long long* addresses)> retired{in, "nvmlDeviceGetRetiredPages"};
  Call<R(D, int*)> retirement_pending{in, "nvmlDeviceGetRetiredPagesPendingStatus"};
  Call<R(D, unsigned link, int*)> nvlink_state{in, "nvmlDeviceGetNvLinkState"};
  Call<R(D, unsigned link, int counter, unsigned long long*)> nvlink_errors{in, "nvmlDeviceGetNvLinkErrorCounter"};
  Call<R(D, int count, FieldValue*)> fields{in, "nvmlDeviceGetFieldValues"};
  Call<R(D, D, int index, int*)> p2p{in, "nvmlDeviceGetP2PStatus"};
  Call<R(D, FabricInfo*)> fabric{in, "nvmlDeviceGetGpuFabricInfoV"};
  Call<R(D, unsigned long long*)> clock_reasons{in, "nvmlDeviceGetCurrentClocksThrottleReasons"};
  Call<R(D, int sensor, unsigned*)> temperature{in, "nvmlDeviceGetTemperature"};
  Call<R(D, int threshold, unsigned*)> temperature_threshold{in, "nvmlDeviceGetTemperatureThreshold"};
  Call<R(D, unsigned* mw)> power{in, "nvmlDeviceGetPowerUsage"};
  Call<R(D, unsigned* mw)> power_limit{in, "nvmlDeviceGetEnforcedPowerLimit"};
  Call<R(D, unsigned* mw)> power_default{in, "nvmlDeviceGetPowerManagementDefaultLimit"};
  Call<R(D, unsigned*)> pcie_generation{in, "nvmlDeviceGetCurrPcieLinkGeneration"};
  Call<R(D, unsigned*)> pcie_generation_max{in, "nvmlDeviceGetMaxPcieLinkGeneration"};
  Call<R(D, unsigned*)> pcie_width{in, "nvmlDeviceGetCurrPcieLinkWidth"};
  Call<R(D, unsigned*)> pcie_width_max{in, "nvmlDeviceGetMaxPcieLinkWidth"};
  Call<R(D, unsigned*)> pcie_replays{in, "nvmlDeviceGetPcieReplayCounter"};
  Call<R(D, Utilization*)> utilization{in, "nvmlDeviceGetUtilizationRates"};
  Call<R(D, int*)> persistence{in, "nvmlDeviceGetPersistenceMode"};
  Call<R(D, int*)> compute_mode{in, "nvmlDeviceGetComputeMode"};
  Call<R(D, unsigned* current, unsigned* pending)> mig{in, "nvmlDeviceGetMigMode"};
  Call<R(D, unsigned* count, ProcessInfo*)> processes{in, "nvmlDeviceGetComputeRunningProcesses_v3"};
  Call<R(EventSet*)> event_set_create{in, "nvmlEventSetCreate"};
  Call<R(EventSet)> event_set_free{in, "nvmlEventSetFree"};
  Call<R(D, unsigned long long types, EventSet)> register_events{in, "nvmlDeviceRegisterEvents"};
  Call<R(EventSet, EventData*, unsigned timeout_ms)> wait_event{in, "nvmlEventSetWait_v2"};
};

/// NVML while this lives.
struct Driver {
  explicit Driver(const std::string& library_name);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  SharedLibrary library;  ///< null: no driver is installed, or the container was not given it
  Calls calls;
  bool complete = false;  ///< it has the functions that every NVML has
  bool open = false;      ///< and it may be asked
  std::string refusal;    ///< why it may not, in NVML's words

  /// The devices in NVML's order, null if it does not give one; `problem`: why it does not say how many.
  std::vector<NvmlDevice> devices(std::string& problem) const;
};

/// "0000:18:00.0", as sysfs and the kernel's log write it, from NVML's or CUDA's form.
std::string plain_bus_id(std::string id);

/// The same for a device; empty if NVML does not say.
std::string bus_id_of(const Calls& calls, NvmlDevice device);

}  // namespace nvml
}  // namespace busbar
