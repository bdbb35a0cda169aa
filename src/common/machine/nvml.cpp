#include "common/machine/nvml.h"

#include "common/machine/nvml_library.h"

namespace busbar {
namespace {

using Result = NvmlResult;

struct Nvml {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*driver_version)(char* text, unsigned length) = nullptr;
  Result (*device_count)(unsigned* count) = nullptr;
  const char* (*error_string)(Result result) = nullptr;
};

bool find_all(const NvmlLibrary& library, Nvml& nvml) {
  return find_in(library, "nvmlInit_v2", nvml.init) && find_in(library, "nvmlShutdown", nvml.shutdown) &&
         find_in(library, "nvmlSystemGetDriverVersion", nvml.driver_version) &&
         find_in(library, "nvmlDeviceGetCount_v2", nvml.device_count) &&
         find_in(library, "nvmlErrorString", nvml.error_string);
}

}  // namespace

NvmlFacts ask_nvml(const std::string& library_name) {
  NvmlFacts facts;
  const NvmlLibrary library = open_nvml(library_name);
  if (library == nullptr) {
    facts.problem = library_name + " is not there: no NVIDIA driver is installed (or the container was not given it)";
    return facts;
  }
  Nvml nvml;
  if (!find_all(library, nvml)) {
    facts.problem = library_name + " lacks functions that every NVML since 2011 has";
    return facts;
  }
  if (const Result result = nvml.init(); result != 0) {
    facts.problem = std::string("NVML: ") + nvml.error_string(result);
    return facts;
  }
  char version[96] = "";
  if (nvml.driver_version(version, sizeof version) == 0) facts.driver_version = version;
  unsigned count = 0;
  if (nvml.device_count(&count) == 0) facts.gpus = static_cast<int>(count);
  (void)nvml.shutdown();
  return facts;
}

}  // namespace busbar
