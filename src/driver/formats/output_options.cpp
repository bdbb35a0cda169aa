#include "driver/formats/output_options.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "driver/formats/result_formats.h"
#include "driver/history/history.h"

#include <fmt/format.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

namespace busbar {

namespace {

// More than the files of a large run take, so that a disk with room for a header alone is found out.
constexpr std::size_t kResultRoom = 256 * 1024;

/// The last run's metrics stay until this one has some.
void check_prometheus(const std::string& path) {
  std::error_code unknown;  // then the trial below has the reason
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    throw_bad_config(fmt::format("--prometheus {}: exists and is not a regular file; name a file", path));
  }
  const int error = try_writing_beside(path, std::string(kResultRoom, ' '));
  if (error == 0) return;
  throw_bad_config(
      fmt::format("--prometheus {}: cannot write into its directory: {}; name a file in a "
                  "directory that exists and that rank 0 may write",
                  path, std::strerror(error)));
}

}  // namespace

std::vector<OwnOption> output_own_options(OutputOptions& options) {
  return {{"junit", "FILE", "write JUnit XML, a test per criterion", into(options.junit, parse_file_name)},
          {"csv", "FILE", "write cells and criteria as CSV", into(options.csv, parse_file_name)},
          {"markdown", "FILE", "write verdict and tables as Markdown, for a ticket",
           into(options.markdown, parse_file_name)},
          {"prometheus", "FILE", "write metrics for node-exporter's textfile collector; replaces the file",
           into(options.prometheus, parse_file_name)},
          {"history", "FILE", "add the run to this SQLite file, for `busbar history`",
           into(options.history, parse_file_name)}};
}

void OutputFiles::open(const OutputOptions& options, const AcceptResult& begun, std::string_view tool,
                       StartedFiles& started) {
  // What cannot be created comes before what can, so that a bad name leaves no files.
  if (!options.prometheus.empty()) check_prometheus(options.prometheus);
  if (!options.history.empty()) check_history(options.history);
  std::vector<File> files;
  const auto add = [&](const std::string& asked, const char* option, decltype(File::text) text) {
    if (asked.empty()) return;
    const std::string path = started.add(create_result_file(asked, option));
    int error = replace_file(path, std::string(kResultRoom, ' '));
    if (error == 0) error = replace_file(path, text(begun));
    if (error != 0)
      throw_bad_config(fmt::format("{} {}: cannot write '{}': {}", option, asked, path, std::strerror(error)));
    files.push_back({{path, Replacing::plainly}, std::move(text)});
  };
  const std::string name(tool);
  add(options.junit, "--junit", [name](const AcceptResult& r) { return junit_xml(r, name); });
  add(options.csv, "--csv", accept_csv);
  add(options.markdown, "--markdown", [name](const AcceptResult& r) { return markdown_text(r, name); });
  files_ = std::move(files);
  tool_ = name;
  prometheus_ = options.prometheus;
  history_ = options.history;
}

void OutputFiles::write_so_far(const AcceptResult& result) {
  for (File& one : files_) one.file.write([&] { return one.text(result); });
}

Lost OutputFiles::write(const AcceptResult& result) {
  Lost lost;
  write_so_far(result);
  for (const File& one : files_) one.file.add_lost(lost);
  if (!prometheus_.empty()) {
    const std::int64_t end_s = parse_local_timestamp(result.end_time).value_or(std::time(nullptr));
    const int error = replace_file(prometheus_, prometheus_text(result, tool_, end_s), Replacing::shared);
    if (error != 0) lost.push_back(fmt::format("the last run's metrics in {} ({})", prometheus_, why_lost(error)));
  }
  if (!history_.empty() && !add_to_history(history_, history_of_accept(result, tool_)))
    lost.push_back("no run in " + history_);
  return lost;
}

}  // namespace busbar
