#pragma once

#include "common/backends/backend.h"
#include "common/backends/mpi/mpi_types.h"

#include <climits>
#include <vector>

namespace busbar {

/// MPI_Alltoallv's arrays for one rank [elements]; empty when they do not fit int and sends and receives are used
/// instead.
struct AlltoallvArrays {
  std::vector<int> send_counts, send_offsets, recv_counts, recv_offsets;
};

AlltoallvArrays make_alltoallv_arrays(const Problem& problem, int rank);

/// One call on one rank.
struct MpiCall {
  const Operation& op;
  Buffers buffers;
  int rank = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;  ///< mpi_type(op.dtype)
  MPI_Op reduction = MPI_OP_NULL;         ///< where the collective reduces
  const AlltoallvArrays* alltoallv = nullptr;
  std::vector<MPI_Request>* pending = nullptr;  ///< null: complete the call; else start it and append its requests
  std::size_t max_count = INT_MAX;              ///< elements that MPI can count; smaller in tests
};

/// Runs (or starts) the collective. Every rank of the communicator must call it in the same order.
void run_collective(const MpiCall& call);

/// Largest number of elements that one reduction call takes; larger ones are split.
inline constexpr std::size_t kReductionChunk = std::size_t{1} << 28;

/// How many MPI calls a reduction of this size takes; 1 where nothing is split.
std::size_t reduction_calls(const Operation& op);

}  // namespace busbar
