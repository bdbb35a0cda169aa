#include "driver/diagnose/looks/judge_looks.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/evidence_fields.h"
#include "common/record/json_fields.h"
#include "driver/diagnose/line_blocks.h"
#include "driver/diagnose/looks/look_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace busbar {
namespace {

/// All checks, in the order of Verdict: the watchdog's of hosts and processes, and those that looks need.
std::vector<Check> checks_of(const LookedJob& job) {
  const auto looked = [&](LookCheck* find) { return [&job, find](const JobSnapshot&) { return find(job); }; };
  return {{find_hardware_fault},
          {busbar::find_unreachable},  // a check of logs has that name, too
          {looked(find_gone_ranks)},
          {find_dead},
          {find_stopped},
          {looked(find_in_logs_of_looks)},
          {looked(find_old_generation), Verdict::config},
          {looked(find_unjoined)},
          {looked(find_unseen_hosts), Verdict::rank_lagging},
          {looked(find_stuck_start)},
          {looked(find_recorded_calls)},
          {looked(find_parted_calls)},
          {looked(find_working)},
          {looked(find_late)},
          {looked(find_all_inside)}};
}

/// What stopped a collector, and what would allow it; the same of many hosts once.
std::vector<std::string> not_read(const JobLook& looks) {
  std::vector<std::string> lines;
  for (const LookSilence& silent : looks.silent)
    lines.push_back(fmt::format("{}: no look: {}", silent.host, silent.why));
  for (const HostLook& look : looks.hosts) {
    for (const LookCollector& one : look.collectors) {
      if (one.outcome == LookCollector::Outcome::ok || one.outcome == LookCollector::Outcome::absent) continue;
      std::string line =
          fmt::format("{}: {}", one.name, one.why.empty() ? name(one.outcome) : std::string_view(one.why));
      if (!one.allow.empty()) line += fmt::format(" ({})", one.allow);
      if (lines.size() < 20) add_once(lines, line);
    }
  }
  return lines;
}

/// What the job's processes are in besides what was asked of them: a look must change nothing.
std::vector<std::string> changes(const JobLook& looks) {
  std::vector<std::string> lines;
  for (const HostLook& look : looks.hosts) {
    for (const LookProcess& p : look.processes) {
      const auto is_stopped = [](char state) { return state == 'T' || state == 't'; };
      const bool stopped = is_stopped(p.state) != is_stopped(p.state_before) && p.state_before != '?' && p.state != '?';
      if (!stopped && p.tracer == p.tracer_before) continue;
      lines.push_back(fmt::format("WHILE LOOKING, process {} of {} changed: state {} to {}, traced by {} to {}", p.pid,
                                  look.host, p.state_before, p.state, p.tracer_before, p.tracer));
    }
  }
  return lines;
}

/// The first of these lines, as evidence of what `source` says.
void add_first_of_source(std::string_view source, std::span<const std::string> lines, std::size_t most,
                         std::vector<std::string>& evidence) {
  for (const std::string& line : lines.first(std::min(most, lines.size())))
    add_once(evidence, fmt::format("{}: {}", source, line));
}

/// The stacks of all ranks, from where they part: the largest group first.
std::vector<std::string> stack_lines(const JobLook& looks) {
  StackTree tree;
  for (const HostLook& look : looks.hosts) {
    for (const LookProcess& p : look.processes) {
      if (p.role == LookProcess::Role::rank && !main_stack(p).empty())
        tree.add({p.rank, p.rank < 0 ? fmt::format("{}:{}", look.host, p.pid) : ""}, main_stack(p));
    }
  }
  constexpr std::size_t kMostGroups = 8, kMostFrames = 6;
  std::vector<std::string> lines;
  for (const auto& [members, frames, shared] : tree.groups()) {
    if (lines.size() > kMostGroups) return lines;
    if (lines.empty())
      lines.emplace_back("stacks, the outermost call first; after the first group, from where they part:");
    const bool first = lines.size() == 1;
    const std::size_t from =
        std::max(first ? 0 : std::min(shared, frames.size() - 1), frames.size() - std::min(frames.size(), kMostFrames));
    lines.push_back(
        fmt::format("  {} in {}", list_members(members), fmt::join(std::span(frames).subspan(from), " > ")));
  }
  return lines;
}

}  // namespace

JudgedHang judge_looks(const JobLook& looks) {
  const LookEvidence all = evidence_of_looks(looks);
  const JobSnapshot snapshot = make_snapshot(all.evidence);
  const LookedJob job(snapshot, all);
  // A job that moves needs no blame: whatever else is remarkable becomes evidence.
  const Check healthy{[&](const JobSnapshot&) { return find_healthy(job); }};
  const bool moves = healthy.find(snapshot).has_value();
  JudgedHang judged;
  const bool own = all.evidence.occasion == HangEvidence::Occasion::files;
  judged.finding = own ? judge(all.evidence) : judge_by(snapshot, moves ? std::vector{healthy} : checks_of(job));
  // Numbers that stand for ranks that are not known mean nothing to people.
  std::erase_if(judged.finding.ranks, [](int rank) { return !is_named(rank); });
  for (std::string& line : not_read(looks)) judged.finding.missing.push_back(std::move(line));
  if (all.logged && all.logged->verdict != Verdict::ok && all.logged->verdict != Verdict::unknown && !moves) {
    add_first_of_source("logs", {&all.logged->sentence, 1}, 1, judged.finding.evidence);  // which are the past
    add_first_of_source("logs", all.logged->evidence, 3, judged.finding.evidence);
  }
  if (!moves) add_first_of_source("the scheduler", looks.scheduler, 5, judged.finding.evidence);
  judged.evidence = all.evidence;
  return judged;
}

std::string looks_report(const JobLook& looks, const JudgedHang& judged) {
  std::string text;
  for (const std::string& line : changes(looks)) text += without_controls(line) + "\n";
  text += hang_report(judged.evidence, judged.finding, "");
  for (const std::string& line : stack_lines(looks)) text += "    " + without_controls(line) + "\n";
  return text;
}

Json triage_document(const JobLook& looks, const JudgedHang& judged) {
  Envelope envelope{"triage", local_timestamp(), {}, {}};
  for (const HostLook& look : looks.hosts) add_once(envelope.where, look.host);
  Json document = envelope_json(envelope);
  document.update(fields_json<Finding>(judged.finding));
  document["groups"] = fields_json(judged.finding.groups);
  document["looks"] = fields_json(looks);
  return document;
}

JobLook read_triage_document(std::string_view text, const std::string& name) {
  const Json json = read_document(text, name, "triage");
  return record_at<JobLook>(JsonPlace(json, "", name, "`busbar triage -J`").at("looks"));
}

}  // namespace busbar
