#include "common/backends/mpi/mpi_types.h"

#include "common/base/error.h"
#include "kernels/host_reduce.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace busbar {
namespace {

// An MPI_User_function gets no context, so each pair of dtype and op needs a function of its own.
template <DType D, Op O>
void reduce_in_mpi(void* in, void* inout, int* length, MPI_Datatype*) {
  narrow_reduction(D, O)(in, inout, static_cast<std::size_t>(*length));
}

template <DType D>
MPI_User_function* user_function(Op op) {
  if constexpr (is_narrow_float(D)) {
    switch (op) {
      case Op::sum:
        return reduce_in_mpi<D, Op::sum>;
      case Op::prod:
        return reduce_in_mpi<D, Op::prod>;
      case Op::max:
        return reduce_in_mpi<D, Op::max>;
      case Op::min:
        return reduce_in_mpi<D, Op::min>;
      case Op::avg:
      case Op::mulsum:
        break;
    }
  }
  return nullptr;
}

template <std::size_t... I>
MPI_User_function* user_function(DType dtype, Op op, std::index_sequence<I...>) {
  MPI_User_function* function = nullptr;
  ((dtype == kAllDTypes[I] ? void(function = user_function<kAllDTypes[I]>(op)) : void()), ...);
  return function;
}

MPI_Datatype signed_type(std::size_t size) {
  return size == 1 ? MPI_INT8_T : size == 2 ? MPI_INT16_T : size == 4 ? MPI_INT32_T : MPI_INT64_T;
}

MPI_Datatype unsigned_type(std::size_t size) {
  return size == 1 ? MPI_UINT8_T : size == 2 ? MPI_UINT16_T : size == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

/// The largest power of two, at most 2^20, that divides `count`.
std::size_t block_divisor(std::size_t count) {
  std::size_t block = 1;
  while (block < (std::size_t{1} << 20) && count % (2 * block) == 0) block *= 2;
  return block;
}

/// One element of this type is `count` elements of `type`, for counts that no block divides.
MPI_Datatype whole_message_type(std::size_t count, MPI_Datatype type) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  check_mpi(MPI_Type_get_extent(type, &lower, &extent), "MPI_Type_get_extent");
  MPI_Datatype block = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(static_cast<int>(kBlock), type, &block), "MPI_Type_contiguous");
  std::array<int, 2> counts{static_cast<int>(count / kBlock), static_cast<int>(count % kBlock)};
  std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(count / kBlock * kBlock) * extent};
  std::array<MPI_Datatype, 2> types{block, type};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &whole), "MPI_Type_create_struct");
  check_mpi(MPI_Type_free(&block), "MPI_Type_free");
  return whole;
}

}  // namespace

void throw_mpi_error(int code, const char* call) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ExitCode::backend, fmt::format("{} failed: {}", call, text.data()));
}

MPI_Datatype mpi_type(DType dtype) {
  if (is_signed(dtype)) return signed_type(size_of(dtype));
  if (!is_float(dtype) || is_narrow_float(dtype)) return unsigned_type(size_of(dtype));
  return size_of(dtype) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
}

bool needs_user_op(DType dtype) { return is_narrow_float(dtype); }

MPI_Op predefined_op(Op op) {
  switch (op) {
    case Op::sum:
      return MPI_SUM;
    case Op::prod:
      return MPI_PROD;
    case Op::max:
      return MPI_MAX;
    case Op::min:
      return MPI_MIN;
    case Op::avg:
    case Op::mulsum:
      break;
  }
  return MPI_OP_NULL;
}

UserOp::UserOp(DType dtype, Op op) {
  check_mpi(MPI_Op_create(user_function(dtype, op, std::make_index_sequence<kAllDTypes.size()>()), /*commute=*/1, &op_),
            "MPI_Op_create");
}

UserOp::UserOp(UserOp&& other) noexcept : op_(std::exchange(other.op_, MPI_OP_NULL)) {}

UserOp::~UserOp() {
  if (op_ != MPI_OP_NULL) MPI_Op_free(&op_);
}

CountedType::CountedType(std::size_t count, MPI_Datatype type, std::size_t max_count)
    : count_(static_cast<int>(count)), type_(type) {
  if (count <= max_count) return;
  const std::size_t block = block_divisor(count);
  if (count / block <= max_count) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(block), type, &type_), "MPI_Type_contiguous");
    count_ = static_cast<int>(count / block);
  } else {
    type_ = whole_message_type(count, type);
    count_ = 1;
  }
  owned_ = true;
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
}

CountedType::~CountedType() {
  // Pending nonblocking operations keep the type alive (MPI 3.1, section 4.1.9).
  if (owned_) MPI_Type_free(&type_);
}

}  // namespace busbar
