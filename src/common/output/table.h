#pragma once

#include "common/measure/result.h"

#include <string>
#include <string_view>

namespace busbar {

// The order of columns: the 13 of nccl-tests (21 with -I), those of --stat, those of --show-algo, the timestamp of -S.

// Everything on stdout, in the form that nccl-tests' users parse: 13 columns (21 with -I; more only with options), no
// word `bandwidth` or `FAILED` before the footer. A text ends with a newline and is written in one piece.

/// The lines before the first row: run parameters, one line per rank, info.remarks as `# ...` lines, column titles.
/// A lowered -e belongs in the remarks: "Reducing maxBytes to N due to memory limitation: ...".
std::string table_header(const RunInfo& info);

/// Part of the header: how the library is called, as one `# ...` line.
std::string calls_line(const RunInfo& info);

/// A remark of ours as `# ...` lines.
std::string remark_lines(const std::string& remark);

/// Part of the header: each rank's place, calls_line(), the remarks.
std::string job_lines(const RunInfo& info);

/// One row. Halves that were not measured print 0.00 and N/A, because readers drop rows without exactly 13 tokens; with
/// --stat, a half that --placement leaves out has no columns. Only the options decide how many columns there are.
std::string table_row(const Config& config, const Collective& collective, const Row& row);

/// What each rank sends and receives in a row of alltoallv, and its bandwidth by the larger of the two
/// (NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY, in nccl-tests' format). Empty if not requested.
std::string traffic_summary(const Config& config, const Collective& collective, const Row& row);

/// Waiting and transfer in a row's symmetric kernels, if NCCL reported them (--show-algo). Otherwise empty.
std::string phases_line(const Row& row);

/// The lines after the last row.
std::string table_footer(const RunInfo& info, const Summary& summary);

/// Writes `text` to stdout at once, without terminal control characters; false if stdout does not take it (disk full).
bool write_stdout(std::string_view text);

}  // namespace busbar
