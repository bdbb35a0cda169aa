#pragma once

#include "common/measure/result.h"
#include "common/output/appended_file.h"

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

/// A CSV file that has every finished row.
class CsvFile : public AppendedFile {
 public:
  explicit CsvFile(const std::string& path) : AppendedFile(path, "--csv", csv_header()) {}

  void add(const Config& config, const Collective& collective, const Row& row) {
    append(csv_lines(config, collective, row));
  }
};

}  // namespace busbar
