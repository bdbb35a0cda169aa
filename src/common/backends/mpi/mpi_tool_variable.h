#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

// MPI's control variables (MPI_T), by name. Values are text: numbers, "true"/"false", or the text itself. All local.

/// Starts MPI_T; once is enough. Session ends it before MPI: after MPI_Finalize that would crash Open MPI 4.1.4. Throws
/// Error(not_possible) where the library has none.
void start_mpi_tool();

bool mpi_tool_started();

/// The variable's value; nothing where there is no such variable, or MPI_T is not started.
std::optional<std::string> read_mpi_variable(const std::string& name);

/// Throws Error(not_possible) where there is no such variable, Error(bad_config) for a value that is none of its type,
/// Error(not_possible) where the library refuses.
void write_mpi_variable(const std::string& name, const std::string& value);

/// What the library says that it is; empty where there is no such variable.
std::string mpi_variable_description(const std::string& name);

/// Numbers and names of a variable that is an enumeration; empty where it is none.
std::vector<std::pair<int, std::string>> mpi_variable_choices(const std::string& name);

/// Variables with other values while it lives.
class MpiVariableChanges {
 public:
  MpiVariableChanges() = default;
  MpiVariableChanges(const MpiVariableChanges&) = delete;
  MpiVariableChanges& operator=(const MpiVariableChanges&) = delete;
  ~MpiVariableChanges();

  /// Throws as write_mpi_variable does; what was set before stays set.
  void set(const std::string& name, const std::string& value);

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

}  // namespace busbar
