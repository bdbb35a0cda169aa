#pragma once

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// The element types of the suite, in the order in which `-d all` visits them.
enum class DType : std::uint8_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  half,
  float32,
  float64,
  bfloat16,
  f8e4m3,
  f8e5m2
};

/// How a floating-point dtype is laid out: sign, exponent, `precision` - 1 stored significand bits.
struct FloatFormat {
  int precision = 0;     ///< significand bits, the hidden one included
  int min_exponent = 0;  ///< the smallest normal number is 2^min_exponent
  int max_exponent = 0;  ///< of the largest finite number
  double max = 0;        ///< largest finite number
  int exponent_bits = 0;
  std::uint64_t lone_nan = 0;  ///< not 0: the only NaN, of either sign; the top exponent holds numbers, no infinity
};

enum class DTypeKind : std::uint8_t { signed_integer, unsigned_integer, floating };

/// A dtype is a constant: its names and what its bits mean.
struct ElementType {
  DType dtype;
  std::string_view name;     ///< in the `type` column, as nccl-tests prints it
  std::string_view aliases;  ///< other names that -d takes, separated by spaces
  std::size_t size;          ///< [bytes]
  DTypeKind kind;
  FloatFormat format = {};  ///< floating: what the bits are
};

// A plain array: a GPU may read its constant elements, but not call std::array's functions.
inline constexpr ElementType kElementTypes[] = {
    {DType::int8, "int8", "", 1, DTypeKind::signed_integer},
    {DType::uint8, "uint8", "", 1, DTypeKind::unsigned_integer},
    {DType::int32, "int32", "", 4, DTypeKind::signed_integer},
    {DType::uint32, "uint32", "", 4, DTypeKind::unsigned_integer},
    {DType::int64, "int64", "", 8, DTypeKind::signed_integer},
    {DType::uint64, "uint64", "", 8, DTypeKind::unsigned_integer},
    {DType::half, "half", "fp16 float16", 2, DTypeKind::floating, {11, -14, 15, 65504.0, 5}},
    {DType::float32, "float", "fp32 float32", 4, DTypeKind::floating, {24, -126, 127, FLT_MAX, 8}},
    {DType::float64, "double", "fp64 float64", 8, DTypeKind::floating, {53, -1022, 1023, DBL_MAX, 11}},
    {DType::bfloat16, "bfloat16", "bf16", 2, DTypeKind::floating, {8, -126, 127, 255 * 0x1p120, 8}},
    // OCP "OFP8 Formats for Deep Learning", revision 1.0: E4M3 has no infinity and one NaN.
    {DType::f8e4m3, "f8e4m3", "fp8 e4m3", 1, DTypeKind::floating, {4, -6, 8, 448.0, 4, 0x7F}},
    {DType::f8e5m2, "f8e5m2", "e5m2", 1, DTypeKind::floating, {3, -14, 15, 57344.0, 5}}};

inline constexpr std::size_t kDTypeCount = std::size(kElementTypes);

constexpr const ElementType& element_type(DType dtype) { return kElementTypes[static_cast<std::size_t>(dtype)]; }

inline constexpr auto kAllDTypes = [] {
  std::array<DType, kDTypeCount> all{};
  std::transform(std::begin(kElementTypes), std::end(kElementTypes), all.begin(),
                 [](const auto& t) { return t.dtype; });
  return all;
}();

static_assert(std::all_of(kAllDTypes.begin(), kAllDTypes.end(), [](DType d) { return element_type(d).dtype == d; }),
              "the constants are in the order of the enumerators");

/// Size of one element [bytes].
constexpr std::size_t size_of(DType dtype) { return element_type(dtype).size; }

constexpr bool is_float(DType dtype) { return element_type(dtype).kind == DTypeKind::floating; }

/// For an integer dtype: whether it has a sign.
constexpr bool is_signed(DType dtype) { return element_type(dtype).kind == DTypeKind::signed_integer; }

/// For a floating-point dtype: narrower than float, so that libraries compute it in float or not at all.
constexpr bool is_narrow_float(DType dtype) { return is_float(dtype) && size_of(dtype) < sizeof(float); }

constexpr bool is_fp8(DType dtype) { return is_float(dtype) && size_of(dtype) == 1; }

/// The name in the `type` column, as nccl-tests prints it.
constexpr std::string_view name(DType dtype) { return element_type(dtype).name; }

/// The type of that name or alias (fp16, bf16, fp8, ...), in any case; null if there is none.
std::optional<DType> parse_dtype(std::string_view text);

/// Every name that parse_dtype takes, for messages: names, then aliases.
std::string dtype_choices();

}  // namespace busbar
