#pragma once

#include <set>
#include <string>
#include <vector>

namespace busbar {

/// A host that a launch command names, and its slots.
struct LaunchHost {
  std::string name;
  int slots = 1;
};

/// The hosts of a launch command's words, as far as they stand there: mpirun's --hostfile (-hostfile, --machinefile,
/// -machinefile, -f) and --host (-H, -hosts); empty where they do not (a batch system knows them). Reads the host file;
/// throws Error(bad_config) where that is named and cannot be read.
std::vector<LaunchHost> launch_hosts(const std::vector<std::string>& words);

/// Whether hosts can be left out of the command: it names them itself, or starts with srun.
bool can_exclude(const std::vector<std::string>& words);

/// The command without these hosts: a host file is replaced by `hostfile`, whose text is `hostfile_text` (to be written
/// by the caller where it is not empty); --host lists are shortened; srun gets --exclude. Pure but for reading the host
/// file.
struct ReducedLaunch {
  std::vector<std::string> words;
  std::string hostfile_text;
};
ReducedLaunch without_hosts(const std::vector<std::string>& words, const std::set<std::string>& excluded,
                            const std::string& hostfile);

}  // namespace busbar
