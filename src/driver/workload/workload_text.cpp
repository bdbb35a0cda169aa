#include "common/base/sequences.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "driver/workload/workload_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace busbar {
namespace {

std::string cell(const std::string& text, std::size_t width) {
  const std::string plain = printable(text.empty() ? "-" : text);
  return plain.size() <= width ? plain : plain.substr(0, width - 1) + "~";
}

std::string micros(double time_s) { return fit_number(1e6 * time_s, 10); }

std::string share(double part_s, double whole_s) {
  return whole_s > 0 ? fmt::format("{:.1f}", 100 * part_s / whole_s) : "-";
}

/// Where steps have GPU times, one row for each; else what they make.
std::string steps_text(const Workload& job, std::size_t most) {
  if (job.steps.empty()) return {};
  const bool timed = std::ranges::any_of(job.steps, &WorkloadStep::on_gpu);
  const bool input = std::ranges::any_of(job.steps, [](const WorkloadStep& step) { return step.input_s.has_value(); });
  std::string text = timed ? fmt::format(
                                 "#\n# Steps; shares of a step's time in %. communicating = overlapped + exposed; "
                                 "computing + exposed + copying + idle = 100\n"
                                 "#{:>4} {:>18} {:>10} {:>9} {:>13} {:>10} {:>7} {:>7} {:>5}{} {:>5} {:>14}\n",
                                 "rank", "step", "time ms", "computing", "communicating", "overlapped", "exposed",
                                 "copying", "idle", input ? " input" : "", "calls", "bytes")
                           : fmt::format("#\n# Steps\n#{:>4} {:>18} {:>10} {:>5} {:>14}\n", "rank", "step", "time ms",
                                         "calls", "bytes");
  for (std::size_t i = 0; i < std::min(most, job.steps.size()); ++i) {
    const WorkloadStep& s = job.steps[i];
    text += fmt::format("{:>5} {:>18} {:>10}", s.rank ? std::to_string(*s.rank) : "-", cell(s.name, 18),
                        s.time_s > 0 ? fit_number(1e3 * s.time_s, 10) : "-");
    if (timed) {
      text += fmt::format(" {:>9} {:>13} {:>10} {:>7} {:>7} {:>5}", share(s.computing_s, s.time_s),
                          share(s.communicating_s, s.time_s), share(s.overlapped_s, s.time_s),
                          share(s.exposed_s, s.time_s), share(s.copying_s, s.time_s), share(s.idle_s, s.time_s));
      if (input) text += fmt::format(" {:>5}", s.input_s ? share(*s.input_s, s.time_s) : "-");
    }
    text += fmt::format(" {:>5} {:>14}{}\n", s.calls, s.nbytes, s.stands_out ? "  stands out" : "");
  }
  if (job.steps.size() > most) text += fmt::format("# ... and {} more steps\n", job.steps.size() - most);
  return text;
}

std::string per_step(const WorkloadOperation& o) {
  if (!o.per_step) return "-";
  return o.per_step->least == o.per_step->most ? std::to_string(o.per_step->most)
                                               : fmt::format("{}-{}", o.per_step->least, o.per_step->most);
}

std::string operations_text(const Workload& job, std::size_t most) {
  const bool timed =
      std::ranges::any_of(job.operations, [](const WorkloadOperation& o) { return o.times.has_value(); });
  std::string text = fmt::format(
      "#\n# Calls{}; size: bytes of one rank, the larger of what it sends and gets\n#{:>14} {:>12} {:>9} {:>16} {:>7} "
      "{:>8}",
      timed ? ", those exposed longest first" : ", those of most bytes first", "call", "size", "type", "group", "calls",
      "per step");
  text += timed
              ? fmt::format(" {:>10} {:>10} {:>10} {:>8} {:>8}\n", "mean us", "exposed us", "best us", "algbw", "busbw")
              : "\n";
  for (std::size_t i = 0; i < std::min(most, job.operations.size()); ++i) {
    const WorkloadOperation& o = job.operations[i];
    const auto nbytes = call_bytes(o);
    text += fmt::format("{:>15} {:>12} {:>9} {:>16} {:>7} {:>8}", name(o.call),
                        nbytes     ? std::to_string(*nbytes)
                        : o.varies ? "varies"
                                   : "unknown",
                        cell(o.dtype, 9), cell(o.group, 16), o.calls, per_step(o));
    if (o.times) {
      const WorkloadTimes& t = *o.times;
      text += fmt::format(" {:>10} {:>10} {:>10} {:>8} {:>8}", micros(t.mean_s), micros(t.exposed_s),
                          micros(t.from_last_s.value_or(t.least_s)), t.algbw ? fit_number(*t.algbw, 8) : "-",
                          t.busbw ? fit_number(*t.busbw, 8) : "-");
    }
    text += o.via == "symm_mem" ? "  by symm_mem\n" : "\n";
  }
  if (job.operations.size() > most)
    text += fmt::format("# ... and {} more kinds of calls\n", job.operations.size() - most);
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_via;
  for (const WorkloadOperation& o : job.operations) {
    by_via[o.via].first += o.calls;
    by_via[o.via].second += o.nbytes;
  }
  for (const auto& [via, sums] : by_via)
    text += fmt::format("# by {}: {}, {} bytes, over all ranks in the traces\n", printable(via),
                        counted(sums.first, "call"), sums.second);
  if (timed) {
    const bool several =
        std::ranges::any_of(job.operations, [](const WorkloadOperation& o) { return o.times && o.times->from_last_s; });
    text += several ? "# best: mean time of the rank that arrived last; algbw and busbw in GB/s by it\n"
                    : "# best: the shortest call; algbw and busbw in GB/s by it. Times of one rank include waiting for "
                      "others\n";
  }
  return text;
}

std::string late_text(const Workload& job) {
  constexpr std::size_t kMost = 5;
  if (job.late.empty() || job.late.front().last == 0) return {};
  std::string text = fmt::format(
      "#\n# Late ranks: how often a rank came last, and what each other rank waited for it\n#{:>4} {:>7} {:>9} {:>12} "
      "{:>15}\n",
      "rank", "last", "of calls", "mean wait us", "per step ms");
  for (std::size_t i = 0; i < std::min(kMost, job.late.size()); ++i) {
    const LateRank& late = job.late[i];
    text += fmt::format("{:>5} {:>7} {:>9} {:>12} {:>15}\n", late.rank, late.last, late.of_calls, micros(late.wait_s),
                        late.per_step_s > 0 ? fit_number(1e3 * late.per_step_s, 10) : "-");
  }
  return text;
}

}  // namespace

