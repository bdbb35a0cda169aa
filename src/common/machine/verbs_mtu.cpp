#include "common/machine/verbs_mtu.h"

#include <dlfcn.h>

#include <cstdint>
#include <memory>

namespace busbar {
namespace {

// Of libibverbs' interface what is asked, as its own header has it (ibv_query_port(3)); the opaque types are pointers.
struct PortAttributes {  // begins as ibv_port_attr does, and has room for all of it
  int state, max_mtu, active_mtu;
  char rest[256];
};

struct VerbsCalls {
  void** (*devices)(int* count) = nullptr;
  void (*free_devices)(void**) = nullptr;
  const char* (*name)(void* device) = nullptr;
  void* (*open)(void* device) = nullptr;
  int (*close)(void* context) = nullptr;
  int (*query)(void* context, std::uint8_t port, PortAttributes*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// enum ibv_mtu: 1 is 256 bytes, 5 is 4096.
int nbytes_of(int mtu) { return mtu >= 1 && mtu <= 5 ? 128 << mtu : 0; }

void ask_device(const VerbsCalls& calls, void* device, std::vector<VerbsMtu>& found) {
  void* context = calls.open(device);
  if (context == nullptr) return;
  constexpr std::uint8_t kMostPorts = 8;
  for (std::uint8_t port = 1; port <= kMostPorts; ++port) {
    PortAttributes attributes{};
    if (calls.query(context, port, &attributes) != 0) break;
    found.push_back({calls.name(device), port, nbytes_of(attributes.active_mtu), nbytes_of(attributes.max_mtu)});
  }
  (void)calls.close(context);
}

}  // namespace

std::vector<VerbsMtu> ask_active_mtus(const std::string& library) {
  const auto close = [](void* handle) { dlclose(handle); };
  const std::unique_ptr<void, decltype(close)> opened(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), close);
  VerbsCalls calls;
  const bool able =
      opened != nullptr && find(opened.get(), "ibv_get_device_list", calls.devices) &&
      find(opened.get(), "ibv_free_device_list", calls.free_devices) &&
      find(opened.get(), "ibv_get_device_name", calls.name) && find(opened.get(), "ibv_open_device", calls.open) &&
      find(opened.get(), "ibv_close_device", calls.close) && find(opened.get(), "ibv_query_port", calls.query);
  std::vector<VerbsMtu> found;
  int count = 0;
  void** devices = able ? calls.devices(&count) : nullptr;
  if (devices == nullptr) return found;
  for (int i = 0; i < count; ++i) ask_device(calls, devices[i], found);
  calls.free_devices(devices);
  return found;
}

}  // namespace busbar
