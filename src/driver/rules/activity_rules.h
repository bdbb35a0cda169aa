#pragma once

#include "common/evidence/hang_evidence.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// An entry of configs/rules/activities.yaml, whose header explains each part.
struct ActivityRule {
  std::string id;
  Activity::Kind kind = Activity::Kind::elsewhere;
  std::string doing;
  bool above = false, named = false, blocked = false, workers = false, slow = false;
  std::string note;
  int before = 0;  ///< version of NCCL; 0: of any
  std::string machine;
  std::vector<std::string> frames;
};

struct ActivityRules {
  std::vector<ActivityRule> all;
  std::vector<std::string> libraries;
};

/// Throws Error(bad_config) naming file and line.
ActivityRules read_activity_rules(std::string_view text, const std::string& file_name);

/// Those that are part of the executable.
const ActivityRules& activity_rules();

/// Decides what stacks show. Remembers frames, of which thousands of ranks have the same.
class ActivityFinder {
 public:
  struct Found {
    const ActivityRule* rule = nullptr;  ///< null: no frame fits
    std::string call;                    ///< of `named`: "all_reduce"
    std::string frame;                   ///< the innermost that fits a rule
    std::string site;                    ///< the innermost frame of the program: "train_step (train.py:77)"
  };
  /// `frames`: the outermost first. `blocked`: the thread uses no CPU time, or its GPU spins.
  Found find(const std::vector<std::string>& frames, bool blocked);

 private:
  struct Known {
    std::vector<const ActivityRule*> rules;  ///< that it fits, in the file's order
    bool of_library = false;
  };
  const Known& know(const std::string& frame);

  std::map<std::string, Known> known_;
};

}  // namespace busbar
