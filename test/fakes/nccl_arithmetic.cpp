#include "fakes/nccl_arithmetic.h"

#include "kernels/number.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace {

using fake_nccl::Bytes;
using fake_nccl::Call;
using fake_nccl::dtype_of;
using fake_nccl::size_of;

template <class T>
T reduced_value(T total, T x, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(total * x);
    case ncclMax:
      return std::max(total, x);
    case ncclMin:
      return std::min(total, x);
    default:
      return static_cast<T>(total + x);
  }
}

/// In T's own arithmetic; `read` and `write` turn an element's bytes into a T and back.
template <class T, class Read, class Write>
Bytes reduce_as(const Call& call, const std::vector<Bytes>& inputs, const Read& read, const Write& write) {
  Bytes into(inputs.front().size());
  const std::size_t w = size_of(call.type);
  T factor = 1;
  if (call.op >= ncclNumOps) factor = read(reinterpret_cast<const unsigned char*>(&call.factor));
  for (std::size_t at = 0; at < into.size(); at += w) {
    T total{};
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const T x = static_cast<T>(read(inputs[r].data() + at) * factor);
      total = r == 0 ? x : reduced_value(total, x, call.op);
    }
    if (call.op == ncclAvg) total = static_cast<T>(total / static_cast<T>(inputs.size()));
    write(into.data() + at, total);
  }
  return into;
}

template <class T>
Bytes reduce_plain(const Call& call, const std::vector<Bytes>& inputs) {
  return reduce_as<T>(
      call, inputs,
      [](const unsigned char* at) {
        T x;
        std::memcpy(&x, at, sizeof x);
        return x;
      },
      [](unsigned char* at, T x) { std::memcpy(at, &x, sizeof x); });
}

/// Narrow floats through double, rounded once: NCCL's order and rounding are not what is tested here.
Bytes reduce_narrow(const Call& call, const std::vector<Bytes>& inputs) {
  const busbar::DType dtype = dtype_of(call.type);
  const std::size_t w = size_of(call.type);
  return reduce_as<double>(
      call, inputs,
      [=](const unsigned char* at) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, at, w);
        return busbar::decode(dtype, bits);
      },
      [=](unsigned char* at, double x) {
        const std::uint64_t bits = busbar::encode(dtype, x);
        std::memcpy(at, &bits, w);
      });
}

}  // namespace

busbar::DType fake_nccl::dtype_of(ncclDataType_t type) {
  using busbar::DType;
  constexpr std::array kTypes{DType::int8,    DType::uint8,    DType::int32,  DType::uint32,
                              DType::int64,   DType::uint64,   DType::half,   DType::float32,
                              DType::float64, DType::bfloat16, DType::f8e4m3, DType::f8e5m2};
  static_assert(kTypes.size() == ncclNumTypes);
  return kTypes[static_cast<std::size_t>(type)];
}

std::size_t fake_nccl::size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

// One rank copies what it need not scale.
Bytes fake_nccl::reduced(const Call& call, const std::vector<Bytes>& inputs) {
  if (inputs.size() == 1 && call.op < ncclNumOps) return inputs.front();
  switch (call.type) {
    case ncclInt8:
      return reduce_plain<std::int8_t>(call, inputs);
    case ncclUint8:
      return reduce_plain<std::uint8_t>(call, inputs);
    case ncclInt32:
      return reduce_plain<std::int32_t>(call, inputs);
    case ncclUint32:
      return reduce_plain<std::uint32_t>(call, inputs);
    case ncclInt64:
      return reduce_plain<std::int64_t>(call, inputs);
    case ncclUint64:
      return reduce_plain<std::uint64_t>(call, inputs);
    case ncclFloat32:
      return reduce_plain<float>(call, inputs);
    case ncclFloat64:
      return reduce_plain<double>(call, inputs);
    default:
      return reduce_narrow(call, inputs);
  }
}
