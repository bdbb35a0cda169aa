#include "common/cluster/nvml.h"

#include <dlfcn.h>

#include <memory>

namespace busbar {
namespace {

// NVML's stable C interface, as its documentation gives it: a result of 0 is success.
using Result = int;

struct Nvml {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*driver_version)(char* text, unsigned length) = nullptr;
  Result (*device_count)(unsigned* count) = nullptr;
  const char* (*error_string)(Result result) = nullptr;
};

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

template <class Function>
bool find(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  return function != nullptr;
}

bool find_all(const Library& library, Nvml& nvml) {
  return find(library, "nvmlInit_v2", nvml.init) && find(library, "nvmlShutdown", nvml.shutdown) &&
         find(library, "nvmlSystemGetDriverVersion", nvml.driver_version) &&
         find(library, "nvmlDeviceGetCount_v2", nvml.device_count) &&
         find(library, "nvmlErrorString", nvml.error_string);
}

}  // namespace

NvmlFacts ask_nvml(const std::string& library_name) {
  NvmlFacts facts;
  const Library library(dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL));
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
