#pragma once

#include "common/record/host_look.h"
#include "look/take_look.h"

#include <string>
#include <vector>

namespace busbar {

/// A place where busbar-look runs, and how it gets there.
struct HostTarget {
  std::string host;
  std::vector<std::string> before;  ///< runs the command line that follows it there; empty: here
  /// One word that a remote shell splits, as ssh needs; else words, as srun and kubectl exec do.
  bool one_word = false;
};

/// The hosts of --hosts: a list, or a file with one name per line. Throws Error(bad_config).
std::vector<std::string> listed_hosts(const std::string& list_or_file);

/// Runs busbar-look at all targets side by side; the program goes along through stdin where it is not installed. A
/// target without an answer in time is one of `silent`. Never throws for what a host does.
JobLook reach_hosts(const std::vector<HostTarget>& targets, LookOptions request);

/// Why a host gave nothing, from what its command left.
LookSilence silence_of(const std::string& host, const std::string& error, bool timed_out, double limit_s);

}  // namespace busbar
