#include "common/backends/nccl/device_choice.h"

#include "common/base/error.h"

#include <fmt/format.h>

namespace busbar {
namespace {

int first_device(const DeviceRequest& r) {
  if (r.base_device) return *r.base_device;
  if (r.own_gpus) return 0;
  if (r.ranks_per_gpu > 1) return r.local_rank / r.ranks_per_gpu;
  return r.local_rank * r.per_process;
}

}  // namespace

std::vector<int> choose_devices(const DeviceRequest& request) {
  const int first = first_device(request);
  const int last = first + request.per_process - 1;
  if (first < 0 || last >= request.visible) {
    throw Error(
        ExitCode::not_possible,
        fmt::format("process {} of this host needs GPU{} {}, but {} usable here: start fewer processes per host, "
                    "lower -t or -g, or check {}",
                    request.local_rank, first == last ? "" : "s",
                    first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last),
                    request.visible == 1 ? "only GPU 0 is" : fmt::format("only {} are", request.visible),
                    request.base_device ? "NCCL_TESTS_DEVICE" : "CUDA_VISIBLE_DEVICES"));
  }
  std::vector<int> devices(request.per_process);
  for (int i = 0; i < request.per_process; ++i) devices[i] = first + i;
  return devices;
}

}  // namespace busbar
