#pragma once

// How one process becomes the ranks of a job.

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The command that starts `nranks` ranks of `args` (args[0]: the program) with one rank per process. Open MPI needs
/// options for root and for more ranks than cores; others have no such options.
std::vector<std::string> mpirun_command(const std::string& mpirun, std::string_view library, int nranks, bool as_root,
                                        const std::vector<std::string>& args);

/// Becomes mpirun with `nranks` ranks of this program, and says so on stderr. Throws Error(not_possible) if no mpirun
/// is found, if it cannot be executed, or if this process already is the result of such a start. `library`:
/// mpi_library_version().
[[noreturn]] void relaunch_under_mpirun(int nranks, std::string_view library, int argc, char** argv);

/// Starts ranks 1 to `nranks` - 1 of this program on this host, becomes rank 0, and says so on stderr: they meet over
/// sockets on the loopback interface. Throws Error(not_possible) if they cannot be started.
[[noreturn]] void start_own_ranks(int nranks, int argc, char** argv);

}  // namespace busbar
