#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace busbar {

// NVML's stable C interface, as its documentation gives it: a result of 0 is success. Loaded, not linked, because it
// comes with the driver.

using NvmlResult = int;

struct CloseNvml {
  void operator()(void* handle) const { dlclose(handle); }
};
using NvmlLibrary = std::unique_ptr<void, CloseNvml>;

inline NvmlLibrary open_nvml(const std::string& name) {
  return NvmlLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
}

/// Whether `name` is there; null then.
template <class Function>
bool find_in(const NvmlLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  return function != nullptr;
}

}  // namespace busbar
