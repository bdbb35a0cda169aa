#pragma once

#include "collectives/collective.h"
#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/backends/backend.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

class Comm;

/// Threads of a block of the device API kernels (-D); -V says how many blocks. As nccl-tests.
inline constexpr int kDeviceThreads = 512;

/// The kernel that `-D implementation` runs instead of NCCL's: "LSA", "MULTIMEM_VECTOR"; empty: there is none.
std::string_view device_kernel_name(CollectiveId collective, int implementation);

/// Whether it needs a switch that adds (multimem), or the network (GIN).
bool needs_multimem(CollectiveId collective, int implementation);
bool needs_network(CollectiveId collective, int implementation);

/// Why no such kernel can run this, as a sentence; empty: one can.
std::string why_no_device_kernel(CollectiveId collective, int implementation, DType dtype, std::optional<Op> op);

/// NCCL's header as one compiler of the build found it.
struct NcclHeader {
  int version = 0;                      ///< NCCL's number (22809)
  std::size_t communicator_nbytes = 0;  ///< sizeof(ncclDevComm)
};

/// Why kernels compiled with one header do not fit code compiled with another. Empty: they do.
std::string device_header_mismatch(const NcclHeader& of_kernels, const NcclHeader& of_host);

/// Why header and library do not fit: the data that a kernel gets of its communicator changed with NCCL's versions.
/// Empty: they fit. Versions are NCCL's numbers (22809).
std::string device_api_mismatch(int header_version, int library_version);

/// What determines a process's GPUs.
struct DeviceRequest {
  int local_rank = 0;                   ///< of the process on its host
  int per_process = 1;                  ///< threads x GPUs per thread
  int visible = 0;                      ///< GPUs that this process can use
  std::optional<int> base_device = {};  ///< NCCL_TESTS_DEVICE: the first one, whatever the local rank
  int ranks_per_gpu = 1;
  bool own_gpus = false;  ///< the launcher shows each process its own GPUs (CUDA_VISIBLE_DEVICES per task)
};

/// CUDA device numbers of the process's ranks, in rank order. Throws Error(not_possible) if they exceed the visible
/// ones.
std::vector<int> choose_devices(const DeviceRequest& request);

/// One environment variable that a run with --ranks-per-gpu needs.
struct ProcessSetting {
  std::string name;
  std::string value;
  bool overwrite = false;  ///< false: the user's own value wins

  bool operator==(const ProcessSetting&) const = default;
};

/// Makes NCCL 2.28 accept several ranks on one GPU: every process claims to be a separate host, so that no two ranks
/// share a GPU of the same host and only the socket transport remains. `rank` is unique over the whole job; `one_host`:
/// loopback reaches every rank. Needs one rank per process (options.cpp): NCCL keeps one host id per process.
std::vector<ProcessSetting> shared_gpu_environment(int rank, bool one_host);

/// The job's own port for NCCL's RAS service: all jobs of a machine share the default one, and any of them may answer
/// for this one. `users`: the address that the user gave NCCL, which is kept and copied to where ask_ras() reads it.
/// Empty if there is neither.
std::vector<ProcessSetting> ras_environment(int port, const std::optional<std::string>& users);

/// Sets them in this process. Before NCCL's first call: it reads each of them once.
void apply(std::span<const ProcessSetting> settings);

/// The header line on what such timings are worth; empty with one rank per GPU.
std::string ranks_per_gpu_remark(int ranks_per_gpu);

/// A TCP port that is free on this host now: `wanted`, or any if that is 0; 0 if there is none.
int free_port(int wanted = 0);

/// A port that is free on every host now, or after three tries one that is free on that of rank 0. `host`: the
/// processes of this host. Collective over `world`. `find` is free_port, but for tests.
int port_free_on_all_hosts(const Comm& world, const Comm& host, const std::function<int(int)>& find = free_port);

/// The memory that one of `sharers` ranks on a GPU may use, from what cudaMemGetInfo reports with the communicator.
Backend::MemoryLimit gpu_memory_limit(std::size_t free_bytes, std::size_t total_bytes, int sharers);

}  // namespace busbar
