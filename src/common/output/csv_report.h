#pragma once

#include "common/measure/result.h"
#include "common/output/report_file.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// The first line: column names with their units; bandwidths are in 1e9 B/s.
std::string csv_header();

/// One line per measured half, out of place first. Empty fields: `wrong` if nothing was checked, cpu_time_us with
/// --stat, the columns of --stat and --show-algo without these options, values that are no numbers.
std::string csv_lines(const Config& config, const Collective& collective, const Row& row);

/// The text as one CSV field: quoted if RFC 4180 requires it.
std::string csv_field(std::string_view text);

/// Seconds as microseconds, to the picosecond: further digits are noise of the conversion. Empty for none.
std::string csv_microseconds(std::optional<double> time_s);

/// A CSV file with every finished row.
class CsvFile : public AppendedFile {
 public:
  explicit CsvFile(const std::string& path) : AppendedFile(path, "--csv", csv_header()) {}

  void add(const Config& config, const Collective& collective, const Row& row) {
    append(csv_lines(config, collective, row));
  }
};

/// Every sample of --stat as CSV (--samples), for your own analyses:
/// collective,dtype,op,root,bytes,placement,epoch,sample,time_us,skew_us. Rank 0 only. Held in memory and written in
/// large pieces, or when the caller has a row to show, so that sampling is barely disturbed.
class SamplesFile : public AppendedFile {
 public:
  explicit SamplesFile(const std::string& path);
  ~SamplesFile();

  /// One batch: the samples of one visit to a cell. `skew_s` is as long as `time_s`, or empty if it is not known.
  void add(const Collective& collective, const Case& row_case, bool in_place, int epoch, std::span<const double> time_s,
           std::span<const double> skew_s);

  /// Writes what is held in memory.
  void flush();

  /// Whether every sample is in the file.
  bool complete() const { return kept_.empty() && AppendedFile::complete(); }

 private:
  std::string kept_;
};

}  // namespace busbar
