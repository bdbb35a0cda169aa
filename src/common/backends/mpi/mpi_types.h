#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/mpi/mpi_handle.h"

#include <climits>
#include <cstddef>

namespace busbar {

/// Throws Error(backend) with MPI's own text.
[[noreturn]] void throw_mpi_error(int code, const char* call);

/// Throws when a call returned a failure. Inline: it stands in the timed loop.
inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    throw_mpi_error(code, call);
}

/// The MPI type that carries a dtype: MPI's own where it has one, else an unsigned integer of the same size.
MPI_Datatype mpi_type(DType dtype);

/// True where MPI cannot reduce the dtype itself and our function does (half, bfloat16, fp8).
bool needs_user_op(DType dtype);

/// MPI's predefined operation, or MPI_OP_NULL where it has none (avg, mulsum).
MPI_Op predefined_op(Op op);

/// A commutative operation of ours on mpi_type(dtype): with commute = 0 Open MPI picks other, slower algorithms.
class UserOp {
 public:
  UserOp(DType dtype, Op op);
  UserOp(UserOp&& other) noexcept;
  UserOp& operator=(UserOp&&) = delete;
  ~UserOp();

  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

/// `count` elements of `type` in MPI's int counts: the type itself, or a derived type when there are more than
/// `max_count` (INT_MAX but in tests). For data movement only: predefined operations do not work on derived types.
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

}  // namespace busbar
