#pragma once

#include "common/measure/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// `value` in at most `width` characters: two decimals, then one, then none, then an exponent, as it grows
/// (nccl-tests' degradation, on which column parsers rely); "-" for NaN. Not padded.
std::string fit_number(double value, std::size_t width);

/// A cell's busbw likewise; "-" for 0: one rank sends nothing.
inline std::string fit_busbw(double busbw, std::size_t width) { return busbw > 0 ? fit_number(busbw, width) : "-"; }

/// An amount of memory in powers of 1024 with three significant digits: "64.0 MB", "0.00 B".
std::string memory_amount(std::int64_t nbytes);

/// `text` without the words by which parsers find the footer: no line before it may contain `bandwidth` or `FAILED`.
std::string without_footer_words(std::string text);

/// Replaces some of the text's characters, as a file format requires.
std::string with_escapes(std::string_view text, const std::map<char, std::string_view>& escapes);

/// The `redop` column: the operation, or `none`.
std::string_view redop_text(std::optional<Op> op);

/// The 99th percentile, if there are enough samples for its interval; else it is one of the few largest samples,
/// whatever the tail.
std::optional<double> sure_p99_s(const CellStats& cell);

/// The row's half if it was measured; null if the collective lacks the placement or `--placement` leaves it out.
const HalfResult* measured_half(const Config& config, const Row& row, bool in_place);

/// Whether the host's part of the time is known: --stat only has it with --nonblocking.
bool has_cpu_time(const Config& config, const HalfResult& half);

/// The summary of -I over the iterations after the skipped ones; all zero if there are none.
struct IterationStats {
  double min_s = 0;
  double max_s = 0;
  double avg_s = 0;
  double p50_s = 0;
  double p95_s = 0;
  double p99_s = 0;
  double stdev_s = 0;  ///< of the population
  double cv_pct = 0;   ///< stdev / avg [%]
};

/// Order statistics by nccl-tests' rule (util.cu, computeIterStats), so that the columns of both suites are comparable.
IterationStats iteration_stats(const IterationTimes& iterations);

/// Ranks that one wrong row explains on stderr: enough to see a pattern, few enough to find the next row.
inline constexpr std::size_t kMaxExplainedRanks = 8;

/// Explains a wrong row on stderr: the row, then a line per wrong buffer of the first kMaxExplainedRanks ranks, each
/// starting with "# wrong:". Empty if row.wrong is. `in_json`: -J has the omitted ranks.
std::string wrong_text(const Collective& collective, const Row& row, bool in_json);

}  // namespace busbar
