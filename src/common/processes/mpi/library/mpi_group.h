#pragma once

// The only access to MPI's own handles; only files that call MPI include it.

#define OMPI_SKIP_MPICXX 1
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <mpi.h>

namespace busbar {

/// The processes of an MPI communicator. Errors are fatal on it.
class MpiGroup final : public ProcessGroup {
 public:
  enum class Owned : bool { no, yes };

  /// `owned`: freed with this object, unless MPI has ended by then or an exception unwinds.
  MpiGroup(MPI_Comm comm, Owned owned);
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Carrier carrier() const override { return Carrier::mpi; }
  void barrier() override;
  void broadcast(void* data, std::size_t nbytes, int root) override;
  void reduce(std::span<double> values, Reduction reduction) override;
  void reduce(std::span<std::int64_t> values, Reduction reduction) override;
  std::vector<std::string> gather(const std::string& text) override;
  std::vector<std::byte> all_to_all(std::span<const std::byte> blocks) override;
  void send(int to, double value) override;
  double receive(int from) override;
  std::unique_ptr<ProcessGroup> split(int color) override;
  std::unique_ptr<ProcessGroup> split_by_host() override;
  /// In each of ceil(log2 p) rounds, with steps of 1, 2, 4, ..., process r sends an empty message to r + step and waits
  /// for the one from r - step, modulo p (Hensgen, Finkel & Manber: Two Algorithms for Barrier Synchronization, 1988).
  /// So the library under test does not choose the algorithm. Waits inside MPI, and gives up the core if MPI does.
  std::unique_ptr<SmallBarrier> small_barrier() override;

  [[noreturn]] void end_job(ExitCode code) override;

  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_;
  Owned owned_;
  int rank_ = 0;
  int size_ = 1;
};

/// The communicator of a Comm that MPI carries.
MPI_Comm handle(const Comm& comm);

}  // namespace busbar

namespace busbar::mpi_library {

// The functions of mpi_session.h as this MPI has them.

std::unique_ptr<ProcessGroup> start(int* argc, char*** argv, MpiThreads threads);
void finish();
MpiThreads granted_threads();
std::string library_version();

/// Ends the whole job now, from any thread, with this exit code.
[[noreturn]] void abort_job(ExitCode code);

}  // namespace busbar::mpi_library
