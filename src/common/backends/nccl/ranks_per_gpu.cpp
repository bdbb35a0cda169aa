#include "common/backends/nccl/ranks_per_gpu.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace busbar {

std::vector<ProcessSetting> shared_gpu_environment(int rank, int ras_port, bool one_host) {
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
  // The default port is shared by all jobs of a user, any of which may then answer for this one.
  if (ras_port > 0) settings.push_back({"NCCL_RAS_ADDR", fmt::format("localhost:{}", ras_port)});
  return settings;
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

}  // namespace busbar
