#include "common/backends/nccl/device_kernels.h"

#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"
#include "common/base/units.h"
#include "common/machine/job_interface.h"
#include "common/processes/comm.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace busbar {
namespace {

constexpr int kImplementations = 4;  // -D takes 1 to 4

constexpr std::array<std::string_view, kImplementations> kAllReduceKernels{"LSA", "LSA_VECTOR", "MULTIMEM",
                                                                           "MULTIMEM_VECTOR"};
constexpr std::array<std::string_view, kImplementations> kAlltoallKernels{"LSA", "LSA_VECTOR", "GIN", "GIN_LSA"};

int first_device(const DeviceRequest& r) {
  if (r.base_device) return *r.base_device;
  if (r.own_gpus) return 0;
  if (r.ranks_per_gpu > 1) return r.local_rank / r.ranks_per_gpu;
  return r.local_rank * r.per_process;
}

}  // namespace

std::string_view device_kernel_name(CollectiveId collective, int implementation) {
  if (implementation < 1 || implementation > kImplementations) return {};
  const auto at = static_cast<std::size_t>(implementation - 1);
  if (collective == CollectiveId::all_reduce) return kAllReduceKernels[at];
  if (collective == CollectiveId::alltoall) return kAlltoallKernels[at];
  return {};
}

bool needs_multimem(CollectiveId collective, int implementation) {
  return device_kernel_name(collective, implementation).starts_with("MULTIMEM");
}

bool needs_network(CollectiveId collective, int implementation) {
  return device_kernel_name(collective, implementation).starts_with("GIN");
}

std::string why_no_device_kernel(CollectiveId collective, int implementation, DType dtype, std::optional<Op> op) {
  const std::string_view kernel = device_kernel_name(collective, implementation);
  if (kernel.empty())
    return fmt::format("-D {} has kernels only for all_reduce and alltoall: leave it out", implementation);
  if (op && *op != Op::sum) return fmt::format("device API kernels (-D) add, they have no {}", name(*op));
  if (!op) return {};
  if (is_fp8(dtype)) return fmt::format("device API kernels (-D) do not add {}", name(dtype));
  if (needs_multimem(collective, implementation) && size_of(dtype) == 1)
    return fmt::format("switches (-D {}) do not add {}: use -D 1 or 2", implementation, name(dtype));
  return {};
}

std::string device_header_mismatch(const NcclHeader& of_kernels, const NcclHeader& of_host) {
  if (of_kernels.version == of_host.version && of_kernels.communicator_nbytes == of_host.communicator_nbytes) return {};
  return fmt::format(
      "-D: this build's kernels were compiled with the header of NCCL {} (a communicator of {} bytes) and the rest "
      "with that of {} ({} bytes): remove the other nccl.h from the compilers' include paths (CPATH, "
      "NVCC_APPEND_FLAGS), build again, or leave out -D",
      nccl_version_text(of_kernels.version), of_kernels.communicator_nbytes, nccl_version_text(of_host.version),
      of_host.communicator_nbytes);
}

std::string device_api_mismatch(int header_version, int library_version) {
  // 2.28.7 and 2.29 changed its layout; since then NCCL translates for older headers.
  constexpr std::array kChanges{22807, 22900};
  for (const int change : kChanges) {
    if ((header_version < change) == (library_version < change)) continue;
    return fmt::format(
        "-D needs a library with the same device API as the header that busbar was built with, and between NCCL {} "
        "(header) and {} (library), {} changed it: build with the library's header, or leave out "
        "-D",
        nccl_version_text(header_version), nccl_version_text(library_version), nccl_version_text(change));
  }
  if (header_version >= kChanges.back() && header_version > library_version) {
    return fmt::format(
        "-D needs a library that is no older than the header that busbar was built with, and NCCL {} (library) is "
        "older than {} (header): use a newer library, or leave out -D",
        nccl_version_text(library_version), nccl_version_text(header_version));
  }
  return {};
}

std::vector<int> choose_devices(const DeviceRequest& request) {
  const int first = first_device(request);
  const int last = first + request.per_process - 1;
  if (first < 0 || last >= request.visible) {
    throw_not_possible(
        fmt::format("process {} of this host needs GPU{} {}, but {} usable here: start fewer processes per host, "
                    "lower -t or -g, or check {}",
                    request.local_rank, first == last ? "" : "s",
                    first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last),
                    request.visible == 1 ? "only GPU 0 is" : fmt::format("only {} are", request.visible),
                    request.base_device ? "NCCL_TESTS_DEVICE" : "CUDA_VISIBLE_DEVICES"));
  }
  std::vector<int> devices(request.per_process);
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

std::vector<ProcessSetting> shared_gpu_environment(int rank, bool one_host) {
  std::vector<ProcessSetting> settings{
      {"NCCL_HOSTID", fmt::format("busbar-{}", rank), true},
      {"NCCL_NET", "Socket"},
      {"NCCL_NET_PLUGIN", "none"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_SOCKET_FAMILY", "AF_INET"},
      // NCCL takes several "hosts" for one NVLink domain, and its set-up then fails without an IMEX channel.
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      // Connected at init: no rank allocates while another's kernel spins on the same GPU.
      {"NCCL_RUNTIME_CONNECT", "0"},
      // Clusters need several free SMs of one GPC at the same time; single blocks fit next to other ranks' kernels.
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

int free_port(int wanted) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  SocketAddress address = *socket_address("127.0.0.1", static_cast<std::uint16_t>(wanted));
  const bool bound = bind(socket.fd(), address.get(), address.length) == 0 &&
                     getsockname(socket.fd(), address.get(), &address.length) == 0;
  return bound ? port_of(address) : 0;
}

int port_free_on_all_hosts(const Comm& world, const Comm& host, const std::function<int(int)>& find) {
  constexpr int kTries = 3;
  int port = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    port = world.rank() == 0 ? find(0) : 0;
    world.broadcast(&port, sizeof port, 0);
    // One process per host asks, since two that do would find each other.
    const bool is_free = world.rank() == 0 || host.rank() > 0 || find(port) == port;
    if (world.min(std::int64_t{is_free}) == 1) break;
  }
  return port;
}

Backend::MemoryLimit gpu_memory_limit(std::size_t free_bytes, std::size_t total_bytes, int sharers) {
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  // As nccl-tests: 1 GiB for each 16 GiB installed, at most 4, for buffers that NCCL connects on first use and graphs.
  const std::size_t installed_steps = (total_bytes + 16 * kGiB - 1) / (16 * kGiB);
  const std::size_t reserve = std::min(installed_steps * kGiB, 4 * kGiB);
  const std::size_t left = free_bytes > reserve ? free_bytes - reserve : 0;
  const std::size_t share = left / static_cast<std::size_t>(sharers);
  std::string text = fmt::format("GPU memory: {} free - {} reserve", format_bytes(free_bytes), format_bytes(reserve));
  if (sharers > 1) text = fmt::format("({}) / {} ranks per GPU", text, sharers);
  return {share, fmt::format("{} = {} per rank", text, format_bytes(share))};
}

}  // namespace busbar
