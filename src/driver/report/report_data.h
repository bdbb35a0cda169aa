#pragma once

#include "common/record/cell.h"
#include "common/record/culprit.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

// What the HTML report shows, whatever it was read from. Texts come from outside and are escaped where they are
// written, never here.

/// One size of a line.
struct ReportPoint {
  std::uint64_t nbytes = 0;
  std::optional<double> busbw;             ///< [1e9 B/s]
  std::optional<Interval> busbw_interval;  ///< usually 95 %; of hosts: lowest and highest
  std::optional<double> time_s;
  std::optional<Interval> time_interval_s;
  std::optional<std::int64_t> wrong;  ///< nothing: not checked
  std::string note;                   ///< "RING", "noisy"; over days it begins with the date and time
  std::optional<double> ratio;        ///< of the time to that of the library's own choice
  std::optional<Interval> ratio_interval;
  std::optional<double> p99_s;       ///< of the samples
  std::optional<Interval> epochs_s;  ///< the least and the most of the epochs' medians
};

/// One line of the charts. Its name in the legend is built from the parts below in which the lines of a chart differ;
/// what they share is in the chart's caption.
struct ReportSeries {
  std::string source;               ///< the file, if there are several
  std::string collective;           ///< charts are by collective if one would be too full
  std::string type;                 ///< "float sum"
  std::string placement;            ///< "out of place"
  std::string scope;                ///< "16 ranks on 2 hosts", "node1"
  std::string variant;              ///< "NCCL_ALGO=Ring", "root 3"
  bool expected = false;            ///< what is required, not measured: dashed, without marks
  bool over_days = false;           ///< points are over time [s since 1970] in the place of sizes
  std::vector<ReportPoint> points;  ///< in rising order of size
};

/// The pairs of hosts or ranks.
struct ReportMatrix {
  std::string title;
  std::string unit;                ///< "host" or "rank"
  std::vector<std::string> units;  ///< names
  std::vector<PairCell> cells;
  double median_bandwidth = 0;  ///< [B/s] the colors' reference
  double threshold = 0;         ///< share of it below which a cell is slow; 0: not known
  std::vector<int> blamed;      ///< units
};

/// Who was late and who was slow in one cell of --per-rank.
struct ReportSkew {
  std::string title;  ///< "all_reduce float sum, 4 MiB, out of place"
  std::vector<RankTime> ranks;
  std::optional<int> straggler;  ///< rank that the statistics name
};

/// Rows of text; with an outcome each if they were judged.
struct ReportTable {
  std::string title;
  std::string caption = {};  ///< a sentence; also counts of what is not shown
  std::vector<std::string> columns;
  struct Row {
    std::optional<Outcome> outcome;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows = {};
  /// A row that was not judged.
  void add(std::vector<std::string> cells) { rows.push_back({{}, std::move(cells)}); }
  std::size_t bars = kNoBars;  ///< the column of shares, 1 is what is wanted, that are drawn as bars
  static constexpr std::size_t kNoBars = static_cast<std::size_t>(-1);
};

/// What a rank's GPU does in one step: intervals from the step's beginning [s].
struct ReportLanes {
  int rank = -1;
  std::string step;
  double time_s = 0;
  std::vector<Interval> computing, communicating, exposed;
};

/// How one of the files came about.
struct ReportRun {
  std::string title;  ///< the file's name, or "This run"
  struct Fact {
    std::string name;  ///< "command", "library", "hosts"
    std::vector<std::string> lines;
  };
  std::vector<Fact> facts;
};

struct ReportData {
  std::string title;
  std::optional<Outcome> outcome;    ///< nothing: nothing was judged
  std::string headline;              ///< one sentence next to it
  std::vector<std::string> verdict;  ///< the lines below it
  std::vector<std::string> next;     ///< what to do first
  std::vector<ReportTable> judged;   ///< before the charts: failures, culprits, criteria, changes
  std::vector<ReportSeries> series;
  std::vector<ReportMatrix> matrices;
  std::vector<ReportSkew> skews;
  std::vector<ReportLanes> lanes;    ///< of one picture
  std::vector<ReportTable> details;  ///< after the charts: doctor, counters
  std::vector<ReportRun> runs;
  std::set<std::string> disturbed;  ///< sources whose runs say that they were: no change is claimed of them
};

}  // namespace busbar
