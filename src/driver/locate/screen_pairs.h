#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace busbar {

// Ends of a pair. Both ways at once an end is a unit; one way, unit u is the end u where it sends and nunits + u where
// it receives, so that the same counting reads rows (a sender), columns (a receiver) and cells (a path) of the directed
// matrix, as C4 does (arXiv 2406.04594).

/// A pair of ends and what it achieved, the median where it was measured more than once. No pair appears twice.
struct MeasuredPair {
  int a = 0;
  int b = 0;
  double bandwidth = 0;  ///< [B/s], above 0
};

/// Who is good and who is suspect, from pairs that are measured once each.
struct Screen {
  enum class State : std::uint8_t { unknown, good, suspect };
  double reference = 0;         ///< [B/s] median of the pairs whose ends are both good
  std::vector<double> score;    ///< per end: its best pair; from 8 pairs on the upper eighth; NaN where there is none
  std::vector<State> state;     ///< per end
  std::vector<int> slow_pairs;  ///< indices of pairs below the threshold whose ends are both good
  double faster_share = 0;      ///< ends whose score is so far above the reference as a slow one is below
};

/// `threshold`: of the reference, below which a pair is slow. An end is suspect when even its best pairs are slow: a
/// slow partner or a passing dip spoils one of its pairs, not all. `few`: fewer than 8 units, where one slow unit
/// spoils so many pairs that only the best quartile of them can be what is normal (acceptance.md 4.3).
Screen screen_pairs(std::span<const MeasuredPair> pairs, int nends, double threshold, bool few);

}  // namespace busbar
