#pragma once

#include "common/base/config.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

enum class Launcher : std::uint8_t { none, torch, open_mpi, hydra, flux, slurm, pmi, pmix, env, k8s };

std::string_view name(Launcher launcher);

/// What carries the control messages of a job: MPI, or TCP connections of ours.
enum class Carrier : std::uint8_t { mpi, sockets };

/// The launcher that started this process as one of several, read from the environment before the processes have met.
struct Launch {
  Launcher kind = Launcher::none;
  int rank = -1;        ///< -1: unknown
  int nprocs = 0;       ///< processes of the job; 0: unknown
  int local_rank = -1;  ///< -1: unknown
  int local_size = 0;   ///< processes of the job on this host; 0: unknown

  Carrier carrier = Carrier::mpi;
  std::string master_address = {};  ///< of sockets: where rank 0 is met; a name or figures
  int master_port = 0;              ///< the first of the ports on which it may listen
  std::string job = {};             ///< the launcher's name for this start; empty: none
  std::string problem = {};         ///< why the processes cannot meet: what to set; empty: they can. `rank` is unknown
                                    ///< then, so that this process speaks, unless the launcher certainly started rank 0
  std::string warning = {};         ///< of two launchers that disagree; empty: none

  bool launched() const { return kind != Launcher::none; }
};

/// `get` reads one environment variable. A shell inside an allocation (salloc, sbatch's script, srun --pty) is no
/// launch.
/// The innermost launcher is taken: torchrun also inside srun, and any MPI's before RANK and WORLD_SIZE, which may be
/// left over. `choice` is --launcher. Sockets carry what torchrun, RANK with WORLD_SIZE, or a Kubernetes Job started,
/// and what srun started without PMI; MPI carries all else. Never throws.
Launch detect_launch(const std::function<const char*(const char* name)>& get = ::getenv,
                     LauncherChoice choice = LauncherChoice::automatic);

/// The same where no MPI can carry processes, with the reason: sockets carry what srun started even with PMI, and a
/// process alone. Throws Error(not_possible) for what only MPI can carry.
Launch launch_without_mpi(std::string_view why, const std::function<const char*(const char* name)>& get = ::getenv,
                          LauncherChoice choice = LauncherChoice::automatic);

/// The launch of a command that starts no ranks of ours: an MPI's launcher or srun started it several times. RANK and
/// its like, which a pod's shell inherits, mean nothing for it.
inline Launch command_launch() { return detect_launch(::getenv, LauncherChoice::mpi); }

/// "torchrun", "env", ...: what the header says of a launch that sockets carry.
std::string_view short_name(Launcher launcher);

/// The `index`-th count in Slurm's notation of tasks per node ("2(x3),1"); 0 if there is none.
int slurm_tasks_on_node(std::string_view text, int index);

/// Makes this MPI yield while it waits if more ranks than cores run on this host, unless the user has set that: ranks
/// that spin would each wait for the other's time slice (8 us become 8 ms). Open MPI's mpirun does so itself only with
/// --oversubscribe, not if the slots were counted too high or a container has less CPU. Call before MPI_Init.
/// `library`: mpi_library_version(). Returns the header's sentence, which says what more ranks than cores cost if
/// nothing makes the library yield; empty if there are enough cores.
std::string repair_oversubscription(const Launch& launch, std::string_view library,
                                    const std::filesystem::path& root = "/");

/// Makes MPICH 4.0 use its own algorithm of MPI_Reduce, unless the user has set that: its device's algorithm crashes in
/// place at a root other than 0 (docs/mpi_libraries.md). Call before MPI_Init. Returns the header's sentence, or an
/// empty string.
std::string repair_reduce(std::string_view library);

/// The warning that the launcher started several processes that do not see each other, or empty. For a process that is
/// alone: `world_size` is MPI_COMM_WORLD's.
std::string separate_worlds_warning(const Launch& launch, int world_size);

// How one process becomes the ranks of a job.

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
