#pragma once

#include <optional>
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

/// The command that `launch_template` makes of `command`: "{ranks}" becomes the number, a word "{cmd}" the command's
/// words, "{cmd}" inside a word the quoted command; without any "{cmd}" the command is appended. Other braces are an
/// error that names the choices, as is "{ranks}" where `nranks` is not known: Error(bad_config).
std::vector<std::string> launch_command(std::string_view launch_template, std::optional<int> nranks,
                                        const std::vector<std::string>& command);

/// What lets Open MPI's mpirun start as root (where we are) and more ranks than cores, for the child's environment;
/// what the user has set stays.
std::vector<std::pair<std::string, std::string>> launch_environment();

}  // namespace busbar
