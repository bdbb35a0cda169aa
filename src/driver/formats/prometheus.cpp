#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/output/format.h"
#include "driver/formats/result_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <map>

namespace busbar {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One metric with all its series: the format wants them together.
class Gauge {
 public:
  Gauge(std::string name, std::string_view help) : name_(std::move(name)), help_(help) {}

  /// A later value of the same labels takes the place of the earlier.
  void set(const Labels& labels, double value) {
    if (!std::isfinite(value)) return;
    const std::string text = prometheus_labels(labels);
    if (values_.find(text) == values_.end()) order_.push_back(text);
    values_[text] = value;
  }

  std::string text() const {
    if (order_.empty()) return "";
    std::string text = fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name_, help_, name_);
    for (const std::string& labels : order_) text += fmt::format("{}{} {}\n", name_, labels, values_.at(labels));
    return text;
  }

 private:
  std::string name_;
  std::string_view help_;
  std::vector<std::string> order_;
  std::map<std::string, double> values_;
};

Labels cell_labels(const Cell& cell, const std::string& plan) {
  return {{"plan", plan},
          {"stage", name(*cell.stage)},
          {"scope", cell.scope},
          {"cell", cell.cell},
          {"collective", cell.collective},
          {"dtype", cell.dtype},
          {"op", cell.op},
          {"nbytes", std::to_string(cell.nbytes)},
          {"placement", place(cell.in_place)}};
}

std::string cells_text(const AcceptResult& result, const std::string& plan) {
  Gauge busbw("busbar_busbw_bytes_per_second", "Bus bandwidth of the median time, as nccl-tests defines it.");
  Gauge latency("busbar_latency_seconds", "Median time of one operation.");
  Gauge width("busbar_latency_relative_half_width",
              "Half of the median's 95 % interval over the median, within this run.");
  Gauge wrong("busbar_wrong_elements", "Wrong elements over all ranks; no series where nothing was checked.");
  for (const auto& [one, repetitions] : grouped(result.cells, [](const Cell& c) { return identity(c); })) {
    const Cell& cell = *repetitions.back();
    const Labels labels = cell_labels(cell, plan);
    const TypicalCell number = typical(repetitions);
    if (number.busbw > 0) busbw.set(labels, number.busbw * 1e9);
    latency.set(labels, number.median_s);
    if (cell.interval_s && repetitions.size() == 1) width.set(labels, cell.relative_half_width);
    if (number.wrong) wrong.set(labels, static_cast<double>(*number.wrong));
  }
  return busbw.text() + latency.text() + width.text() + wrong.text();
}

std::string criteria_text(const AcceptResult& result, const std::string& plan) {
  const auto labels_of = [&](const CriterionResult& c) -> Labels {
    return {{"plan", plan},
            {"stage", name(c.stage)},
            {"scope", c.scope},
            {"cell", c.cell},
            {"nbytes", c.nbytes > 0 ? std::to_string(c.nbytes) : ""},
            {"placement", c.nbytes > 0 ? place(c.in_place) : ""},
            {"criterion", std::string(name(c.criterion))}};
  };
  Gauge criterion("busbar_criterion", "1 for the outcome with which the criterion ended.");
  for (auto& [labels, alike] : grouped(result.criteria, labels_of)) {
    // Of two that say the same, the worse.
    Outcome outcome = alike.front()->outcome;
    for (const CriterionResult* c : alike) outcome = worse(outcome, c->outcome);
    labels.emplace_back("outcome", name(outcome));
    criterion.set(labels, 1);
  }
  return criterion.text();
}

std::string run_text(const AcceptResult& result, std::string_view tool, const std::string& plan, double end_s) {
  constexpr std::array kOutcomes{Outcome::pass, Outcome::warn, Outcome::inconclusive, Outcome::fail, Outcome::skip};
  const auto run_and = [&](const Labels& more) {
    Labels labels{{"tool", std::string(tool)}, {"plan", plan}};
    labels.insert(labels.end(), more.begin(), more.end());
    return labels;
  };
  Gauge outcome(fmt::format("busbar_{}_outcome", tool), "1 for the outcome of the last run, 0 for the others.");
  Gauge criteria("busbar_criteria", "How many criteria ended so.");
  const auto counts = count_outcomes(result.criteria);
  for (const Outcome o : kOutcomes) {
    outcome.set({{"plan", plan}, {"outcome", name(o)}}, o == result.outcome ? 1 : 0);
    criteria.set(run_and({{"outcome", name(o)}}), static_cast<double>(counts[static_cast<std::size_t>(o)]));
  }
  Gauge blamed("busbar_blamed_host", "1 for each host that is to blame.");
  for (const std::string& host : blamed_hosts(result)) blamed.set(run_and({{"host", host}}), 1);
  const auto single = [&](const char* metric, const char* help, const Labels& more, double value) {
    Gauge gauge(metric, help);
    gauge.set(run_and(more), value);
    return gauge.text();
  };
  return outcome.text() + criteria.text() + blamed.text() +
         single("busbar_hosts", "Hosts that took part.", {}, static_cast<double>(result.hosts.size())) +
         single("busbar_run_info", "What ran, in its labels.",
                {{"version", result.version},
                 {"backend", result.backend},
                 {"library", result.library},
                 {"platform", result.platform}},
                1) +
         single("busbar_run_duration_seconds", "How long the last run took.", {}, run_time_s(result)) +
         single("busbar_last_run_timestamp_seconds", "When the last run ended, in seconds since 1970.", {}, end_s);
}

}  // namespace

std::string prometheus_labels(const Labels& labels) {
  const auto written = mapped(labels, [](const auto& l) {
    return fmt::format("{}=\"{}\"", l.first,
                       with_escapes(valid_utf8(l.second), {{'\n', "\\n"}, {'\\', "\\\\"}, {'"', "\\\""}}));
  });
  return written.empty() ? "" : fmt::format("{{{}}}", fmt::join(written, ","));
}

std::string prometheus_text(const AcceptResult& result, std::string_view tool, std::int64_t end_s) {
  const std::string& plan = result.plan.title_or_file();
  return run_text(result, tool, plan, static_cast<double>(end_s)) + cells_text(result, plan) +
         criteria_text(result, plan);
}

}  // namespace busbar
