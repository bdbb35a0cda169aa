#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace busbar {

// Libraries that come with a driver are loaded, not linked, so that programs start where there is none.

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using SharedLibrary = std::unique_ptr<void, CloseLibrary>;

/// Null where it is not there.
inline SharedLibrary open_library(const std::string& name) {
  return SharedLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
}

/// Whether `library` has a function of that name; `function` is null where it has not.
template <class Function>
bool find_in(const SharedLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  return function != nullptr;
}

}  // namespace busbar
