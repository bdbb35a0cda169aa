#pragma once

#include "common/mpi/child.h"
#include "common/record/accept_result.h"
#include "driver/accept/accept_options.h"
#include "driver/launch/launch_hosts.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// How one launch ended.
struct LaunchedPart {
  std::optional<AcceptResult> results;  ///< as far as it came
  std::optional<StageFailure> failure;  ///< nothing: it ended well
};

/// Starts parts of a plan by the user's launch command, without the hosts that were excluded.
class AcceptLauncher {
 public:
  /// `results`: the run's own file; what launches leave lies beside it (.part, .hosts). Throws Error(bad_config) for a
  /// command that cannot be filled in.
  AcceptLauncher(const AcceptOptions& options, std::string results);
  AcceptLauncher(const AcceptLauncher&) = delete;
  AcceptLauncher& operator=(const AcceptLauncher&) = delete;
  ~AcceptLauncher();

  struct Work {
    Stage stage = Stage::doctor;
    std::vector<std::string> ids;
    std::vector<std::pair<std::string, std::string>> environment;
    int repetition = 0;
    double timeout_s = 60;
    double left_s = 0;
  };

  /// Throws Error where the launcher cannot be started at all, Interrupted.
  LaunchedPart run(const Work& work);

  /// Leaves these hosts out from now on; false where the command gives no way to.
  bool exclude(const std::vector<std::string>& hosts);

  /// Hosts on which not even a launch that measures nothing starts, found by halving; empty where all start together,
  /// where nothing starts at all, and where the command names no hosts: the first part's launch then tells.
  std::vector<std::string> hosts_that_do_not_start();

  /// What a launch told of its hosts: how many ranks go with an excluded one.
  void learn(const std::vector<AcceptResult::Host>& hosts) { seen_ = hosts; }

  const std::set<std::string>& excluded() const { return excluded_; }

 private:
  std::vector<std::string> command(const Work& work, const std::set<std::string>& excluded) const;
  int ranks_on(const std::string& host) const;
  bool starts(const std::vector<std::string>& hosts);
  void find_dead(const std::vector<std::string>& hosts, std::vector<std::string>& dead);
  std::vector<std::string> hosts_left() const;

  const AcceptOptions& options_;
  std::string part_file_;
  std::string host_file_;
  std::vector<std::string> words_;  ///< of the launch command
  std::vector<LaunchHost> hosts_;   ///< that it names
  int nranks_ = 0;                  ///< of all hosts; 0: the command does not say
  std::vector<AcceptResult::Host> seen_;
  std::set<std::string> excluded_;
};

/// Time for one launch, after which it is killed [s].
double launch_timeout_s(const AcceptPlan& plan, double measuring_s);

}  // namespace busbar
