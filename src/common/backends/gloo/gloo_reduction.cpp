#include "common/backends/gloo/gloo_backend.h"
#include "kernels/dtype_and_op.h"
#include "kernels/host.h"
#include "kernels/lane.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace busbar {
namespace {

template <DType D>
using NumberOf =
    std::conditional_t<is_float(D), std::conditional_t<size_of(D) == sizeof(float), float, double>,
                       std::conditional_t<is_signed(D), std::make_signed_t<BitsOf<size_of(D)>>, BitsOf<size_of(D)>>>;

template <class T, Op O>
T combine(T a, T b) {
  if constexpr (O == Op::max) return std::max(a, b);
  if constexpr (O == Op::min) return std::min(a, b);
  // Unsigned and 64 bits wide: nothing overflows, and narrow types are not promoted to int.
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  if constexpr (O == Op::sum) return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  if constexpr (O == Op::prod) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
}

template <DType D, Op O>
void reduce(void* c, const void* a, const void* b, std::size_t count) {
  if constexpr (is_narrow_float(D)) {
    if (c != a && c != b) std::memcpy(c, a, count * size_of(D));
    narrow_reduction(D, O)(c == b ? a : b, c, count);
  } else {
    using T = NumberOf<D>;
    T* const out = static_cast<T*>(c);
    const T* const x = static_cast<const T*>(a);
    const T* const y = static_cast<const T*>(b);
    for (std::size_t i = 0; i < count; ++i) out[i] = combine<T, O>(x[i], y[i]);
  }
}

template <DType D, Op O>
void reduce_into(BitsOf<size_of(D)>* x, const BitsOf<size_of(D)>* y, std::size_t count) {
  reduce<D, O>(x, x, y, count);
}

}  // namespace

GlooReduction gloo_reduction(DType dtype, Op op) {
  return for_dtype_and_op<GlooReduction>(dtype, op, []<DType D, Op O>() {
    return GlooReduction{reduce<D, O>, reinterpret_cast<void (*)()>(reduce_into<D, O>)};
  });
}

}  // namespace busbar
