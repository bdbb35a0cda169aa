// The profiler inside this executable; NCCL finds it with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN. It copies what ran and
// keeps no event: no context, since events name their rank, and no handle, so NCCL makes no further call for it.
// Symmetric kernels are the exception: their phases name no rank and report their end later.

#include "common/backends/nccl/nccl_observation.h"
#include "plugins/nccl_plugin_abi.h"

#include <utility>

namespace busbar {
namespace {

constexpr std::uint64_t kWanted = kProfileColl | kProfileP2p | kProfileCopyEngines;
constexpr std::uint64_t kWantedV7 = kWanted | kProfileKernelChannel | kProfileKernelPhase;  // phases need channels

std::string text(const char* nccls) { return nccls != nullptr ? nccls : ""; }

void add(const ProfiledCollective& c) {
  nccl_observation().add(LaunchedTask{false, text(c.function), text(c.algorithm), text(c.protocol), c.channels});
}

void add(const ProfiledTransfer& t) {
  nccl_observation().add(LaunchedTask{true, text(t.function), "", "", t.channels});
}

void add(const ProfiledCopy& c) { nccl_observation().add(LaunchedTask{false, text(c.function), "", "", 0, true}); }

/// All ranks of a communicator run the same; rank 0's process reports.
template <class Event, class Add>
NcclResult start(void** handle, const Event* event, Add add_task) noexcept {
  *handle = nullptr;
  if ((event->type & kWanted) == 0 || event->rank != 0 || !nccl_observation().observing()) return kNcclSuccess;
  try {
    add_task(*event);
  } catch (...) {
    return kNcclSuccess;  // no memory: the row says "unknown"
  }
  return kNcclSuccess;
}

NcclResult attach(void** context, int* activation_mask, NcclLogger logger, std::uint64_t wanted) noexcept {
  *context = nullptr;
  nccl_observation().attach(activation_mask, logger, static_cast<int>(wanted));
  return kNcclSuccess;
}

NcclResult init_v7(void** context, std::uint64_t, int* activation_mask, const char*, int, int, int, NcclLogger logger) {
  return attach(context, activation_mask, logger, kWantedV7);
}

NcclResult init_v5(void** context, std::uint64_t, int* activation_mask, const char*, int, int, int, NcclLogger logger) {
  return attach(context, activation_mask, logger, kWanted);
}

NcclResult init_v4(void** context, int* activation_mask, const char*, std::uint64_t, int, int, int, NcclLogger logger) {
  return attach(context, activation_mask, logger, kWanted);
}

/// For v5 and v6.
void add_known(const ProfilerEventV5& e) {
  if (e.type == kProfileCopyEngines) {
    add(e.copy);
  } else if (e.type == kProfileP2p) {
    add(e.transfer.task);
  } else {
    add(e.collective.task);
  }
}

NcclResult start_v5(void*, void** handle, ProfilerEventV5* event) { return start(handle, event, add_known); }

void add_v7(const ProfilerEventV5& e) {
  if (e.type != kProfileColl || !e.collective.symmetric) return add_known(e);
  const ProfiledCollective& c = e.collective.task;
  nccl_observation().add(LaunchedTask{false, text(c.function), text(e.collective.kernel), "sym", c.channels});
}

NcclResult start_v7(void*, void** handle, ProfilerEventV5* event) {
  const ProfilerEventV5& e = *event;
  start(handle, event, add_v7);
  if (e.type == kProfileColl && e.collective.symmetric) {
    *handle = nccl_observation().begin_kernel(e.rank, e.collective.task.channels);
  } else if (e.type == kProfileKernelChannel) {
    *handle = e.parent;
  } else if (e.type == kProfileKernelPhase) {
    *handle = nccl_observation().begin_phase(e.parent, e.phase.phase, e.phase.start_ns);
  }
  return kNcclSuccess;
}

NcclResult record_v7(void* handle, int state, void* arguments) {
  if (state == kKernelChannelStop) nccl_observation().end_channel(handle);
  if (state == kKernelPhaseStop) nccl_observation().end_phase(handle, *static_cast<const std::uint64_t*>(arguments));
  return kNcclSuccess;
}

NcclResult start_v4(void*, void** handle, ProfilerEventV4* event) {
  return start(handle, event,
               [](const ProfilerEventV4& e) { e.type == kProfileColl ? add(e.collective) : add(e.transfer); });
}

NcclResult ignore(void*) { return kNcclSuccess; }
NcclResult ignore_state(void*, int, void*) { return kNcclSuccess; }

// The tuner inside this executable; NCCL finds it with NCCL_TUNER_PLUGIN=STATIC_PLUGIN, set only for --show-prediction.
// It copies NCCL's predicted times while an operation is observed, and chooses nothing.

NcclResult begin_v5(void** context, std::uint64_t, std::size_t, std::size_t, NcclLogger, void*, void*) {
  *context = nullptr;
  return kNcclSuccess;
}

NcclResult begin_v4(std::size_t, std::size_t, NcclLogger, void** context) {
  *context = nullptr;
  return kNcclSuccess;
}

NcclResult copy_predictions(void*, int function, std::size_t, int, TunerCosts table, int nalgorithms, int nprotocols,
                            int, int*) {
  if (!nccl_observation().observing()) return kNcclSuccess;
  try {
    PredictedTimes times{function, nprotocols, {}};
    for (int a = 0; a < nalgorithms; ++a)
      for (int p = 0; p < nprotocols; ++p) times.times_us.push_back(tuner_cost(table, nprotocols, a, p));
    nccl_observation().add(std::move(times));
  } catch (...) {
    return kNcclSuccess;  // no memory: the row has no prediction; any other answer fails the collective
  }
  return kNcclSuccess;
}

}  // namespace
}  // namespace busbar

// NOLINTBEGIN(readability-identifier-naming): names that NCCL looks up
BUSBAR_NCCL_SYMBOL constinit busbar::ProfilerV5 ncclProfiler_v7{"busbar",       busbar::init_v7,   busbar::start_v7,
                                                                busbar::ignore, busbar::record_v7, busbar::ignore};
BUSBAR_NCCL_SYMBOL constinit busbar::ProfilerV5 ncclProfiler_v6{"busbar",       busbar::init_v5,      busbar::start_v5,
                                                                busbar::ignore, busbar::ignore_state, busbar::ignore};
BUSBAR_NCCL_SYMBOL constinit busbar::ProfilerV5 ncclProfiler_v5{"busbar",       busbar::init_v5,      busbar::start_v5,
                                                                busbar::ignore, busbar::ignore_state, busbar::ignore};
BUSBAR_NCCL_SYMBOL constinit busbar::ProfilerV4 ncclProfiler_v4{"busbar",       busbar::init_v4,      busbar::start_v4,
                                                                busbar::ignore, busbar::ignore_state, busbar::ignore};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV6 ncclTunerPlugin_v6{"busbar prediction", busbar::begin_v5,
                                                                busbar::copy_predictions, busbar::ignore, nullptr};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV5 ncclTunerPlugin_v5{"busbar prediction", busbar::begin_v5,
                                                                busbar::copy_predictions, busbar::ignore};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV4 ncclTunerPlugin_v4{"busbar prediction", busbar::begin_v4,
                                                                busbar::copy_predictions, busbar::ignore};
// NOLINTEND(readability-identifier-naming)
