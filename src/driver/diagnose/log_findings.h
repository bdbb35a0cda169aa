#pragma once

#include "common/watch/verdict.h"
#include "driver/diagnose/log_view.h"

#include <string>
#include <vector>

namespace busbar {

/// Something wrong that a log shows. The finding with the first verdict in
/// Verdict's order becomes the diagnosis.
struct LogFinding {
  Verdict verdict = Verdict::unknown;
  std::string sentence;
  std::vector<std::string> evidence;
  std::vector<std::string> missing;
  std::vector<std::string> next;
};

using LogFindings = std::vector<LogFinding>;

/// XIDs, PCIe errors, links and killed processes, from kernels' logs.
void find_in_kernel(const LogView& view, LogFindings& findings);
/// What launchers and RAS say of processes and hosts that are gone.
void find_gone(const LogView& view, LogFindings& findings);
/// A rank whose log ends while others complain that a peer went away; UNKNOWN
/// where only those speak.
void find_silent(const LogView& view, LogFindings& findings);
/// Hardware, hosts, resources, configuration, as NCCL warned.
void find_in_warnings(const LogView& view, LogFindings& findings);
/// Values that cannot be right or must not differ.
void find_in_settings(const LogView& view, LogFindings& findings);
/// Who did not begin, or not complete, to initialise.
void find_in_init(const LogView& view, LogFindings& findings);
/// "communicator 1: call #4 of rank 3 is ..., of ranks 0-2 ...". Where
/// view.divergences[comm] is set.
std::string describe_divergence(const LogView& view, std::size_t comm);
/// Other arguments, other order, fewer calls.
void find_in_calls(const LogView& view, LogFindings& findings);
/// PyTorch's watchdog.
void find_in_torch(const LogView& view, LogFindings& findings);

/// "at 10.0.0.4 (node3)": an address, with its host where a log tells it.
std::string name_peer(const JobCast& cast, const std::string& address);

}  // namespace busbar
