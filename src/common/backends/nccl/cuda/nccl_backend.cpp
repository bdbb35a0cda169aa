#include "common/backends/nccl/cuda/nccl_backend.h"

#include "common/backends/nccl/cuda/device_collectives.h"
#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/backends/nccl/device_kernels.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/processes/comm.h"
#include "kernels/host.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>

namespace busbar {
namespace {

void require_possible(const Config& config) {
  if (config.nonblocking) {
    throw_not_possible(
        "--nonblocking calls MPI's nonblocking functions, and NCCL's calls never block (-C 1 times them): leave it "
        "out, or use --backend mpi");
  }
  if (config.stream_null && config.cudagraph > 0)
    throw_not_possible("CUDA cannot capture the NULL stream in a graph: drop -y or -G");
  if (config.stream_null && config.cta_policy == 2 && config.local_register == 2) {
    // NCCL starts them by cudaMemcpyBatchAsync, which refuses the legacy default stream.
    throw_not_possible("copy engines (-x 2 over windows, -R 2) take no NULL stream: drop -y, -x or -R");
  }
  if (config.blocking > 0 && config.cudagraph > 0)
    throw_not_possible("-z waits after each operation, which a graph cannot: drop -z or -G");
}

void require_in_library(const NcclLibrary& nccl, const Config& config) {
  if (config.local_register < 2 || nccl.CommWindowRegister != nullptr) return;
  throw_not_possible(
      fmt::format("-R 2 needs the windows of NCCL {} and newer, and this is {}: leave it out, or use -R 1",
                  nccl_version_text(kNcclWithWindows), nccl_version_text(nccl.version)));
}

/// The collective that -D runs with our kernels; null without -D.
std::optional<CollectiveId> device_collective(const Config& config, const Collective* collective) {
  if (config.device_implementation == 0) return std::nullopt;
  if (collective == nullptr || device_kernel_name(collective->id, config.device_implementation).empty())
    throw_not_possible("device API kernels (-D) run only in all_reduce_perf and alltoall_perf: leave out -D");
  if (config.ranks_per_gpu > 1) {
    throw_not_possible(
        "device API kernels (-D) wait for each other, and those of one GPU run in turn: leave out -D or "
        "--ranks-per-gpu");
  }
  return collective->id;
}

/// Ranks with different versions of NCCL would wait for each other for ever: 2.24.3 and 2.29.7 did. Collective.
void require_one_version(const Comm& world, int version) {
  int first = version;
  world.broadcast(&first, sizeof first, 0);
  collectively(world, "comparing versions", [&] {
    if (version == first) return;
    throw_not_possible(
        fmt::format("NCCL {} is loaded here, and {} on rank 0: give all hosts one version (NCCL_HOME, "
                    "LD_LIBRARY_PATH)",
                    nccl_version_text(version), nccl_version_text(first)));
  });
}

/// Before NCCL's first call, which reads the environment once.
void set_up_environment(const Comm& world, const Comm& host, int ranks_per_gpu) {
  const int port = port_free_on_all_hosts(world, host);
  apply(ras_environment(port, nccl_setting("NCCL_RAS_ADDR")));
  const bool one_host = world.min(std::int64_t{host.size() == world.size()}) == 1;
  if (ranks_per_gpu > 1) apply(shared_gpu_environment(world.rank(), one_host));
}

/// `loaded`: what CUDA answers to the first use of our kernels on this GPU.
void require_kernels(int device, cudaError_t loaded) {
  if (loaded == cudaErrorNoKernelImageForDevice || loaded == cudaErrorUnsupportedPtxVersion) {
    (void)cudaGetLastError();
    const int capability = compute_capability(device);
    throw_not_possible(fmt::format(
        "this build has no kernels for GPU {0}, of compute capability {1}.{2}: build with "
        "NVCC_GENCODE=-gencode=arch=compute_{1}{2},code=sm_{1}{2} and a CUDA toolkit that knows it (12: from "
        "5.0 on, 13: from 7.5 on)",
        device, capability / 10, capability % 10));
  }
  BUSBAR_CUDA(loaded);
}

/// As ncclCommProperties begins in 2.29.2 and since (nccl_device/core.h); newer libraries fill more of a newer version.
struct CommProperties {
  std::size_t size = sizeof(CommProperties);
  unsigned magic = 0xcafebeef;
  unsigned version = 22902;
  int rank = 0, nranks = 0, cuda_device = 0, nvml_device = 0;
  bool device_api = false, multimem = false;
  std::array<std::byte, 62> more{};
};

}  // namespace

NcclBackend::NcclBackend(const OpenRequest& request, bool own_gpus, const ObservationSetup& observation)
    : config_(request.config), fields_(request.fields), unwinding_at_birth_(std::uncaught_exceptions()) {
  const Config& config = request.config;
  const Comm& world = request.world;
  const Comm& group = request.group;
  if (config_.cta_policy) fields_.numbers.try_emplace("CTAPolicy", *config_.cta_policy);
  const int per_process = config.nthreads * config.ngpus;
  nranks_ = group.size() * per_process;
  collectively(world, "choosing options for NCCL", [&] {
    require_possible(config);
    device_collective_ = device_collective(config, request.collective);
  });
  set_up_environment(world, request.host, config.ranks_per_gpu);
  std::int64_t oldest = 0;
  collectively(world, "setting up the GPUs", [&] {
    nccl_ = load_nccl();
    require_in_library(*nccl_, config);
    // As nccl-tests: a rank sends to the next one and receives from the one before.
    if (request.collective != nullptr && request.collective->id == CollectiveId::sendrecv &&
        nccl_->version >= kNcclWithMaxP2pPeers) {
      fields_.numbers.try_emplace("maxP2pPeers", 2);
    }
    for (int i = 0; i < per_process; ++i) ranks_.push_back(group.rank() * per_process + i);
    if (observation.init_log) init_log_ = InitLog::open();
    // Only NCCL's rank 0 logs its choices.
    if (observation.tuning_log && ranks_.front() == 0) log_ = TuningLog::open(nccl_);
    lanes_ = std::vector<Lane>(config.nthreads);
    const LocalGpus gpus = local_gpus();
    if (gpus.count == 0) throw_not_possible(gpus.problem);
    set_up_locals(choose_devices({.local_rank = request.host.rank(),
                                  .per_process = per_process,
                                  .visible = gpus.count,
                                  .base_device = config.base_device,
                                  .ranks_per_gpu = config.ranks_per_gpu,
                                  .own_gpus = own_gpus}));
    prepare_device_kernels();
    oldest = compute_capability(locals_.front().device);
    for (const Local& l : locals_) oldest = std::min<std::int64_t>(oldest, compute_capability(l.device));
  });
  require_one_version(world, nccl_->version);
  oldest_compute_capability_ = static_cast<int>(world.min(oldest));
  smallest_nranks_ = static_cast<int>(world.min(std::int64_t{nranks_}));
  join(world, group);
  require_all_in_reach(world);
}

void NcclBackend::prepare_device_kernels() const {
  if (!device_collective_) return;
  require_device_api(*nccl_);
  for (const Local& l : locals_) {
    use_device(l);
    int resident = 0;
    const auto error = static_cast<cudaError_t>(
        prepare_device_collective(*device_collective_, config_.device_implementation, &resident));
    if (error == cudaErrorNoKernelImageForDevice) {
      const int capability = compute_capability(l.device);
      throw_not_possible(
          fmt::format("device API kernels (-D) are built for compute capability 8.0 and newer, and GPU {} has "
                      "{}.{}: leave out -D",
                      l.device, capability / 10, capability % 10));
    }
    BUSBAR_CUDA(error);
    if (config_.device_cta_count > resident) {
      throw_not_possible(
          fmt::format("-V {}: the blocks wait for each other, and GPU {} runs {} of them at once; lower -V",
                      config_.device_cta_count, l.device, resident));
    }
  }
}

void NcclBackend::require_all_in_reach(const Comm& world) const {
  if (!device_collective_ || needs_network(*device_collective_, config_.device_implementation)) return;
  collectively(world, "looking for device API kernels", [&] {
    for (const Local& l : locals_) {
      const int reached = ranks_in_reach(*nccl_, l.comm);
      if (reached == nranks_) continue;
      throw_not_possible(fmt::format(
          "-D {}: {} needs GPUs that all load and store in each other's memory (NVLink), and rank {} "
          "reaches {} of {}: measure fewer ranks, or leave out -D",
          config_.device_implementation, device_kernel_name(*device_collective_, config_.device_implementation), l.rank,
          reached, nranks_));
    }
  });
}

void NcclBackend::set_up_locals(const std::vector<int>& devices) {
  locals_.resize(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Local& l = locals_[i];
    l.rank = ranks_[i];
    l.device = devices[i];
    l.info = gpu_info(l.device);
    claim_gpu(l.device);
    if (!config_.stream_null) {
      cudaStream_t stream = nullptr;
      BUSBAR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      l.stream.reset(stream);
    }
    l.result = allocate_on_device(sizeof(CheckResult));
    l.host_result = allocate_pinned(sizeof(CheckResult));
    // A kernel loaded lazily while a collective spins on the GPU can wait for it for ever.
    require_kernels(l.device, static_cast<cudaError_t>(preload_device_kernels()));
    l.free_before_init = gpu_memory().free_bytes;
  }
}

CommunicatorRequest NcclBackend::request_of(const ncclUniqueId& id) const {
  CommunicatorRequest request;
  request.id = id;
  request.nranks = nranks_;
  request.ranks = ranks_;
  for (const Local& l : locals_) request.devices.push_back(l.device);
  request.threads = config_.parallel_init ? config_.nthreads : 1;
  request.fields = fields_;
  return request;
}

void NcclBackend::join(const Comm& world, const Comm& group) {
  ncclUniqueId id{};
  collectively(world, "asking NCCL for an id", [&] {
    if (group.rank() == 0) BUSBAR_NCCL(*nccl_, GetUniqueId(&id));
  });
  group.broadcast(&id, sizeof id, 0);
  // Some MPIs deliver a broadcast only once the root enters its next call, and the root would now enter NCCL.
  world.barrier();

  const Clock::time_point begin = Clock::now();
  use(join_communicator(nccl_, request_of(id)));
  creation_s_ = seconds(Clock::now() - begin);

  // Nobody launches while a neighbor on the same GPU, perhaps in another group, still allocates.
  world.barrier();
  for (Local& l : locals_) {
    use_device(l);
    l.free_after_init = l.free_after_buffers = gpu_memory().free_bytes;
  }
}

NcclBackend::~NcclBackend() {
  // If an exception unwinds, peers may never come: ncclCommDestroy could wait for them.
  if (std::uncaught_exceptions() > unwinding_at_birth_) abort();
  if (!aborted_) {
    destroy();
    return;
  }
  // A GPU that still spins makes cudaFree and the like wait for ever; the process ends now and frees everything.
  new std::vector<Local>(std::move(locals_));
}

void NcclBackend::destroy() noexcept {
  for (int lane = 0; lane < lanes(); ++lane) capture_release(lane);
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    Local& l = locals_[i];
    while (!l.allocations.empty()) release(static_cast<int>(i), l.allocations.back().memory);
    for (const auto& op : l.mulsum)
      if (op) (void)nccl_->RedOpDestroy(*op, l.comm);
  }
  for (Local& l : locals_) {
    BUSBAR_CUDA_NOEXCEPT(cudaSetDevice(l.device));
    if (l.device_api) l.device_api->destroy();
    if (l.comm != nullptr && nccl_->CommDestroy(l.comm) != ncclSuccess)
      std::fprintf(stderr, "NCCL: rank %d cannot destroy its communicator: %s\n", l.rank, nccl_->GetLastError(nullptr));
  }
}

