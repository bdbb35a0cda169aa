#pragma once

#include "common/base/config.h"
#include "common/base/error.h"
#include "common/processes/comm.h"
#include "common/processes/sockets/meet.h"

#include <memory>
#include <string>
#include <string_view>

namespace busbar {

/// The processes of the job from start to end, over MPI or over sockets. Finalizes when it goes out of scope normally;
/// never while an exception unwinds, because the peers may be inside another call and would wait for ever: the job is
/// aborted instead (deal.II's lesson).
class Session {
 public:
  /// Every process must construct one, once, before anything collective, on its main thread. MPI may grant another
  /// level than `threads`.
  ///
  /// `single` is enough although the process has more threads, because none of them calls MPI: the threads of -t launch
  /// only NCCL, watchdog, flight record and probes use no MPI, and abort_job leaves without it on other threads. The
  /// standard calls this FUNNELED. But the libraries have their own threads at either level (PMIx's, the network's),
  /// assume a safe malloc, and lock their hooks on munmap, which any thread runs, at every level. FUNNELED would only
  /// add Open MPI's locks inside each call (docs/mpi_libraries.md).
  Session(int* argc, char*** argv, MpiThreads threads = MpiThreads::single);
  /// Without MPI. Throws what meet() throws. `on_end`: what must happen when another process ends the job, or its own.
  Session(const MeetRequest& request, Links::OnEnd on_end);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// All processes, on our own communicator: control traffic never meets what is measured.
  const Comm& world() const { return world_; }

 private:
  std::shared_ptr<Links> links_;  ///< null: MPI
  Comm world_;
};

/// "Open MPI 4.1.4" from MPI_Get_library_version: its first line, without tabs and the word "version".
std::string short_library_version(std::string_view text);

/// This host's name, cut at the first dot as NCCL and nccl-tests do.
std::string hostname();

}  // namespace busbar
