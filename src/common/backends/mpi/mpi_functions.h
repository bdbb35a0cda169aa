#pragma once

#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/mpi_tool_variable.h"

#include <memory>
#include <optional>

namespace busbar {

/// The backend's part of the border to libbusbar_mpi.so (mpi_module.h). mpi_backend.h and mpi_tool_variable.h say what
/// the functions do.
struct MpiBackendFunctions {
  std::unique_ptr<Backend> (*make_backend)(const Comm&, int, std::optional<MpichRequest>, bool) = nullptr;
  const MpiTool* tool = nullptr;
};

}  // namespace busbar