void NcclBackend::abort() noexcept {
  if (aborted_.exchange(true)) return;
  // NCCL frees the communicator at once. A call that is still inside it would then read freed memory and end the
  // process by a signal instead of with its exit code; such a communicator is left to the end of the process.
  constexpr std::chrono::seconds kPatience{1};
  const auto deadline = Clock::now() + kPatience;
  while (is_in_nccl() && Clock::now() < deadline) std::this_thread::yield();
  if (is_in_nccl()) return;
  // NCCL's clean-up waits until no graph refers to the communicator.
  for (int lane = 0; lane < lanes(); ++lane) capture_release(lane);
  try {
    std::vector<std::pair<int, ncclComm_t>> comms;
    for (const Local& l : locals_) comms.emplace_back(l.device, l.comm);
    abort_communicators(nccl_, std::move(comms));
  } catch (...) {
    return;
  }
}

bool NcclBackend::is_in_nccl() const {
  return in_nccl_ > 0 || std::ranges::any_of(lanes_, [](const Lane& l) { return l.in_nccl > 0; });
}

NcclBackend::InNccl::InNccl(std::atomic<int>& count, const NcclBackend& backend) : count_(count) {
  count_.fetch_add(1);
  if (!backend.aborted_) return;
  count_.fetch_sub(1);
  throw Error(ExitCode::backend, "NCCL: the communicator was aborted");
}

