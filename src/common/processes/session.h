#pragma once

#include "common/base/config.h"
#include "common/base/error.h"
#include "common/processes/comm.h"

#include <string>
#include <string_view>

namespace busbar {

/// MPI from start to end. Finalizes when it goes out of scope in good order; never while an exception unwinds, because
/// the peers may be inside another call and would wait for ever: the job is aborted instead (deal.II's lesson).
class Session {
 public:
  /// Every process must construct one, once, before anything collective, on its main thread. MPI may grant another
  /// level than `threads`.
  ///
  /// `single` suits us although the process has more threads, because none of them calls MPI: those of -t launch NCCL
  /// alone, watchdog, flight record and probes know no MPI at all, and abort_job leaves without it elsewhere. The
  /// standard's word for that is FUNNELED, but the libraries at hand have threads of their own below either (PMIx's,
  /// the network's), take malloc to be safe, and keep their hooks on munmap, which any thread runs, locked at every
  /// level: all that FUNNELED adds is Open MPI's locks inside each call (docs/mpi_libraries.md).
  Session(int* argc, char*** argv, MpiThreads threads = MpiThreads::single);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// All processes, on a communicator of our own: control traffic never meets what is measured.
  const Comm& world() const { return world_; }

 private:
  Comm world_;
};

/// The level that MPI granted; between its start and its end.
MpiThreads granted_mpi_threads();

/// "Open MPI 4.1.4", "MPICH 4.0.2" or what else the library calls itself. Also before MPI is started.
std::string mpi_library_version();

/// The same of what MPI_Get_library_version says: its first line, without tabs and the word "version".
std::string short_library_version(std::string_view text);

/// This host's name, cut at the first dot as NCCL and nccl-tests do.
std::string hostname();

/// Ends the whole job now, from any thread, with this exit code.
[[noreturn]] void abort_job(ExitCode code);

}  // namespace busbar
