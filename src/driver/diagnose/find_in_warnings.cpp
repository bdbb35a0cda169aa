#include "driver/diagnose/job_skew.h"
#include "driver/diagnose/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace busbar {

namespace {

std::string quoted_warning(const LogView& view, const WarningRecord& record) {
  const std::string times = record.times > 1 ? fmt::format(" ({} times)", record.times) : "";
  return fmt::format("{}: \"{}\"{}", view.cast.name_of[record.actor], record.example, times);
}

/// "rank 4 (kolyoz2, pid 25146): InfiniBand completion error 4: local
/// protection error".
std::string meaning_of(const LogView& view, const WarningRecord& record) {
  const std::string what = record.rule->meaning.empty() ? record.example : std::string(record.rule->meaning);
  return fmt::format("{}: {}", list_actors(view.cast, record.actors), what);
}

LogFinding finding_of(const LogView& view, const WarningRecord& record, Verdict verdict) {
  LogFinding finding;
  finding.verdict = verdict;
  finding.sentence = meaning_of(view, record);
  finding.evidence.push_back(quoted_warning(view, record));
  if (!record.rule->advice.empty()) finding.next.emplace_back(record.rule->advice);
  return finding;
}

/// Peers that warnings of a kind name.
std::vector<std::string> peers_of(const LogView& view, WarningKind kind) {
  std::vector<std::string> peers;
  for (const auto& [peer, times] : view.book.named_peers) {
    if (peer.first == kind) peers.push_back(name_peer(view.cast, peer.second));
  }
  return peers;
}

void blame_host(const LogView& view, const WarningRecord& record, LogFindings& findings) {
  LogFinding finding = finding_of(view, record, Verdict::host_unreachable);
  const std::vector<std::string> peers = peers_of(view, WarningKind::unreachable);
  if (!peers.empty()) {
    finding.sentence = fmt::format("{}{} cannot be reached by {}", peers.front(),
                                   peers.size() > 1 ? fmt::format(" and {} more", peers.size() - 1) : "",
                                   list_actors(view.cast, record.actors));
  }
  findings.push_back(std::move(finding));
}

/// Whether some communicator's calls were compared and all agree.
bool calls_agree(const LogView& view) {
  bool compared = false;
  for (std::size_t i = 0; i < view.comms.size(); ++i) {
    if (view.divergences[i]) return false;
    compared = compared || view.alignments[i].streams.size() > 1;
  }
  return compared;
}

/// Sizes differ on the wire: the calls do, or what NCCL made of them.
void blame_sizes(const LogView& view, const WarningRecord& record, LogFindings& findings) {
  LogFinding finding = finding_of(view, record, Verdict::arg_mismatch);
  std::string unequal;
  for (const SettingSkew& skew : setting_skews(view, true)) {
    if (unequal.empty()) unequal = skew.text;
  }
  if (!unequal.empty() || calls_agree(view)) {
    finding.verdict = Verdict::config;
    finding.sentence = fmt::format(
        "the transport of {} received another size than it expected, although "
        "{}",
        list_actors(view.cast, record.actors),
        unequal.empty() ? "the calls agree: NCCL chose otherwise there "
                          "(environment, version, topology)"
                        : "a setting is not the same everywhere: " + unequal);
    if (!unequal.empty()) finding.evidence.push_back(unequal);
    if (calls_agree(view)) finding.evidence.emplace_back("the calls that the logs hold agree over all ranks seen");
  } else {
    finding.sentence += ": the calls, or the environments, differ";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void find_in_warnings(const LogView& view, LogFindings& findings) {
  for (const WarningRecord* one : causes_first(view.book.warnings)) {
    const WarningRecord& record = *one;
    switch (record.rule->kind) {
      case WarningKind::hardware: {
        LogFinding finding = finding_of(view, record, Verdict::hw_fault);
        for (const std::string& peer : peers_of(view, WarningKind::hardware)) {
          if (finding.evidence.size() < 3) finding.evidence.push_back("the peer of that connection: " + peer);
        }
        findings.push_back(std::move(finding));
        break;
      }
      case WarningKind::unreachable:
        blame_host(view, record, findings);
        break;
      case WarningKind::resource:
        findings.push_back(finding_of(view, record, Verdict::resource));
        break;
      case WarningKind::config:
        findings.push_back(finding_of(view, record, Verdict::config));
        break;
      case WarningKind::call_mismatch:
        findings.push_back(finding_of(view, record, Verdict::arg_mismatch));
        break;
      case WarningKind::size_mismatch:
        blame_sizes(view, record, findings);
        break;
      case WarningKind::fallout: {
        LogFinding finding = finding_of(view, record, Verdict::unknown);
        finding.missing.emplace_back(
            "what broke the GPU's context: the first CUDA error, dmesg (XID), "
            "the program's output");
        findings.push_back(std::move(finding));
        break;
      }
      case WarningKind::victim:  // find_silent
      case WarningKind::harmless:
      case WarningKind::other:
        break;
    }
  }
}

}  // namespace busbar