std::string workload_text(const Workload& job, std::size_t most) {
  std::string text;
  const auto add = [&](const std::string& paragraph) { text += wrapped(paragraph, 0, 2); };
  const std::size_t n = job.sources.size();
  std::string first = job.sources.empty() ? "" : job.sources.front().kind;
  add(fmt::format("# {} of {}{}", counted(n, "rank"), n == 1 ? "a " : "", n == 1 ? first : first + "s") +
      (job.nranks ? fmt::format("; the job has {}", counted(*job.nranks, "rank")) : ""));
  std::map<std::string, std::size_t> how;
  for (const WorkloadSource& source : job.sources) ++how[source.steps.empty() ? "none found" : source.steps];
  for (const auto& [words, count] : how)
    add(fmt::format("# steps: {}{}", words, n > 1 ? fmt::format(" ({})", counted(count, "rank")) : ""));
  text += "\n";
  add(job.verdict.sentence);
  if (!job.verdict.next.empty()) add("Next: " + job.verdict.next);
  for (const std::string& missing : job.verdict.missing) add("Not judged: " + missing);
  text += steps_text(job, most) + operations_text(job, most) + late_text(job);
  if (!job.remarks.empty() || !job.left_out.empty()) text += "#\n";
  for (const std::string& remark : job.remarks) text += wrapped("# " + remark, 0, 2);
  for (const LeftOut& left : job.left_out)
    text += wrapped(fmt::format("# left out: {} x {}", left.count, left.what), 0, 2);
  return text;
}

}  // namespace busbar
