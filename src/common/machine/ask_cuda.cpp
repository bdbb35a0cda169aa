#include "common/machine/ask_cuda.h"

#include "common/machine/nvml_device.h"
#include "common/machine/nvml_library.h"

#include <array>

namespace busbar {
namespace {

// CUDA's driver interface as its documentation gives it; results and devices are ints, 0 is success.
constexpr int kMemoryManagement = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kShareableHandles = 103;  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
constexpr int kMulticast = 132;         // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED

struct CudaCalls {
  int (*init)(unsigned flags) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int index) = nullptr;
  int (*bus_id)(char*, int length, int device) = nullptr;
  int (*attribute)(int*, int which, int device) = nullptr;
};

}  // namespace

std::vector<CudaAbilities> ask_cuda(const std::string& name) {
  const NvmlLibrary library = open_nvml(name);
  CudaCalls calls;
  const bool able = library != nullptr && find_in(library, "cuInit", calls.init) &&
                    find_in(library, "cuDeviceGetCount", calls.count) &&
                    find_in(library, "cuDeviceGet", calls.device) &&
                    find_in(library, "cuDeviceGetPCIBusId", calls.bus_id) &&
                    find_in(library, "cuDeviceGetAttribute", calls.attribute);
  int count = 0;
  std::vector<CudaAbilities> found;
  if (!able || calls.init(0) != 0 || calls.count(&count) != 0) return found;
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

}  // namespace busbar
