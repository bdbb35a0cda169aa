#pragma once

#include "common/measure/result.h"
#include "common/output/report_file.h"

#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// The first line: column names with their units; bandwidths are in 1e9 B/s.
std::string csv_header();

/// One line per measured half, out of place first. Empty fields: `wrong` where nothing was checked, cpu_time_us with
/// --stat, what --stat and --show-algo tell where they were not asked, numbers that are none.
std::string csv_lines(const Config& config, const Collective& collective, const Row& row);

/// The text as one CSV field: quoted where RFC 4180 asks for it.
std::string csv_field(std::string_view text);

/// Seconds as microseconds, to the picosecond: the digits behind are noise of the conversion. Empty for none.
std::string csv_microseconds(std::optional<double> time_s);

/// A CSV file that has every finished row. Rank 0 only. A disk that fills up is reported once on stderr, and the run
/// goes on.
class CsvFile {
 public:
  /// Creates the file (or `path.0`, ...) with its header. Throws Error(bad_config) if that is not possible.
  explicit CsvFile(const std::string& path);

  void add(const Config& config, const Collective& collective, const Row& row);

  /// The file that was created.
  const std::string& path() const { return file_.path; }

 private:
  bool write(const std::string& text);

  NewFile file_;
  bool warned_ = false;
};

}  // namespace busbar
