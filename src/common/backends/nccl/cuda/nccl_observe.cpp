#include "common/backends/nccl/cuda/nccl_backend_class.h"
#include "common/backends/nccl/nccl_observation.h"

#include <algorithm>

namespace busbar {

void NcclBackend::observe_begin() {
  nccl_observation().begin();
  if (log_) log_->begin();
}

ShownAlgorithm NcclBackend::observe_end(const Operation& op) {
  const Observed observed = nccl_observation().end();
  const std::string log = log_ ? log_->end() : std::string();
  if (std::find(ranks_.begin(), ranks_.end(), 0) == ranks_.end()) return {};
  return shown_algorithm(op, observed, log);
}

}  // namespace busbar
