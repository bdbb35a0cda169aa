#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace busbar {

// Libraries that come with a driver are loaded, not linked, so that programs start without them.

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using SharedLibrary = std::unique_ptr<void, CloseLibrary>;

/// Null if it does not exist.
inline SharedLibrary open_library(const std::string& name) {
  return SharedLibrary(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
}

/// A function of an open library by its name, as the type that it is assigned to; null if there is none.
struct Symbol {
  void* library;
  const char* name;

  template <class Function>
  operator Function*() const {
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  }
};

}  // namespace busbar
