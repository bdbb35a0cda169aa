#include "common/report/read_run.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace busbar {
namespace {

using Json = nlohmann::json;

/// A value of the document that knows where it stands, so that every complaint names the file and the place.
class Value {
 public:
  Value(const Json& json, std::string place, const std::string& file)
      : json_(&json), place_(std::move(place)), file_(&file) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ExitCode::bad_config, fmt::format("{}: {}{}{}", *file_, place_, place_.empty() ? "" : " ", what));
  }

  bool is_null() const { return json_->is_null(); }
  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }
  /// Present and not null.
  bool holds(const char* key) const { return has(key) && !json_->at(key).is_null(); }

  Value at(const char* key) const {
    const std::string place = place_.empty() ? key : fmt::format("{}.{}", place_, key);
    if (!json_->is_object()) fail(place_.empty() ? "is no run of a benchmark: no JSON object" : "is no object");
    if (!json_->contains(key)) {
      throw Error(ExitCode::bad_config, fmt::format("{}: {} is missing; is it a file that -J of this suite's "
                                                    "benchmarks wrote?",
                                                    *file_, place));
    }
    return {json_->at(key), place, *file_};
  }

  template <class F>
  void each(F&& visit) const {
    if (!json_->is_array()) fail("is no list");
    std::size_t i = 0;
    for (const Json& item : *json_) visit(Value(item, fmt::format("{}[{}]", place_, i++), *file_));
  }

  std::string text() const {
    if (!json_->is_string()) fail("is no text");
    return json_->get<std::string>();
  }

  std::string text_or_empty() const { return is_null() ? std::string{} : text(); }

  bool truth() const {
    if (!json_->is_boolean()) fail("is neither true nor false");
    return json_->get<bool>();
  }

  std::int64_t whole(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const bool fits = json_->is_number_integer() &&
                      (!json_->is_number_unsigned() || json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
    const std::int64_t value = fits ? json_->get<std::int64_t>() : 0;
    if (!fits || value < least || value > most) fail(fmt::format("is no whole number from {} to {}", least, most));
    return value;
  }

  /// Microseconds in the file.
  double time_s() const {
    const double value_s = json_->is_number() ? json_->get<double>() * 1e-6 : 0;
    // What is too small for a normal number has no usable logarithm.
    if (!std::isnormal(value_s) || value_s < 0) fail("is no time above 0");
    return value_s;
  }

 private:
  const Json* json_;
  std::string place_;
  const std::string* file_;
};

constexpr int kMostRanks = std::numeric_limits<int>::max();

std::vector<std::string> texts(const Value& list) {
  std::vector<std::string> result;
  list.each([&](const Value& item) { result.push_back(item.text()); });
  return result;
}

/// nccl-tests writes the root as a text; -1: the collective has none.
int root_of(const Value& value) {
  const std::string text = value.text();
  if (text == "-1") return -1;
  try {
    return parse_int(text, 0);
  } catch (const Error&) {
    value.fail("is no rank");
  }
}

RunStats read_stats(const Value& json) {
  RunStats stats;
  stats.median_s = json.at("median_us").time_s();
  if (json.holds("interval_us")) {
    std::vector<double> bounds;
    json.at("interval_us").each([&](const Value& bound) { bounds.push_back(bound.time_s()); });
    if (bounds.size() != 2 || bounds[0] > bounds[1]) json.at("interval_us").fail("is no pair of rising times");
    stats.interval_s = Interval{bounds[0], bounds[1]};
  }
  json.at("epoch_medians_us").each([&](const Value& epoch) { stats.epoch_medians_s.push_back(epoch.time_s()); });
  for (const char* factor : {"samples_per_epoch", "calls_per_sample"}) {
    if (json.holds(factor)) stats.calls_per_epoch *= static_cast<double>(json.at(factor).whole(1, kMostRanks));
  }
  if (stats.epoch_medians_s.empty()) json.at("epoch_medians_us").fail("is empty");
  return stats;
}

RunCell read_cell(const Value& row, bool in_place, bool stat) {
  const char* key = in_place ? "in_place" : "out_of_place";
  const Value extra = row.at("busbar");
  RunCell cell;
  cell.nbytes = static_cast<std::uint64_t>(row.at("size").whole(0));
  cell.count = static_cast<std::uint64_t>(row.at("count").whole(0));
  cell.dtype = row.at("type").text();
  cell.redop = row.at("redop").text();
  cell.root = root_of(row.at("root"));
  cell.in_place = in_place;
  cell.measured = extra.at(key).at("measured").truth();
  if (!cell.measured) return cell;
  if (row.at(key).holds("nwrong")) cell.wrong = row.at(key).at("nwrong").whole(0);
  if (stat) cell.stats = read_stats(extra.at(key).at("stats"));
  if (extra.holds("algorithm")) {
    const Value shown = extra.at("algorithm");
    cell.algorithm = shown.at("algorithm").text();
    cell.protocol = shown.at("protocol").text();
    cell.channels = shown.at("channels").text();
  }
  return cell;
}

void read_sampling(const Value& stat, RunFile& run) {
  run.stat = true;
  run.cadence = stat.at("cadence").text();
  run.estimand = stat.at("estimand").text();
  if (!stat.holds("disturbance")) return;
  const Value disturbance = stat.at("disturbance");
  run.flags = texts(disturbance.at("flags"));
  if (disturbance.holds("spin_median_us")) run.spin_s = disturbance.at("spin_median_us").time_s();
  if (disturbance.holds("copy_median_us")) run.copy_s = disturbance.at("copy_median_us").time_s();
}

void read_suite(const Value& busbar, RunFile& run) {
  run.collective = busbar.at("collective").text();
  run.backend = busbar.at("backend").text();
  run.library = busbar.at("library").text();
  run.launch_uuid = busbar.at("launch_uuid").text();
  run.nranks = static_cast<int>(busbar.at("nranks").whole(1, kMostRanks));
  run.hosts = texts(busbar.at("hosts"));
  if (busbar.holds("exit_code")) run.exit_code = static_cast<int>(busbar.at("exit_code").whole(0, 255));
  if (busbar.holds("stat")) read_sampling(busbar.at("stat"), run);
  busbar.at("skipped").each([&](const Value& skip) {
    run.skipped.push_back({skip.at("dtype").text(), skip.at("op").text(),
                           static_cast<int>(skip.at("root").whole(-1, kMostRanks)), skip.at("reason").text()});
  });
}

}  // namespace

bool RunCell::same_cell(const RunCell& other) const {
  return nbytes == other.nbytes && count == other.count && dtype == other.dtype && redop == other.redop &&
         root == other.root && in_place == other.in_place;
}

RunFile read_run(std::string_view text, const std::string& name) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& e) {
    throw Error(ExitCode::bad_config, fmt::format("{}: is no JSON: {}", name, printable(e.what())));
  }
  RunFile run;
  run.name = name;
  const Value file(document, "", run.name);
  read_suite(file.at("busbar"), run);
  run.start_time = file.at("start_time").text_or_empty();
  file.at("results").each([&](const Value& row) {
    for (const bool in_place : {false, true}) run.cells.push_back(read_cell(row, in_place, run.stat));
  });
  return run;
}

}  // namespace busbar
