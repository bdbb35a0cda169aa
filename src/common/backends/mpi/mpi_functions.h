#pragma once

#include "common/backends/mpi/mpi_backend.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// The backend's part of the border to libbusbar_mpi.so (mpi_module.h). mpi_backend.h and mpi_tool_variable.h say what
/// the functions do.
struct MpiBackendFunctions {
  std::unique_ptr<Backend> (*make_backend)(const Comm&, int, std::optional<MpichRequest>, bool) = nullptr;
  void (*start_tool)() = nullptr;
  bool (*tool_started)() = nullptr;
  std::optional<std::string> (*read_variable)(const std::string&) = nullptr;
  void (*write_variable)(const std::string&, const std::string&) = nullptr;
  std::string (*variable_description)(const std::string&) = nullptr;
  std::vector<std::pair<int, std::string>> (*variable_choices)(const std::string&) = nullptr;
};

}  // namespace busbar
