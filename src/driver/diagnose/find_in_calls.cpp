#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {

std::string describe_divergence(const LogView& view, std::size_t comm) {
  const Divergence& divergence = *view.divergences[comm];
  const CallAlignment& alignment = view.alignments[comm];
  const std::string deviating = list_actors(view.cast, actors_of(alignment, divergence.deviating));
  const std::string majority = list_actors(view.cast, actors_of(alignment, divergence.majority));
  if (divergence.not_before) {
    return fmt::format("{}: between calls {} and {} {} called otherwise than {}", view.comms[comm].name,
                       call_number(alignment, *divergence.not_before), call_number(alignment, divergence.key),
                       deviating, majority);
  }
  std::string text =
      fmt::format("{}: call {} of {} is {}, of {} {}", view.comms[comm].name, call_number(alignment, divergence.key),
                  deviating, divergence.deviating_call, majority, divergence.majority_call);
  if (divergence.tie) text += " (no majority)";
  return text;
}

namespace {

std::string_view how(const CallAlignment& alignment) {
  switch (alignment.how) {
    case CallAlignment::How::ordinals:
      return "calls are counted from the beginning of the communicator";
    case CallAlignment::How::op_counts:
      return "not all logs begin with the communicator: calls are matched by opCount";
    case CallAlignment::How::best_shift:
      return "not all logs begin with the communicator: calls are matched where they agree most, and counted from the "
             "first that is told";
    case CallAlignment::How::none:
      break;
  }
  return "";
}

LogFinding divergence_finding(const LogView& view, std::size_t comm) {
  const Divergence& divergence = *view.divergences[comm];
  const CallAlignment& alignment = view.alignments[comm];
  const std::string who = list_actors(view.cast, actors_of(alignment, divergence.deviating));
  const std::string others = list_actors(view.cast, actors_of(alignment, divergence.majority));
  const std::string number = call_number(alignment, divergence.key);
  LogFinding finding;
  finding.verdict = divergence.order ? Verdict::order_mismatch : Verdict::arg_mismatch;
  if (divergence.not_before) {
    finding.sentence = fmt::format("{} called otherwise than {} between calls {} and {} of {}", who, others,
                                   call_number(alignment, *divergence.not_before), number, view.comms[comm].name);
    finding.missing.emplace_back("the calls in full: an excerpt of the logs around that place");
  } else if (divergence.order) {
    finding.sentence = fmt::format(
        "{} made the same calls as {} in another order from call "
        "{} of {} on: {} first, others {}",
        who, others, number, view.comms[comm].name, divergence.deviating_call, divergence.majority_call);
  } else if (divergence.tie) {
    finding.sentence = fmt::format("{} and {} differ in call {} of {}, and neither is the majority: {}", who, others,
                                   number, view.comms[comm].name, divergence.differs);
  } else {
    finding.sentence =
        fmt::format("{} called with {} in call {} of {}", who, divergence.differs, number, view.comms[comm].name);
  }
  if (!divergence.not_before) {
    finding.evidence.push_back(fmt::format("{}: {}", who, divergence.deviating_call));
    finding.evidence.push_back(fmt::format("{}: {}", others, divergence.majority_call));
  }
  if (divergence.shift != 0) {
    finding.evidence.push_back(fmt::format("the sequence of {} is shifted by {} call{}: it {} {}", who,
                                           std::abs(divergence.shift), std::abs(divergence.shift) == 1 ? "" : "s",
                                           divergence.shift > 0 ? "skipped" : "made",
                                           divergence.shift > 0 ? "what the others called" : "calls of its own"));
  }
  finding.evidence.emplace_back(how(alignment));
  finding.next.emplace_back(
      "the code that led to that call: a branch that "
      "depends on the rank or its data");
  return finding;
}

LogFinding lag_finding(const LogView& view, std::size_t comm) {
  const CallLag& lag = *view.lags[comm];
  const CallAlignment& alignment = view.alignments[comm];
  std::vector<std::uint32_t> last;
  for (const std::uint32_t stream : lag.behind) {
    if (alignment.streams[stream].end() == lag.least) last.push_back(stream);
  }
  const std::vector<std::uint32_t> behind = actors_of(alignment, lag.behind);
  LogFinding finding;
  finding.verdict = Verdict::rank_lagging;
  const PlacedCalls& front = alignment.streams[lag.at_front.front()];
  const PlacedCalls& slowest = alignment.streams[last.front()];
  const bool called = slowest.calls->size() > 0;
  const std::string front_number = call_number(alignment, lag.front - 1);
  const std::string last_number = call_number(alignment, lag.least - 1);
  finding.sentence =
      fmt::format("{} never made call {} of {} ({}), in which {} wait{}; {}", list_actors(view.cast, behind),
                  front_number, view.comms[comm].name, describe_call(front.at(lag.front - 1), view.book.words),
                  list_actors(view.cast, actors_of(alignment, lag.at_front)), lag.at_front.size() == 1 ? "s" : "",
                  called ? "last call " + last_number : "no call at all before");
  if (called) {
    finding.evidence.push_back(fmt::format("last call of {}: {} {}", list_actors(view.cast, actors_of(alignment, last)),
                                           last_number, describe_call(slowest.at(lag.least - 1), view.book.words)));
  }
  finding.evidence.push_back(
      fmt::format("{} of {} ranks seen reached call {}", lag.at_front.size(), alignment.streams.size(), front_number));
  if (view.comms[comm].nranks > static_cast<int>(alignment.streams.size())) {
    finding.missing.push_back(fmt::format("calls of {} of the {} ranks of {}",
                                          view.comms[comm].nranks - static_cast<int>(alignment.streams.size()),
                                          view.comms[comm].nranks, view.comms[comm].name));
  }
  finding.evidence.emplace_back(how(alignment));
  finding.next.emplace_back(
      "py-spy dump --pid (or gdb -p) of those ranks: "
      "what keeps them from the next call");
  return finding;
}

}  // namespace

void find_in_calls(const LogView& view, LogFindings& findings) {
  for (const DeadlockCycle& cycle : view.cycles) {
    LogFinding finding;
    finding.verdict = Verdict::order_mismatch;
    finding.sentence = "deadlock over communicators: " + cycle.text;
    finding.evidence.push_back(cycle.inversion ? "all made the calls, in opposite orders"
                                               : "each waits for a call that the other makes only afterwards");
    finding.next.emplace_back(
        "call collectives of different communicators in "
        "the same order on all ranks");
    findings.push_back(std::move(finding));
  }
  for (std::size_t comm = 0; comm < view.comms.size(); ++comm) {
    if (view.divergences[comm]) findings.push_back(divergence_finding(view, comm));
    // What follows a divergence is no call of the same kind any more.
    if (!view.divergences[comm] && view.lags[comm] && view.lags[comm]->waited_for) {
      findings.push_back(lag_finding(view, comm));
    }
  }
}

}  // namespace busbar
