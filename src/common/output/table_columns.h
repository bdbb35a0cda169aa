#pragma once

#include "common/measure/result.h"

#include <string>

namespace busbar {

// The order of columns: the 13 of nccl-tests (21 with -I), those of --stat, those of --show-algo, the timestamp of -S.

/// The three title lines above the columns.
std::string column_titles(const Config& config);

/// What stands above columns that belong together: two lines of the same width.
struct Titles {
  std::string words;
  std::string units;
};

// table_stat.cpp ---------------------------------------------------------------------------------------------------

/// Of --stat, for one half: median, +-CI%, p99, samples, stop; with --skew the skew too.
Titles stat_titles(const Config& config);
/// The columns below; as many tokens whatever was measured. `half` is null where nothing was.
std::string stat_columns(const Config& config, const HalfResult* half);

/// Of --show-algo: algo, proto, nch; with --show-prediction pred and meas/pred too.
Titles algorithm_titles(const Config& config);
std::string algorithm_columns(const Config& config, const Row& row);

/// Header lines of --stat and --show-algo: what a sample is, when a cell is done, what the columns mean; empty without
/// either.
std::string stat_header(const RunInfo& info);

}  // namespace busbar
