#include "common/backends/nccl/cuda/nccl_communicator.h"

#include "common/backends/nccl/cuda/cuda_call.h"
#include "common/backends/nccl/cuda/nccl_group.h"
#include "common/base/error.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

namespace busbar {
namespace {

/// Shared with the helper threads, which outlive the call when it gives up on them.
struct Joining {
  std::shared_ptr<const NcclLibrary> nccl;
  CommunicatorRequest request;
  std::vector<ncclComm_t> comms;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::exception_ptr failure;
};

void join_ranks(Joining& joining, std::size_t first, std::size_t last) {
  const CommunicatorRequest& request = joining.request;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.nvlinkCentricSched = 1;  // as nccl-tests (common.cu, initComms): blocks are spread by NVLink's wiring
  const NcclFields& fields = request.fields;
  if (fields.cta_policy) config.CTAPolicy = *fields.cta_policy;
  if (fields.min_ctas) config.minCTAs = *fields.min_ctas;
  if (fields.max_ctas) config.maxCTAs = *fields.max_ctas;
  if (fields.cga_cluster_size) config.cgaClusterSize = *fields.cga_cluster_size;
  if (fields.nvls_ctas) config.nvlsCTAs = *fields.nvls_ctas;
  if (!fields.net_name.empty()) config.netName = fields.net_name.c_str();
  NcclGroup group(*joining.nccl);
  for (std::size_t i = first; i < last; ++i) {
    BUSBAR_CUDA(cudaSetDevice(request.devices[i]));
    BUSBAR_NCCL(*joining.nccl,
                CommInitRankConfig(&joining.comms[i], request.nranks, request.id, request.ranks[i], &config));
  }
  group.end();
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

void abort_communicators(std::shared_ptr<const NcclLibrary> nccl, std::vector<ncclComm_t> comms) noexcept {
  constexpr std::chrono::seconds kPatience{5};
  try {
    // A thread of its own: NCCL would defer the abort to the end of a group that this thread may have open, and an
    // abort that waits for a dead GPU must not keep the process from ending.
    std::packaged_task<void()> work([nccl = std::move(nccl), comms = std::move(comms)] {
      for (ncclComm_t comm : comms) (void)nccl->CommAbort(comm);
    });
    std::future<void> done = work.get_future();
    std::thread(std::move(work)).detach();
    (void)done.wait_for(kPatience);
  } catch (...) {
    // No thread, no abort: the launcher ends the peers.
    return;
  }
}

}  // namespace busbar
