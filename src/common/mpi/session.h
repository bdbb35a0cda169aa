#pragma once

#include "common/base/error.h"
#include "common/mpi/comm.h"

#include <string>
#include <string_view>

namespace busbar {

/// MPI from start to end. Finalizes when it goes out of scope in good order; never while an exception unwinds, because
/// the peers may be inside another call and would wait for ever: the job is aborted instead (deal.II's lesson).
class Session {
 public:
  /// Every process must construct one, once, before anything collective.
  Session(int* argc, char*** argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// All processes, on a communicator of our own: control traffic never meets what is measured.
  const Comm& world() const { return world_; }

 private:
  Comm world_;
};

/// "Open MPI 4.1.4", "MPICH 4.0.2" or what else the library calls itself. Also before MPI is started.
std::string mpi_library_version();

/// The same of what MPI_Get_library_version says: its first line, without tabs and the word "version".
std::string short_library_version(std::string_view text);

/// This host's name, cut at the first dot as NCCL and nccl-tests do.
std::string hostname();

/// Ends the whole job now, from any thread, with this exit code.
[[noreturn]] void abort_job(ExitCode code);

}  // namespace busbar
