#pragma once

#include "common/backends/open_backend.h"

namespace busbar {

/// Opens the NCCL backend on `group`; `host` are the processes of this host. Collective over `world`, like
/// make_nccl_backend, whose failures it passes on.
OpenedBackend open_nccl_backend(const Config& config, const Comm& world, const Comm& group, const Comm& host);

}  // namespace busbar
