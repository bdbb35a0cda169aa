#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/backends/backend.h"
#include "common/processes/mpi/library/mpi_group.h"

#include <climits>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// Throws Error(backend) with MPI's error text.
[[noreturn]] void throw_mpi_error(int code, const char* call);

/// Throws if a call returned a failure. Inline: it is in the timed loop.
inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    throw_mpi_error(code, call);
}

/// The MPI type that carries a dtype: MPI's own if it has one, else an unsigned integer of the same size.
MPI_Datatype mpi_type(DType dtype);

/// MPI's predefined operation, or MPI_OP_NULL if it has none (avg, mulsum).
MPI_Op predefined_op(Op op);

/// A commutative operation of ours on mpi_type(dtype): with commute = 0 Open MPI picks other, slower algorithms.
class UserOp {
 public:
  UserOp(DType dtype, Op op);
  UserOp(UserOp&&) = delete;
  ~UserOp();

  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

/// `count` elements of `type` in MPI's int counts: the type itself, or a derived type if there are more than
/// `max_count` (INT_MAX except in tests). For data movement only: predefined operations do not work on derived types.
class CountedType {
 public:
  CountedType(std::size_t count, MPI_Datatype type, std::size_t max_count = INT_MAX);
  CountedType(const CountedType&) = delete;
  CountedType& operator=(const CountedType&) = delete;
  ~CountedType();

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  bool owned_ = false;
};

/// What MPI's v-functions take on one rank [elements]; empty if it does not fit int and other calls are used instead.
struct CountArrays {
  std::vector<int> counts, offsets;            ///< of the ranks' blocks; alltoallv: of what this rank sends
  std::vector<int> recv_counts, recv_offsets;  ///< only for alltoallv
};

/// For a collective that uses traffic.
CountArrays make_count_arrays(const Collective& collective, const Problem& problem, int rank);

/// A rank's part in pingpong, made once per row.
struct PairMessages {
  int peer = 0;
  bool begins = true;  ///< the lower rank of the pair
  PingpongPattern pattern = PingpongPattern::latency;
  std::vector<MPI_Request> requests;  ///< room for one call's

  PairMessages() = default;
  PairMessages(const Problem& problem, int rank);
};

/// One call on one rank.
struct MpiCall {
  const Operation& op;
  Buffers buffers;
  int rank = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;        ///< mpi_type(op.dtype)
  MPI_Op reduction = MPI_OP_NULL;               ///< if the collective reduces
  const CountArrays* arrays = nullptr;          ///< if the collective uses traffic
  std::optional<std::span<std::byte>> copy{};   ///< room for the message, if this rank sends a copy
  PairMessages* pair = nullptr;                 ///< for pingpong
  std::vector<MPI_Request>* pending = nullptr;  ///< null: complete the call; else start it and append its requests
  std::size_t max_count = INT_MAX;              ///< elements that MPI can count; smaller in tests
};

/// Runs (or starts) one collective. Every rank of the communicator must call it in the same order.
using RunCollective = void (*)(const MpiCall& call);

/// Looked up once per row, because it is called in the timed loop.
RunCollective how_to_run(CollectiveId id);

/// The most elements that one reduction call takes; larger reductions are split.
inline constexpr std::size_t kReductionChunk = std::size_t{1} << 28;

/// How many MPI calls a reduction of this size takes; 1 if nothing is split.
std::size_t reduction_calls(const Operation& op);

/// Why MPI cannot start the operation without completing it (--nonblocking); null if it can.
std::optional<std::string> why_not_nonblocking(const Operation& op);

}  // namespace busbar