std::string NcclBackend::library_version() const { return "NCCL " + nccl_version_text(nccl_->version); }

std::optional<std::string> NcclBackend::why_unsupported(const Operation& op) const {
  constexpr int kFirstWithFp8 = 90;
  if (!op.collective->moves_data) return fmt::format("NCCL has no {}", op.collective->name);
  if (device_collective_) {
    std::string why = why_no_device_kernel(op.collective->id, config_.device_implementation, op.dtype, op.op);
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  }
  if (is_fp8(op.dtype) && nccl_->version < kNcclWithFp8) {
    return fmt::format("NCCL has {} from {} on, and this is {}", busbar::name(op.dtype),
                       nccl_version_text(kNcclWithFp8), nccl_version_text(nccl_->version));
  }
  if (!op.op || !is_fp8(op.dtype)) return std::nullopt;
  if (oldest_compute_capability_ < kFirstWithFp8) {
    return fmt::format("NCCL reduces {} from compute capability 9.0 on, and the oldest GPU here has {}.{}",
                       busbar::name(op.dtype), oldest_compute_capability_ / 10, oldest_compute_capability_ % 10);
  }
  // NCCL skips them in its kernel for one rank by a condition that is never true, and returns ncclInvalidArgument.
  if (smallest_nranks_ == 1 && (op.op == Op::avg || op.op == Op::mulsum))
    return fmt::format("NCCL has no {} of {} on one rank", busbar::name(*op.op), busbar::name(op.dtype));
  return std::nullopt;
}

