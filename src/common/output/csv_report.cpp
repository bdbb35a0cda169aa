#include "common/output/csv_report.h"

#include "common/base/text.h"
#include "common/output/format.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

// The seven columns of --stat.
std::string stat_fields(const std::optional<CellStats>& stats) {
  if (!stats) return ",,,,,,";
  const auto& ci = stats->interval_s;
  return fmt::format("{},{},{},{},{},{},{}", csv_microseconds(stats->median_s), ci ? csv_microseconds(ci->low) : "",
                     ci ? csv_microseconds(ci->high) : "", csv_microseconds(sure_p99_s(*stats)), stats->samples,
                     name(stats->stop), csv_microseconds(stats->skew_median_s));
}

std::string algorithm_fields(const std::optional<ShownAlgorithm>& shown) {
  if (!shown) return ",,";
  return fmt::format("{},{},{}", csv_field(shown->algorithm), csv_field(shown->protocol), csv_field(shown->channels));
}

}  // namespace

std::string csv_microseconds(std::optional<double> time_s) {
  return time_s ? number(std::round(*time_s * 1e12) / 1e6) : "";
}

std::string csv_field(std::string_view text) {
  std::string field = without_controls(with_escapes(text, {{'\n', " "}, {'\r', " "}, {'\t', " "}}));
  // Spreadsheets compute it, and may start programs; of a sign alone only with a function or a program's name.
  const bool signed_text = field.starts_with('+') || field.starts_with('-');
  const bool formula = field.starts_with('=') || field.starts_with('@');
  if (formula || (signed_text && field.find_first_of("(|!") != kNotFound)) field.insert(0, 1, '\'');
  if (field.find_first_of(",\"") == kNotFound) return field;
  return '"' + with_escapes(field, {{'"', "\"\""}}) + '"';
}

std::string csv_header() {
  return "collective,dtype,op,root,size_bytes,count,nranks,placement,time_us,cpu_time_us,algbw_gbps,busbw_gbps,wrong,"
         "timed_verified,cycle,timestamp,note,median_us,ci_low_us,ci_high_us,p99_us,samples,stop,skew_us,algorithm,"
         "protocol,channels,mean_us\n";
}

std::string csv_lines(const Config& config, const Collective& collective, const Row& row) {
  const Case& c = row.row_case;
  std::string text;
  for (bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half == nullptr) continue;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", collective.name, name(c.dtype),
                        redop_text(c.op), shown_root(collective, c.root), c.nbytes, c.problem.count, c.problem.nranks,
                        in_place ? "in" : "out", csv_microseconds(half->time_s),
                        has_cpu_time(config, *half) ? csv_microseconds(half->cpu_time_s) : "", number(half->algbw),
                        number(half->busbw), half->wrong ? std::to_string(*half->wrong) : "", half->timed_verified,
                        row.cycle, csv_field(row.timestamp), csv_field(row.note), stat_fields(half->stats),
                        algorithm_fields(row.algorithm), half->stats ? csv_microseconds(half->stats->mean_s) : "");
  }
  return text;
}

SamplesFile::SamplesFile(const std::string& path)
    : AppendedFile(path, "--samples", "collective,dtype,op,root,bytes,placement,epoch,sample,time_us,skew_us\n") {}

SamplesFile::~SamplesFile() {
  try {
    flush();
  } catch (const std::exception&) {  // no memory: the file lacks rows
  }
}

void SamplesFile::flush() {
  if (!kept_.empty()) append(std::exchange(kept_, {}));
}

void SamplesFile::add(const Collective& collective, const Case& c, bool in_place, int epoch,
                      std::span<const double> time_s, std::span<const double> skew_s) {
  const std::string cell = fmt::format("{},{},{},{},{},{},{},", collective.name, name(c.dtype), redop_text(c.op),
                                       shown_root(collective, c.root), c.nbytes, in_place ? "in" : "out", epoch);
  for (std::size_t i = 0; i < time_s.size(); ++i) {
    fmt::format_to(std::back_inserter(kept_), "{}{},{},{}\n", cell, i, csv_microseconds(time_s[i]),
                   i < skew_s.size() ? csv_microseconds(skew_s[i]) : "");
  }
  constexpr std::size_t kPiece = std::size_t{1} << 20;  // [bytes]
  if (kept_.size() >= kPiece) flush();
}

}  // namespace busbar
