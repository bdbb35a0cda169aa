#pragma once

#include "common/base/config.h"
#include "common/mpi/comm.h"
#include "driver/compare/rounds.h"

namespace busbar {

/// The variant's own communicator on `group`, made while its settings are in force; they are taken back afterwards.
/// Where the library refuses the settings, no backend but the reason. Collective over `world`; throws as open_backend
/// does for everything else.
OpenedVariant open_variant(const Variant& variant, const Collective& collective, const Config& config,
                           const Comm& world, const Comm& group);

}  // namespace busbar
