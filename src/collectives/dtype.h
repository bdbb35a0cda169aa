#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

/// The twelve element types of the suite, in the order in which `-d all` visits them.
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
  f8e5m2,
};

inline constexpr std::array kAllDTypes{DType::int8,    DType::uint8,    DType::int32,  DType::uint32,
                                       DType::int64,   DType::uint64,   DType::half,   DType::float32,
                                       DType::float64, DType::bfloat16, DType::f8e4m3, DType::f8e5m2};

/// Size of one element [bytes].
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 1;
    case DType::half:
    case DType::bfloat16:
      return 2;
    case DType::int32:
    case DType::uint32:
    case DType::float32:
      return 4;
    case DType::int64:
    case DType::uint64:
    case DType::float64:
      return 8;
  }
  return 0;
}

/// The name in the `type` column, as nccl-tests prints it.
std::string_view name(DType dtype);

/// The type of that name or alias (fp16, bf16, fp8, ...), in any case; nothing when there is none.
std::optional<DType> parse_dtype(std::string_view text);

/// Every name that parse_dtype takes, for messages: the twelve, then the aliases.
std::string_view dtype_choices();

}  // namespace busbar
