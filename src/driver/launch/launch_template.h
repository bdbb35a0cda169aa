#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// The words of a command line as a shell would split it: blanks separate; '...' keeps everything, "..." everything but
/// \" and \\, a backslash the next letter. No variables, no patterns, no shell. Throws Error(bad_config) on an open
/// quote.
std::vector<std::string> split_command(std::string_view text);

/// The word as split_command and a shell read it back.
std::string quote_for_shell(std::string_view word);

/// Words as one line that split_command and a shell read back.
std::string join_for_shell(const std::vector<std::string>& command);

/// The command that `launch_template` makes of `command`: "{ranks}" becomes the number, a word "{cmd}" the command's
/// words, "{cmd}" inside a word the quoted command; without any "{cmd}" the command is appended. Other braces are an
/// error that names the choices, as is "{ranks}" where `nranks` is not known: Error(bad_config).
std::vector<std::string> launch_command(std::string_view launch_template, std::optional<int> nranks,
                                        const std::vector<std::string>& command);

/// "env NAME=VALUE ...", or nothing for no settings.
std::vector<std::string> environment_words(const std::vector<std::pair<std::string, std::string>>& environment);

/// What lets Open MPI's mpirun start as root (where we are) and more ranks than cores, for the child's environment;
/// what the user has set stays.
std::vector<std::pair<std::string, std::string>> launch_environment();

/// The whole of the text as a number above 0; `otherwise` where it is none.
int positive_or(std::string_view text, int otherwise);

/// Names are told as people write them: node3 and node3.cluster.org are one host.
bool names_same(std::string_view a, std::string_view b);

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
