#include "collectives/dtype.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace busbar {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 22> kNames{{
    {"int8", DType::int8},       {"uint8", DType::uint8},       {"int32", DType::int32},     {"uint32", DType::uint32},
    {"int64", DType::int64},     {"uint64", DType::uint64},     {"half", DType::half},       {"float", DType::float32},
    {"double", DType::float64},  {"bfloat16", DType::bfloat16}, {"f8e4m3", DType::f8e4m3},   {"f8e5m2", DType::f8e5m2},
    {"fp16", DType::half},       {"float16", DType::half},      {"bf16", DType::bfloat16},   {"fp32", DType::float32},
    {"float32", DType::float32}, {"fp64", DType::float64},      {"float64", DType::float64}, {"fp8", DType::f8e4m3},
    {"e4m3", DType::f8e4m3},     {"e5m2", DType::f8e5m2},
}};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::string_view name(DType dtype) {
  for (const auto& [text, value] : kNames) {
    if (value == dtype) return text;
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const auto& [known, value] : kNames) {
    if (same_ignoring_case(known, text)) return value;
  }
  return std::nullopt;
}

std::string_view dtype_choices() {
  return "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all"
         " (also fp16 float16 fp32 float32 fp64 float64 bf16 fp8 e4m3 e5m2)";
}

}  // namespace busbar
