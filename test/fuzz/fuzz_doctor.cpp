// Catches: a recording of a machine or a report of doctor, damaged or from elsewhere, that is answered by anything but
// rows or an Error(bad_config) of one line; a report that reads otherwise what it wrote; control letters on a terminal.

#include "common/base/error.h"
#include "common/machine/error_counters.h"
#include "common/machine/probe.h"
#include "common/record/node_report.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/join_nodes.h"
#include "fuzz_main.h"
#include "seed_files.h"

using namespace busbar;

extern const long kFuzzRounds = 2500;

namespace {

std::string check_nodes(const std::vector<NodeReport>& nodes) {
  const DoctorVerdict verdict = join_nodes(nodes);
  if (verdict.nodes != nodes.size()) return "another number of nodes";
  if (!is_plain(doctor_text(verdict)) || !is_plain(doctor_rows_text(nodes))) return "a control letter";
  const std::string text = doctor_json(nodes, verdict);
  const std::vector<NodeReport> back = read_doctor_json(text, "again.json");
  if (doctor_json(back, join_nodes(back)) != text) return "it reads otherwise what it wrote";
  DoctorDifference difference;
  // What is read again: bytes that are not UTF-8 are replaced where they are written.
  difference.changes = changed_rows(back, read_doctor_json(doctor_json(back, join_nodes(back)), "again.json"));
  if (!difference.changes.empty()) return "a report differs from itself";
  if (!is_plain(doctor_difference_text(difference))) return "a control letter in what differs";
  return {};
}

std::string check_recording(std::string_view input) {
  const Probe probe = probe_recorded(input, "fuzz.txt");
  NodeReport node;
  node.host = probe.host;
  node.time_s = probe.now_s;
  node.rows = check_node(probe);
  for (DoctorRow& row : check_process(probe)) node.rows.push_back(std::move(row));
  node.counters = read_counters(probe);
  for (const DoctorRow& row : node.rows) {
    if (row.check.empty()) return "a row without a name";
    if (row.outcome != Outcome::pass && row.reason.empty()) return row.check + " without a reason";
  }
  return check_nodes({node});
}

}  // namespace

std::string fuzz_one(std::string_view input) {
  try {
    return input.starts_with("{") ? check_nodes(read_doctor_json(input, "fuzz.json")) : check_recording(input);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_config) return std::string("an odd exit code: ") + error.what();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) return "a message of several lines";
    return is_plain(error.what()) ? "" : "a control letter in a message";
  } catch (const std::exception& error) {
    return std::string("thrown: ") + error.what();
  }
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = seed_files("doctor", ".txt");
  std::vector<NodeReport> nodes(2);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Probe probe = probe_recorded(seeds.at(i), "seed");
    nodes[i].host = probe.host;
    nodes[i].ranks = {static_cast<int>(i)};
    nodes[i].time = "2026-11-21 18:00:00";
    nodes[i].time_s = probe.now_s;
    nodes[i].rows = check_node(probe);
    nodes[i].counters = read_counters(probe);
  }
  seeds.push_back(doctor_json(nodes, join_nodes(nodes)));
  return seeds;
}
