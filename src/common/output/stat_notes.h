#pragma once

#include "common/measure/result.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A cell by its position in the table.
struct CellName {
  std::size_t row = 0;  ///< in printing order
  bool in_place = false;
  std::size_t nbytes = 0;
  std::string group;  ///< the row's name besides its size, " float sum": empty if all rows share it
};

/// "out-of-place 8..64, 1024 B; in-place 8 B": neighboring rows form one range.
std::string compressed(std::vector<CellName> cells);

/// Collects from the rows of --stat the facts for the end: which cells missed the target, drifted, have two modes or
/// were not warm; with --per-rank every rank of every cell. A cell is one placement of one row.
class StatNotes {
 public:
  StatNotes(const Config& config, const Plan& plan);

  void add(const Row& row);

  /// `# ...` lines to print before the table's footer; empty without --stat.
  std::string text(const std::optional<Disturbance>& disturbance) const;

 private:
  using Cells = std::vector<CellName>;

  void add_cell(const CellName& cell, const CellStats& stats);
  std::string group_name(const Case& row_case) const;
  std::string target_lines() const;
  std::string oddity_lines() const;
  std::string straggler_line() const;
  std::string note(const Cells& cells, const std::string& what, const std::string& advice) const;

  Config config_;
  bool several_dtypes_ = false;
  bool several_ops_ = false;
  bool several_roots_ = false;

  std::size_t rows_ = 0;
  std::size_t cells_ = 0;
  Cells out_of_time_;
  Interval spans_s_;  ///< the shortest and longest
  Cells noisy_;
  Cells drifting_;
  Cells bimodal_;
  Cells cold_;
  std::string ranks_;                              // the blocks of --per-rank
  std::size_t judged_ = 0;                         // cells of --per-rank whose arrivals are known
  std::map<std::string, std::size_t> stragglers_;  // "rank 3 on node1": in how many cells
};

/// The lines that say whether anything disturbed the run, and how much.
std::string disturbance_lines(const Disturbance& disturbance);

/// One cell of --per-rank as `# ...` lines: the straggler, then the ranks, latest first. `cell_name`: "1024 B
/// out-of-place".
std::string rank_table(std::string_view cell_name, const CellStats& cell);

/// The rank that the others wait for.
struct Straggler {
  int rank = 0;
  std::string host;
  double last_share = 0;  ///< share of samples in which it arrived last
  double late_s = 0;      ///< median
};

/// The cell's straggler, named only if the data leave no doubt, because blaming a healthy node costs a day; at most one
/// by construction. Of n ranks, one must
///  - arrive last in more samples than halfway between chance (1/n) and always: 75 % of 2 ranks, 56 % of 8;
///  - and in more than chance allows for so few samples (20 at least): 1/n + 4 sqrt((1/n)(1 - 1/n) / samples);
///  - be late by more than three times the next latest rank (ranks that leave a barrier one by one: twice), and later
///    than that one by more than 1 us (what a barrier leaves), twice the error of the common clock, and 1 % of the
///    operation's median (else waiting costs nothing).
/// Null without per-rank arrivals, and if ranks share cores: there the same rank is last in up to 99 % of samples
/// because the scheduler runs it last.
std::optional<Straggler> find_straggler(const CellStats& cell);

}  // namespace busbar
