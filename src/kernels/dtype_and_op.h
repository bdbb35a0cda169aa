#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace busbar {

/// The result of work(bits), where `bits` is an unsigned integer of so many bytes: 1, 2, 4 or 8.
auto with_bits_of(std::size_t width, auto work) {
  switch (width) {
    case 1:
      return work(std::uint8_t{});
    case 2:
      return work(std::uint16_t{});
    case 4:
      return work(std::uint32_t{});
    default:
      return work(std::uint64_t{});
  }
}

/// The result of make.operator()<D, O>() for a dtype and an op known only at run time; an empty one for ops that the
/// host's libraries lack (avg, mulsum).
template <class Result, class Make>
Result for_dtype_and_op(DType dtype, Op op, Make make) {
  Result found{};
  const auto for_op = [&]<DType D>() {
    switch (op) {
      case Op::sum:
        return void(found = make.template operator()<D, Op::sum>());
      case Op::prod:
        return void(found = make.template operator()<D, Op::prod>());
      case Op::max:
        return void(found = make.template operator()<D, Op::max>());
      case Op::min:
        return void(found = make.template operator()<D, Op::min>());
      case Op::avg:
      case Op::mulsum:
        return;
    }
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((dtype == kAllDTypes[I] ? for_op.template operator()<kAllDTypes[I]>() : void()), ...);
  }
  (std::make_index_sequence<kAllDTypes.size()>());
  return found;
}

}  // namespace busbar
