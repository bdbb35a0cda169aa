#include "driver/formats/result_formats.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/timestamp.h"
#include "common/output/csv_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace busbar {
namespace {

std::string text_field(const std::string& text) { return csv_field(valid_utf8(text)); }

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string cell_line(const Cell& c) {
  const auto& ci = c.interval_s;
  const auto& bw = c.busbw_interval;
  return fmt::format("cell,{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},,,,,,,\n", name(*c.stage),
                     text_field(c.scope), text_field(c.cell), text_field(c.collective), text_field(c.dtype),
                     text_field(c.op), c.nbytes, place(c.in_place), c.nranks, c.nhosts, c.repetition,
                     text_field(c.algorithm), csv_microseconds(c.median_s), ci ? csv_microseconds(ci->low) : "",
                     ci ? csv_microseconds(ci->high) : "", number(c.busbw), bw ? number(bw->low) : "",
                     bw ? number(bw->high) : "", c.wrong ? std::to_string(*c.wrong) : "", name(c.stop));
}

std::string criterion_line(const CriterionResult& c) {
  return fmt::format("criterion,{},{},{},,,,{},{},,,,,,,,,,,,,{},{},{},{},{},{},{}\n", name(c.stage),
                     text_field(c.scope), text_field(c.cell), c.nbytes > 0 ? std::to_string(c.nbytes) : "",
                     c.nbytes > 0 ? place(c.in_place) : "", name(c.criterion), name(c.outcome), text_field(c.found),
                     text_field(c.wanted), text_field(c.source), text_field(c.reason),
                     text_field(fmt::format("{}", fmt::join(c.hosts, " "))));
}

}  // namespace

std::string accept_csv_header() {
  return "record,stage,scope,cell,collective,dtype,op,size_bytes,placement,nranks,nhosts,repetition,algorithm,median_"
         "us,ci_low_us,"
         "ci_high_us,busbw_gbps,busbw_low_gbps,busbw_high_gbps,wrong,stop,criterion,outcome,found,wanted,source,reason,"
         "hosts\n";
}

std::string accept_csv(const AcceptResult& result) {
  std::string text = accept_csv_header();
  for (const Cell& cell : result.cells) text += cell_line(cell);
  for (const CriterionResult& criterion : result.criteria) text += criterion_line(criterion);
  return text;
}

std::vector<std::string> blamed_hosts(const AcceptResult& result) {
  std::vector<std::string> blamed;
  const auto add = [&](const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) add_once(blamed, host);
  };
  for (const StageFailure& f : result.failures) add(f.hosts);
  for (const CriterionResult& c : result.criteria) {
    if (c.outcome == Outcome::fail) add(c.hosts);
  }
  return blamed;
}

double run_time_s(const AcceptResult& result) {
  const auto start = parse_local_timestamp(result.start_time);
  const auto end = parse_local_timestamp(result.end_time);
  return start && end && *end > *start ? static_cast<double>(*end - *start) : 0;
}

}  // namespace busbar
