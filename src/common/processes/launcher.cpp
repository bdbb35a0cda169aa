#include "common/processes/launcher.h"

#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/machine/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>

namespace busbar {
namespace {

using Get = std::function<const char*(const char*)>;

struct Names {
  Launcher kind;
  const char* sign;  ///< set by this launcher and by none before it in this table
  const char* rank;
  const char* nprocs;
  const char* local_rank;
  const char* local_size;
};

// The most specific first: Open MPI under Slurm shows Slurm's variables too, Slurm and Flux show PMI's.
constexpr Names kLaunchers[] = {
    {Launcher::open_mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::hydra, "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::flux, "FLUX_TASK_RANK", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
    {Launcher::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    {Launcher::pmi, "PMI_RANK", "PMI_RANK", "PMI_SIZE", "", ""},
    {Launcher::pmix, "PMIX_RANK", "PMIX_RANK", "", "", ""},
};

std::optional<long long> number(const Get& get, const char* variable) {
  const char* text = *variable != '\0' ? get(variable) : nullptr;
  const auto value = number_of<long long>(text != nullptr ? text : "");
  return value.value_or(-1) < 0 ? std::nullopt : value;
}

/// Whether the step is a shell: `srun --pty`, or one of the reserved step ids from 0xfffffff0 on (Slurm's slurm.h:
/// batch script, extern, interactive).
bool is_slurm_shell(const Get& get) {
  return get("SLURM_PTY_PORT") != nullptr || number(get, "SLURM_STEP_ID").value_or(0) >= 0xfffffff0LL;
}

}  // namespace

std::string_view name(Launcher launcher) {
  constexpr std::array<std::string_view, 7> kNames{
      "none",           "Open MPI's mpirun", "Hydra (mpiexec of MPICH or Intel MPI)", "Flux", "Slurm's srun",
      "a PMI launcher", "a PMIx launcher"};
  return word(kNames, launcher);
}

Launch detect_launch(const Get& get) {
  for (const Names& names : kLaunchers) {
    if (get(names.sign) == nullptr) continue;
    if (names.kind == Launcher::slurm && is_slurm_shell(get)) return {};
    const auto count = [&](const char* variable, int otherwise) {
      return static_cast<int>(number(get, variable).value_or(otherwise));
    };
    Launch launch{names.kind, count(names.rank, -1), count(names.nprocs, 0), count(names.local_rank, -1),
                  count(names.local_size, 0)};
    if (launch.kind == Launcher::slurm) {
      const char* tasks = get("SLURM_STEP_TASKS_PER_NODE");
      const int node = static_cast<int>(number(get, "SLURM_NODEID").value_or(0));
      if (tasks != nullptr) launch.local_size = slurm_tasks_on_node(tasks, node);
    }
    return launch;
  }
  return {};
}

int slurm_tasks_on_node(std::string_view text, int index) {
  for (const std::string_view part : split_text(text, ',')) {
    std::string_view rest;
    const std::optional<int> tasks = leading_number<int>(part, 10, &rest);
    const std::optional<int> nodes =
        rest.empty() ? 1 : leading_number<int>(rest.substr(std::min<std::size_t>(2, rest.size())));
    if (!tasks || !nodes) return 0;
    if (index < *nodes) return *tasks;
    index -= *nodes;
  }
  return 0;
}

namespace {

/// The setting that makes a library yield while it waits.
struct Yielding {
  std::string_view library;  ///< how its version begins
  const char* variable;
  const char* value;
  std::string_view spins_with;  ///< values with which it does not, as a list
};

// Tried with 3 ranks on 2 cores and an all_reduce of 8 bytes (docs/evidence/mpi_measured.md). MPICH is not here: built
// for Linux it has no call that yields (--enable-yield is "nothing" there), whatever MPIR_CVAR_POLLS_BEFORE_YIELD is.
constexpr Yielding kYielding[] = {{"Open MPI", "OMPI_MCA_mpi_yield_when_idle", "1", "0,false"},
                                  {"Intel(R) MPI", "I_MPI_THREAD_YIELD", "3", "0,1,2"}};

}  // namespace

std::string repair_oversubscription(const Launch& launch, std::string_view library, const std::filesystem::path& root) {
  if (launch.local_size <= 1) return {};
  const int cores = job_cores(root);
  if (launch.local_size <= cores) return {};
  const std::string crowd = fmt::format("{} ranks on {}", launch.local_size, counted(cores, "core"));
  const Yielding* known =
      std::ranges::find_if(kYielding, [&](const Yielding& y) { return library.starts_with(y.library); });
  if (known == std::end(kYielding)) {
    return fmt::format("{}: nothing makes {} yield, so small operations may take milliseconds, not microseconds", crowd,
                       library);
  }
  setenv(known->variable, known->value, 0);
  const bool yields = !contains(split_list(known->spins_with), std::string_view(std::getenv(known->variable)));
  return crowd + (yields ? ": yielding when idle" : ": NOT yielding when idle, as the environment demands");
}

std::string repair_reduce(std::string_view library) {
  if (!library.starts_with("MPICH 4.0")) return {};
  constexpr const char* kVariable = "MPIR_CVAR_REDUCE_DEVICE_COLLECTIVE";
  setenv(kVariable, "0", 0);
  return fmt::format("{}={}: with 1, {} crashes in in-place reduce at root > 0", kVariable, std::getenv(kVariable),
                     library);
}

std::string separate_worlds_warning(const Launch& launch, int world_size) {
  if (launch.nprocs <= 1 || world_size != 1) return {};
  return fmt::format(
      "{} started {} processes, but each is alone in its own MPI world: {} separate one-rank runs, no communication. "
      "The launcher belongs to another MPI than this program: use the mpirun of the MPI that it was built with{}",
      name(launch.kind), launch.nprocs, launch.nprocs, launch.kind == Launcher::slurm ? ", or srun --mpi=pmix" : "");
}

namespace {

namespace fs = std::filesystem;

/// The file of the MPI library in this process; empty if it is linked statically.
fs::path mpi_library() {
  fs::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const fs::path file = info->dlpi_name;
        const std::string name = file.filename();
        if (!name.starts_with("libmpi.so") && !name.starts_with("libmpich.so")) return 0;
        *static_cast<fs::path*>(out) = file;
        return 1;
      },
      &found);
  return found;
}

bool is_executable(const fs::path& file) { return access(file.c_str(), X_OK) == 0; }

/// The mpirun next to the MPI library, at most three folders up (lib/x86_64-linux-gnu/openmpi), else the first in PATH:
/// that of another MPI would start ranks that do not see each other.
fs::path find_mpirun() {
  // Without links, and never in the root: mpirun takes the folder above its own as the prefix of its installation, and
  // refuses "/". /bin/mpirun would give that if /bin is a link to /usr/bin.
  std::error_code unknown;
  const fs::path library = mpi_library();
  const bool is_mpich = library.filename().string().starts_with("libmpich.so");
  fs::path dir = fs::canonical(library.parent_path(), unknown);
  for (int i = 0; i < 4 && dir.has_relative_path(); ++i, dir = dir.parent_path()) {
    for (const char* file : {is_mpich ? "bin/mpirun.mpich" : "bin/mpirun.openmpi", "bin/mpirun"}) {
      if (is_executable(dir / file)) return dir / file;
    }
  }
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split_text(path != nullptr ? path : "", ':')) {
    dir = fs::canonical(folder, unknown);
    if (!dir.empty() && is_executable(dir / "mpirun")) return dir / "mpirun";
  }
  return {};
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, std::string_view library, int nranks, bool as_root,
                                        const std::vector<std::string>& args) {
  std::vector<std::string> command{mpirun, "-n", std::to_string(nranks)};
  const bool asks_leave = library.starts_with("Open MPI");
  if (asks_leave) command.push_back("--oversubscribe");
  if (asks_leave && as_root) command.push_back("--allow-run-as-root");
  command.insert(command.end(), args.begin(), args.end());
  // The last value of an option wins, however the user wrote the first.
  command.insert(command.end(), {"-t", "1", "-g", "1"});
  return command;
}

void relaunch_under_mpirun(int nranks, std::string_view library, int argc, char** argv) {
  constexpr const char* kGuard = "BUSBAR_STARTED_ITSELF";
  if (std::getenv(kGuard) != nullptr) {
    throw_not_possible(
        fmt::format("mpirun started this program without a rank: it belongs to another MPI; start `mpirun -n {} {}` "
                    "of the right MPI without -g and -t",
                    nranks, argv[0]));
  }
  const fs::path mpirun = find_mpirun();
  if (mpirun.empty()) {
    throw_not_possible(
        fmt::format("-g and -t without a launcher need mpirun for {} ranks, and there is none next to the MPI "
                    "library or in PATH; install it, or start one rank per process",
                    nranks));
  }
  std::vector<std::string> args(argv, argv + argc);
  std::error_code unknown;
  if (const fs::path self = fs::read_symlink("/proc/self/exe", unknown); !unknown) args[0] = self;
  std::vector<std::string> command = mpirun_command(mpirun, library, nranks, geteuid() == 0, args);
  say("no launcher, so starting {} ranks: {}", nranks, fmt::join(command, " "));
  std::fflush(stderr);

  setenv(kGuard, "1", 1);
  std::vector<char*> raw;
  for (std::string& word : command) raw.push_back(word.data());
  raw.push_back(nullptr);
  execv(raw[0], raw.data());
  throw_not_possible(fmt::format("cannot execute {}: {}", mpirun.string(), std::strerror(errno)));
}

}  // namespace busbar
