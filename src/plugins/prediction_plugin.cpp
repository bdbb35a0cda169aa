// The tuner inside this executable; NCCL finds it with NCCL_TUNER_PLUGIN=STATIC_PLUGIN, set only for --show-prediction.
// It copies NCCL's predicted times while an operation is observed, and chooses nothing.

#include "common/backends/nccl/nccl_observation.h"
#include "plugins/nccl_plugin_abi.h"

namespace busbar {
namespace {

NcclResult init_v5(void** context, std::uint64_t, std::size_t, std::size_t, NcclLogger, void*, void*) {
  *context = nullptr;
  return kNcclSuccess;
}

NcclResult init_v4(std::size_t, std::size_t, NcclLogger, void** context) {
  *context = nullptr;
  return kNcclSuccess;
}

NcclResult copy_predictions(void*, int function, std::size_t, int, TunerCosts table, int nalgorithms, int nprotocols,
                            int, int*) {
  if (!nccl_observation().observing()) return kNcclSuccess;
  try {
    PredictedTimes times{function, nprotocols, {}};
    for (int a = 0; a < nalgorithms; ++a) {
      for (int p = 0; p < nprotocols; ++p) times.times_us.push_back(tuner_cost(table, nprotocols, a, p));
    }
    nccl_observation().add(std::move(times));
  } catch (...) {
    return kNcclSuccess;  // no memory: the row has no prediction; any other answer fails the collective
  }
  return kNcclSuccess;
}

NcclResult finish(void*) { return kNcclSuccess; }

}  // namespace
}  // namespace busbar

// NOLINTBEGIN(readability-identifier-naming): names that NCCL looks up
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV6 ncclTunerPlugin_v6{"busbar prediction", busbar::init_v5,
                                                                busbar::copy_predictions, busbar::finish, nullptr};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV5 ncclTunerPlugin_v5{"busbar prediction", busbar::init_v5,
                                                                busbar::copy_predictions, busbar::finish};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV4 ncclTunerPlugin_v4{"busbar prediction", busbar::init_v4,
                                                                busbar::copy_predictions, busbar::finish};
// NOLINTEND(readability-identifier-naming)
