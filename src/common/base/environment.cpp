#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdint>

namespace busbar {
namespace {

struct Split {
  char kind;  ///< one of & | % /
  std::uint32_t operand;
};

bool consume(std::string_view& text, std::string_view prefix) {
  const auto same = [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); };
  if (text.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), text.begin(), same)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::uint32_t> parse_operand(std::string_view text) {
  if (consume(text, "0x")) return number_of<std::uint32_t>(text, 16);
  if (consume(text, "0b")) return number_of<std::uint32_t>(text, 2);
  return number_of<std::uint32_t>(text, 10);
}

Split parse_split(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 8> kKinds{
      {{"AND", '&'}, {"&", '&'}, {"OR", '|'}, {"|", '|'}, {"MOD", '%'}, {"%", '%'}, {"DIV", '/'}, {"/", '/'}}};
  std::string_view rest = text;
  for (const auto& [word, kind] : kKinds) {
    if (!consume(rest, word)) continue;
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front()))) rest.remove_prefix(1);
    const std::optional<std::uint32_t> operand = parse_operand(rest);
    const bool divides = kind == '%' || kind == '/';
    // A group number is MPI's color: an int of at least 0.
    const bool fits = operand && (kind != '|' || *operand <= INT_MAX) && (!divides || *operand > 0);
    if (fits) return {kind, *operand};
    break;
  }
  throw_bad_config(
      fmt::format("{} is not a split: use AND, OR, MOD or DIV (or & | % /) and a number (decimal, 0x, 0b; "
                  "above 0 for MOD and DIV), such as MOD 2",
                  in_quotes(text)));
}

void set_split(Config& config, std::string_view text) {
  parse_split(text);
  config.split = text;
}

void set_split_mask(Config& config, std::string_view text) {
  std::string_view digits = text;
  consume(digits, "0x");
  const std::optional<std::uint32_t> mask = number_of<std::uint32_t>(digits, 16);
  if (!mask) throw_bad_config(fmt::format("{} is not a hexadecimal mask such as 7 or 0xf0", in_quotes(text)));
  config.split = fmt::format("AND 0x{:x}", *mask);
}

// SPLIT_MASK comes after SPLIT: nccl-tests lets it win.
constexpr std::array kVariables{
    EnvironmentVariable{"NCCL_TESTS_DEVICE", "number of the first device that a process uses",
                        [](Config& c, std::string_view text) { c.base_device = parse_int(text, 0); }},
    EnvironmentVariable{"NCCL_TESTS_MIN_BW", "GB/s; the run fails if the average busbw is below 0.9 x this",
                        [](Config& c, std::string_view text) { c.min_bw = parse_double(text, 0); }},
    EnvironmentVariable{"NCCL_TESTS_SPLIT", "one communicator per group of processes: AND, OR, MOD or DIV and a number",
                        set_split},
    EnvironmentVariable{"NCCL_TESTS_SPLIT_MASK", "hexadecimal; the same as NCCL_TESTS_SPLIT=\"AND 0x...\"",
                        set_split_mask},
    EnvironmentVariable{"NCCL_TESTS_ALLTOALLV_SPREAD", "0 equal counts .. 1 counts grow with the distance (default)",
                        [](Config& c, std::string_view text) { c.traffic_spread = parse_double(text, 0, 1); }},
    EnvironmentVariable{"NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "bytes from rank (row) to rank (column)",
                        [](Config& c, std::string_view text) { c.traffic_file = text; }},
    EnvironmentVariable{"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "factor on the matrix",
                        [](Config& c, std::string_view text) { c.traffic_scale = parse_double(text, 0); }},
    EnvironmentVariable{"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "1: bytes and bandwidth of each rank, below each row",
                        [](Config& c, std::string_view text) { c.traffic_summary = parse_int(text, 0, 1) == 1; }},
};

}  // namespace

std::span<const EnvironmentVariable> all_environment_variables() { return kVariables; }

void apply_environment(Config& config, const ReadEnvironment& environment) {
  for (const EnvironmentVariable& variable : kVariables) {
    const char* text = environment(variable.name.data());
    if (text == nullptr || *text == '\0') continue;
    try {
      variable.set(config, text);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("environment variable {}: {}", variable.name, error.what()));
    }
  }
}

int split_color(std::string_view split, int process) {
  if (split.empty()) return 0;
  const auto [kind, operand] = parse_split(split);
  const auto number = static_cast<std::uint32_t>(process);
  return static_cast<int>(kind == '&'   ? number & operand
                          : kind == '|' ? number | operand
                          : kind == '%' ? number % operand
                                        : number / operand);
}

}  // namespace busbar
