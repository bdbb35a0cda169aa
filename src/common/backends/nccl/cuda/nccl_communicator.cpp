#include "common/backends/nccl/cuda/cuda_call.h"
#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

namespace busbar {
namespace {

/// Shared with the helper threads, which outlive the call if it gives up on them.
struct Joining {
  std::shared_ptr<const NcclLibrary> nccl;
  CommunicatorRequest request;
  std::vector<ncclComm_t> comms;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::exception_ptr failure;
};

/// ncclConfig_t as of NCCL 2.32, whatever header busbar is built with. NCCL only adds fields, at the end, and reads as
/// many as it knows and as the struct's size and version say (init.cc, parseCommConfig, in 2.19 to 2.32).
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0;
  unsigned version = 0;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;  // 2.28
  int graphUsageMode, numRmaCtx;                                                                 // 2.29
  int maxP2pPeers, graphStreamOrdering;                                                          // 2.30
  int launchOrderImplicit, numRmaSig, rmaEagerInit, hostCftMode;                                 // 2.31
  int nvlsHostMode;                                                                              // 2.32
};
static_assert(offsetof(NcclConfig, netName) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, splitShare) == offsetof(ncclConfig_t, splitShare));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static_assert(offsetof(NcclConfig, commName) == offsetof(ncclConfig_t, commName));
static_assert(offsetof(NcclConfig, nvlinkCentricSched) == offsetof(ncclConfig_t, nvlinkCentricSched));
#endif

#define BUSBAR_PLACE(name, since, variable) &NcclConfig::name,
constexpr std::array kPlaces{BUSBAR_NCCL_FIELDS(BUSBAR_PLACE)};
#undef BUSBAR_PLACE

NcclConfig make_config(const NcclFields& fields, int library_version) {
  constexpr int kNewest = 23200;  // its fields are above
  constexpr ncclConfig_t kUnset = NCCL_CONFIG_INITIALIZER;
  NcclConfig config;
  config.magic = kUnset.magic;
  config.version = static_cast<unsigned>(std::min(library_version, kNewest));
  config.blocking = 1;
  config.netName = fields.net_name.empty() ? kUnset.netName : fields.net_name.c_str();
  config.splitShare = config.trafficClass = config.shrinkShare = NCCL_CONFIG_UNDEF_INT;
  config.commName = nullptr;  // NCCL_CONFIG_UNDEF_PTR, which old headers lack
  for (std::size_t i = 0; i < kNcclFields.size(); ++i) {
    const NcclField& field = kNcclFields[i];
    const auto wanted = fields.numbers.find(field.name);
    config.*kPlaces[i] = wanted == fields.numbers.end() ? NCCL_CONFIG_UNDEF_INT : wanted->second;
    if (wanted == fields.numbers.end() || library_version >= field.since) continue;
    throw RefusedError(ExitCode::backend,
                       fmt::format("nccl.{} needs NCCL {}, and this is {}", field.name, nccl_version_text(field.since),
                                   nccl_version_text(library_version)));
  }
  // As in nccl-tests (common.cu, initComms): blocks are spread along NVLink's wiring.
  if (!fields.numbers.contains("nvlinkCentricSched")) config.nvlinkCentricSched = 1;
  return config;
}

void join_ranks(Joining& joining, std::size_t first, std::size_t last) {
  const CommunicatorRequest& request = joining.request;
  with_config(request.fields, joining.nccl->version, [&](ncclConfig_t* config) {
    NcclGroup group(*joining.nccl);
    for (std::size_t i = first; i < last; ++i) {
      BUSBAR_CUDA(cudaSetDevice(request.devices[i]));
      BUSBAR_NCCL(*joining.nccl,
                  CommInitRankConfig(&joining.comms[i], request.nranks, request.id, request.ranks[i], config));
    }
    group.end();
  });
}

void join_in_thread(const std::shared_ptr<Joining>& joining, std::size_t first, std::size_t last) {
  std::exception_ptr failure;
  try {
    join_ranks(*joining, first, last);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(joining->mutex);
  --joining->running;
  if (failure && !joining->failure) joining->failure = failure;
  joining->changed.notify_all();
}

}  // namespace

void with_config(const NcclFields& fields, int library_version, const std::function<void(ncclConfig_t*)>& call) {
  NcclConfig config = make_config(fields, library_version);
  call(reinterpret_cast<ncclConfig_t*>(&config));
}

std::vector<ncclComm_t> join_communicator(std::shared_ptr<const NcclLibrary> nccl, const CommunicatorRequest& request) {
  const auto joining = std::make_shared<Joining>();
  joining->nccl = std::move(nccl);
  joining->request = request;
  joining->comms.assign(request.ranks.size(), nullptr);
  joining->running = request.threads;

  const std::size_t share = request.ranks.size() / static_cast<std::size_t>(request.threads);
  std::vector<std::thread> threads;
  for (int t = 0; t < request.threads; ++t) threads.emplace_back(join_in_thread, joining, t * share, (t + 1) * share);

  std::unique_lock lock(joining->mutex);
  // One failure is enough to stop waiting: the other threads may wait for the failed one for ever.
  const auto over = [&] { return joining->running == 0 || joining->failure != nullptr; };
  joining->changed.wait(lock, over);
  if (joining->failure) {
    for (std::thread& thread : threads) thread.detach();
    std::rethrow_exception(joining->failure);
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  return joining->comms;
}

void abort_communicators(std::shared_ptr<const NcclLibrary> nccl,
                         std::vector<std::pair<int, ncclComm_t>> comms) noexcept {
  constexpr std::chrono::seconds kPatience{5};
  try {
    // In a separate thread: NCCL would defer the abort to the end of a group that this thread may have open, and an
    // abort that waits for a dead GPU must not keep the process from ending.
    std::packaged_task<void()> work([nccl = std::move(nccl), comms = std::move(comms)] {
      for (const auto& [device, comm] : comms) {
        // Else NCCL makes a context on GPU 0, which may be another process's.
        (void)cudaSetDevice(device);
        (void)nccl->CommAbort(comm);
      }
    });
    std::future<void> done = work.get_future();
    std::thread(std::move(work)).detach();
    (void)done.wait_for(kPatience);
  } catch (...) {
    // Without a thread there is no abort: the launcher ends the peers.
    return;
  }
}

}  // namespace busbar
