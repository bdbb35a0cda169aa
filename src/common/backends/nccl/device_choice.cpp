#include "common/backends/nccl/device_choice.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

std::vector<ProcessSetting> shared_gpu_environment(int rank, bool one_host) {
  std::vector<ProcessSetting> settings{
      {"NCCL_HOSTID", fmt::format("busbar-{}", rank), true},
      {"NCCL_NET", "Socket"},
      {"NCCL_NET_PLUGIN", "none"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_SOCKET_FAMILY", "AF_INET"},
      // Several "hosts" look like one NVLink domain to NCCL, whose set-up then fails without an IMEX channel.
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      // Connected at init: no rank allocates while another's kernel spins on the same GPU.
      {"NCCL_RUNTIME_CONNECT", "0"},
      // Clusters need several free SMs of one GPC at the same time; single blocks fit beside other ranks' kernels.
      {"NCCL_CGA_CLUSTER_SIZE", "0"},
  };
  if (one_host) settings.push_back({"NCCL_SOCKET_IFNAME", "lo"});
  return settings;
}

std::vector<ProcessSetting> ras_environment(int port, const std::optional<std::string>& users) {
  if (users) return {{"NCCL_RAS_ADDR", *users}};
  if (port <= 0) return {};
  return {{"NCCL_RAS_ADDR", fmt::format("localhost:{}", port)}};
}

void apply(std::span<const ProcessSetting> settings) {
  for (const ProcessSetting& s : settings) setenv(s.name.c_str(), s.value.c_str(), s.overwrite ? 1 : 0);
}

std::string ranks_per_gpu_remark(int ranks_per_gpu) {
  if (ranks_per_gpu == 1) return {};
  return fmt::format("{} ranks per GPU over sockets: a functional run, its timings say little about the hardware",
                     ranks_per_gpu);
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = bind(fd, generic, length) == 0 && getsockname(fd, generic, &length) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

Backend::MemoryLimit gpu_memory_limit(std::size_t free_bytes, std::size_t total_bytes, int sharers) {
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  // nccl-tests' reserve: 1 GiB for each 16 GiB installed, at most 4: buffers that NCCL connects on first use, graphs.
  const std::size_t installed_steps = (total_bytes + 16 * kGiB - 1) / (16 * kGiB);
  const std::size_t reserve = std::min(installed_steps * kGiB, 4 * kGiB);
  const std::size_t left = free_bytes > reserve ? free_bytes - reserve : 0;
  const std::size_t share = left / static_cast<std::size_t>(sharers);
  std::string text = fmt::format("GPU memory: {} free - {} reserve", format_bytes(free_bytes), format_bytes(reserve));
  if (sharers > 1) text = fmt::format("({}) / {} ranks per GPU", text, sharers);
  return {share, fmt::format("{} = {} per rank", text, format_bytes(share))};
}

}  // namespace busbar