std::string NcclBackend::window_remark() const {
  CommProperties found;
  if (config_.local_register < 2 || nccl_->CommQueryProperties == nullptr) return {};
  if (nccl_->CommQueryProperties(locals_.front().comm, &found) != ncclSuccess || found.device_api) return {};
  return "-R 2: NCCL makes no windows here, because not all GPUs of a host load and store in each other's memory: it "
         "runs as without -R";
}

std::optional<std::string> NcclBackend::note(const Operation& op) const {
  if (device_collective_ && config_.agg_iters > 1)
    return "device API kernels are launched one by one: -m repeats them but aggregates nothing";
  if (const Collective* call = called_per_block(*op.collective)) {
    const char* const as_one =
        is_one_all_gatherv(op, nccl_->version)
            ? ", of which NCCL 2.29 and newer make one AllGatherV (NCCL_ALLGATHERV_ENABLE=0: they do not)"
            : "";
    return fmt::format("NCCL has no {}: a {} per rank, in a group{}", op.collective->name, call->name, as_one);
  }
  const CollectiveId id = op.collective->id;
  if (is_made_of_transfers(*op.collective) && !made_of_transfers(*op.collective)) {
    return fmt::format("NCCL has {} from 2.28 on, and this is {}: sends and receives, in a group", op.collective->name,
                       nccl_version_text(nccl_->version));
  }
  if ((id != CollectiveId::hypercube && id != CollectiveId::pingpong) || config_.agg_iters == 1) return std::nullopt;
  return fmt::format("{}'s steps depend on each other: -m repeats it but aggregates nothing", op.collective->name);
}

std::span<NcclBackend::Local> NcclBackend::lane_locals(int lane) {
  const std::size_t share = locals_.size() / lanes_.size();
  return std::span(locals_).subspan(lane * share, share);
}

void NcclBackend::use_device(const Local& local) const { BUSBAR_CUDA(cudaSetDevice(local.device)); }

std::unique_ptr<Backend> make_nccl_backend(const OpenRequest& request, bool own_gpus,
                                           const ObservationSetup& observation, std::vector<std::string>& remarks) {
  auto backend = std::make_unique<NcclBackend>(request, own_gpus, observation);
  add_once(remarks, backend->window_remark());
  return backend;
}

void NcclBackend::observe_begin() {
  nccl_observation().start();
  if (log_) log_->start();
}

ShownAlgorithm NcclBackend::observe_end(const Operation& op) {
  Observed observed = nccl_observation().end();
  const std::string log = log_ ? log_->end() : std::string();
  if (!contains(ranks_, 0)) return {.phases = std::move(observed.phases)};
  if (device_collective_) {
    return {std::string(device_kernel_name(op.collective->id, config_.device_implementation)), "-",
            std::to_string(config_.device_cta_count)};
  }
  // NCCL would report each of them, had it not made one of them.
  if (observed.tasks.empty() && nccl_observation().attached() && is_one_all_gatherv(op, nccl_->version))
    return {"AllGatherV", "-", "-"};
  ShownAlgorithm shown = shown_algorithm(op, observed, log);
  shown.phases = std::move(observed.phases);
  return shown;
}

}  // namespace busbar
