#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/report/doctor_json.h"
#include "common/report/doctor_text.h"
#include "common/report/report_file.h"
#include "common/report/table.h"
#include "tools/doctor_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace busbar {
namespace {

void write_json(const std::string& path, const std::string& text) {
  const std::string name = create_new_file(path, "-J").path;
  if (name != path) fmt::print(stderr, "busbar: {} exists; writing {}\n", path, name);
  const int error = replace_file(name, text);
  if (error != 0) throw Error(ExitCode::internal, fmt::format("-J {}: {}", name, std::strerror(error)));
}

double latest(const std::vector<NodeReport>& nodes) {
  double time_s = 0;
  for (const NodeReport& node : nodes) time_s = std::max(time_s, node.time_s);
  return time_s;
}

DoctorDifference difference(const std::string& file, const std::vector<NodeReport>& nodes) {
  const std::vector<NodeReport> old = read_doctor_json(read_file(file, "the older report"), file);
  DoctorDifference d;
  d.before = file;
  d.seconds = std::max(0.0, latest(nodes) - latest(old));
  d.changes = changed_rows(old, nodes);
  d.counters = moved_on_nodes(old, nodes);
  d.gone = missing_hosts(old, nodes);
  d.added = missing_hosts(nodes, old);
  return d;
}

}  // namespace

int conclude_doctor(const DoctorOptions& options, const std::vector<NodeReport>& nodes) {
  const DoctorFinding finding = join_nodes(nodes);
  Outcome outcome = finding.outcome;
  std::string text = doctor_text(finding);
  if (options.verbose) text += doctor_rows_text(nodes);
  if (!options.diff.empty()) {
    const DoctorDifference d = difference(options.diff, nodes);
    for (const DoctorRow& row : d.counters) outcome = worse(outcome, row.outcome);
    text += doctor_difference_text(d);
  }
  if (!options.output_file.empty()) write_json(options.output_file, doctor_json(nodes, finding));
  if (!write_stdout(text)) throw Error(ExitCode::internal, "stdout takes no more output; the report is incomplete");
  const bool bad = outcome == Outcome::fail || (options.strict && outcome == Outcome::warn);
  return static_cast<int>(bad ? ExitCode::wrong_data : ExitCode::good);
}

}  // namespace busbar
