#pragma once

#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/processes/comm.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// Open MPI (or another MPI 3.1 library) on host memory; one rank per process. `group` is the communicator to measure
/// (duplicated here), `ranks_on_host` how many processes share this host's memory. `request`: MPICH's settings whenever
/// this communicator runs. `nonblocking`: operations are started by MPI's nonblocking functions and finished before
/// enqueue returns. Collective over `group`.
std::unique_ptr<Backend> make_mpi_backend(const Comm& group, int ranks_on_host,
                                          std::optional<MpichRequest> request = std::nullopt, bool nonblocking = false);

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

/// The backend's part of the border to libbusbar_mpi.so (mpi_session.h).
struct MpiBackendFunctions {
  std::unique_ptr<Backend> (*make_backend)(const Comm&, int, std::optional<MpichRequest>, bool) = nullptr;
  const MpiTool* tool = nullptr;
};

/// What libbusbar_mpi.so puts into it, as this MPI has it.
namespace mpi_library {
std::unique_ptr<Backend> make_backend(const Comm& group, int ranks_on_host, std::optional<MpichRequest> request,
                                      bool nonblocking);
extern const MpiTool kTool;
}  // namespace mpi_library

}  // namespace busbar
