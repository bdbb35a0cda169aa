#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

// MPI's control variables (MPI_T), by name. Values are strings: numbers, "true"/"false", or any other. All local.

struct MpiTool {
  /// Starts MPI_T; once is enough. Session ends it before MPI: after MPI_Finalize that would crash Open MPI 4.1.4.
  /// Throws Error(not_possible) if the library has none.
  void (*start)() = nullptr;
  bool (*started)() = nullptr;
  /// The variable's value; null if there is no such variable, or MPI_T is not started.
  std::optional<std::string> (*read)(const std::string& name) = nullptr;
  /// Throws Error(not_possible) if there is no such variable or the library refuses, Error(bad_config) for a value of
  /// the wrong type.
  void (*write)(const std::string& name, const std::string& value) = nullptr;
  /// The library's description of the variable; empty if there is no such variable.
  std::string (*description)(const std::string& name) = nullptr;
  /// Numbers and names of an enumeration's values; empty if the variable is none.
  std::vector<std::pair<int, std::string>> (*choices)(const std::string& name) = nullptr;
};

/// That of the MPI library in use.
const MpiTool& mpi_tool();

/// Changes variables while it lives.
class MpiVariableChanges {
 public:
  MpiVariableChanges() = default;
  MpiVariableChanges(const MpiVariableChanges&) = delete;
  MpiVariableChanges& operator=(const MpiVariableChanges&) = delete;
  ~MpiVariableChanges();

  /// Throws as MpiTool::write does; earlier changes stay.
  void set(const std::string& name, const std::string& value);

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

}  // namespace busbar
