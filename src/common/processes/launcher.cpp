#include "common/processes/launcher.h"

#include "common/base/compress_list.h"
#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/resources.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

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

// The most specific first: Open MPI under Slurm shows Slurm's variables too, Slurm and Flux show PMI's. torchrun starts
// its processes itself, whatever it was started by. RANK and WORLD_SIZE are anybody's names.
constexpr Names kLaunchers[] = {
    {Launcher::torch, "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::open_mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::hydra, "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::flux, "FLUX_TASK_RANK", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
    {Launcher::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    {Launcher::pmi, "PMI_RANK", "PMI_RANK", "PMI_SIZE", "", ""},
    {Launcher::pmix, "PMIX_RANK", "PMIX_RANK", "", "", ""},
    {Launcher::env, "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::k8s, "JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", ""},
    {Launcher::env, "WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}};

constexpr std::string_view kAllFour = "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT";
constexpr std::string_view kOrAlone = "or --launcher none for one process alone";
constexpr int kMostProcesses = 1 << 20;

bool is_set(const Get& get, const char* variable) {
  const char* text = get(variable);
  return text != nullptr && *text != '\0';
}

std::optional<long long> number(const Get& get, const char* variable) {
  const char* text = *variable != '\0' ? get(variable) : nullptr;
  const auto value = number_of<long long>(text != nullptr ? text : "");
  return value.value_or(-1) < 0 ? std::nullopt : value;
}

int small_number(const Get& get, const char* variable, int otherwise) {
  const long long value = number(get, variable).value_or(otherwise);
  return value > std::numeric_limits<int>::max() ? otherwise : static_cast<int>(value);
}

/// Whether the step is a shell: `srun --pty`, or one of the reserved step ids from 0xfffffff0 on (Slurm's slurm.h:
/// batch script, extern, interactive).
bool is_slurm_shell(const Get& get) {
  return get("SLURM_PTY_PORT") != nullptr || number(get, "SLURM_STEP_ID").value_or(0) >= 0xfffffff0LL;
}

bool has_pmi(const Get& get) {
  constexpr std::array kOfPmi{"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_CONTROL_PORT", "PMIX_RANK", "PMIX_NAMESPACE"};
  return std::ranges::any_of(kOfPmi, [&](const char* name) { return get(name) != nullptr; });
}

bool is_any(Launcher kind, std::initializer_list<Launcher> these) {
  return std::ranges::find(these, kind) != these.end();
}

/// Whether --launcher lets these variables count.
bool counts(const Names& names, LauncherChoice choice) {
  using enum Launcher;
  switch (choice) {
    case LauncherChoice::automatic:
      return true;
    case LauncherChoice::mpi:
      return !is_any(names.kind, {torch, env, k8s});
    case LauncherChoice::env:
      return is_any(names.kind, {torch, env});
    case LauncherChoice::slurm:
      return names.kind == slurm;
    case LauncherChoice::k8s:
      return names.kind == k8s;
    case LauncherChoice::none:
      return false;
  }
  return false;
}

Launch read_launch(const Get& get, const Names& names) {
  Launch launch;
  launch.kind = names.kind;
  launch.rank = small_number(get, names.rank, -1);
  launch.nprocs = small_number(get, names.nprocs, 0);
  launch.local_rank = small_number(get, names.local_rank, -1);
  launch.local_size = small_number(get, names.local_size, 0);
  if (launch.kind == Launcher::slurm) {
    const char* tasks = get("SLURM_STEP_TASKS_PER_NODE");
    if (tasks != nullptr) launch.local_size = slurm_tasks_on_node(tasks, small_number(get, "SLURM_NODEID", 0));
  }
  return launch;
}

/// What keeps these variables from naming a place in a job; empty: they do.
std::string problem_of(const Get& get, const Names& names, const Launch& launch) {
  const bool is_k8s = launch.kind == Launcher::k8s;
  if (is_k8s && !is_set(get, names.nprocs)) {
    return fmt::format(
        "{} is set and WORLD_SIZE is not: set WORLD_SIZE to the completions of the Job, and MASTER_ADDR and "
        "MASTER_PORT, {}",
        names.rank, kOrAlone);
  }
  for (const auto& [here, other] : {std::pair(names.rank, names.nprocs), std::pair(names.nprocs, names.rank)}) {
    if (is_set(get, other) && !is_set(get, here))
      return fmt::format("{} is set and {} is not: {}, {}", other, here, kAllFour, kOrAlone);
  }
  const auto bad = [&](const char* variable, std::string_view wanted) {
    return fmt::format("{}={} is not {}: {}, {}", variable, printable(get(variable)), wanted, kAllFour, kOrAlone);
  };
  const std::optional<long long> nprocs = number(get, names.nprocs), rank = number(get, names.rank);
  if (nprocs.value_or(0) < 1) return bad(names.nprocs, "a number of processes");
  if (*nprocs > kMostProcesses)
    return bad(names.nprocs, fmt::format("a number of processes that can meet, at most {}", kMostProcesses));
  if (!rank) return bad(names.rank, "a rank");
  if (*rank >= *nprocs) return bad(names.rank, fmt::format("a rank below {}={}", names.nprocs, *nprocs));
  if (*nprocs == 1) return {};
  for (const char* variable : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (is_set(get, variable) || launch.kind == Launcher::slurm) continue;
    return fmt::format("{} and {} are set and {} is not: {}, {}", names.rank, names.nprocs, variable, kAllFour,
                       kOrAlone);
  }
  if (launch.master_port < 1 || launch.master_port > 65535) return bad("MASTER_PORT", "a port from 1 to 65535");
  return {};
}

/// Where rank 0 of srun's step is met: on its first host, at a port that neighbors' steps do not have.
void meet_by_slurm(const Get& get, Launch& launch) {
  const char* hosts = get("SLURM_STEP_NODELIST");
  try {
    const std::vector<std::string> names = expand_hosts(hosts != nullptr ? hosts : "");
    if (!names.empty() && launch.master_address.empty()) launch.master_address = names.front();
  } catch (const Error&) {
    // no list of hosts
  }
  const long long job = number(get, "SLURM_JOB_ID").value_or(0), step = number(get, "SLURM_STEP_ID").value_or(0);
  if (launch.master_port == 0) launch.master_port = static_cast<int>(20000 + (job + step) % 10000);
  launch.job = fmt::format("{}.{}", job, step);
  if (launch.master_address.empty())
    launch.problem = "SLURM_STEP_NODELIST names no host: set MASTER_ADDR and MASTER_PORT";
}

void meet_by_sockets(const Get& get, const Names& names, Launch& launch) {
  launch.carrier = Carrier::sockets;
  const char* address = get("MASTER_ADDR");
  launch.master_address = address != nullptr ? address : "";
  launch.master_port = small_number(get, "MASTER_PORT", 0);
  if (launch.kind == Launcher::slurm) meet_by_slurm(get, launch);
  if (launch.kind == Launcher::torch) {
    const char* run = get("TORCHELASTIC_RUN_ID");
    launch.job = fmt::format("{}.{}", printable(run), small_number(get, "TORCHELASTIC_RESTART_COUNT", 0));
  }
  if (launch.problem.empty()) launch.problem = problem_of(get, names, launch);
  // These launchers start rank 0 with the same mistake. A user may have started this process alone, as rank 3 of none.
  const bool has_rank0 = is_any(names.kind, {Launcher::torch, Launcher::slurm}) && launch.rank < launch.nprocs;
  if (!launch.problem.empty() && !has_rank0) launch.rank = -1;
}

/// Where RANK and WORLD_SIZE say otherwise than the launcher that was taken.
std::string warning_of(const Get& get, const Launch& launch) {
  const int rank = small_number(get, "RANK", launch.rank), nprocs = small_number(get, "WORLD_SIZE", launch.nprocs);
  if (launch.nprocs == 0 || launch.rank < 0 || (rank == launch.rank && nprocs == launch.nprocs)) return {};
  return fmt::format(
      "{} started this as rank {} of {}, and RANK/WORLD_SIZE say {} of {}: taking the former (--launcher env for the "
      "other)",
      name(launch.kind), launch.rank, launch.nprocs, rank, nprocs);
}

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

// In the order of Launcher: the long name, and the short one.
constexpr std::array<std::string_view, 2> kLauncherNames[] = {{"none", "alone"},
                                                              {"torchrun", "torchrun"},
                                                              {"Open MPI's mpirun", "mpirun"},
                                                              {"Hydra (mpiexec of MPICH or Intel MPI)", "hydra"},
                                                              {"Flux", "flux"},
                                                              {"Slurm's srun", "srun"},
                                                              {"a PMI launcher", "pmi"},
                                                              {"a PMIx launcher", "pmix"},
                                                              {"RANK/WORLD_SIZE", "env"},
                                                              {"a Kubernetes Job", "k8s"}};

}  // namespace

std::string_view name(Launcher launcher) { return kLauncherNames[static_cast<std::size_t>(launcher)][0]; }

std::string_view short_name(Launcher launcher) { return kLauncherNames[static_cast<std::size_t>(launcher)][1]; }

Launch detect_launch(const Get& get, LauncherChoice choice) {
  for (const Names& names : kLaunchers) {
    if (get(names.sign) == nullptr || !counts(names, choice)) continue;
    if (names.kind == Launcher::slurm && is_slurm_shell(get)) return {};
    // Pods of an Indexed Job may be runs of their own.
    const bool meets = is_set(get, "WORLD_SIZE") || is_set(get, "MASTER_ADDR") || choice == LauncherChoice::k8s;
    if (names.kind == Launcher::k8s && !meets) continue;
    Launch launch = read_launch(get, names);
    const bool without_pmi = launch.nprocs > 1 && !has_pmi(get) && choice != LauncherChoice::mpi;
    const bool is_ours = is_any(names.kind, {Launcher::torch, Launcher::env, Launcher::k8s}) ||
                         (names.kind == Launcher::slurm && (without_pmi || choice == LauncherChoice::slurm));
    if (is_ours) meet_by_sockets(get, names, launch);
    if (!is_ours && choice == LauncherChoice::automatic && names.kind != Launcher::none)
      launch.warning = warning_of(get, launch);
    return launch;
  }
  Launch alone;
  if (choice == LauncherChoice::none) {
    alone.rank = 0;
    alone.nprocs = 1;
    alone.carrier = Carrier::sockets;
  } else if (choice != LauncherChoice::automatic && choice != LauncherChoice::mpi) {
    alone.problem = fmt::format("--launcher {} needs variables that are not set: {}", name(choice),
                                choice == LauncherChoice::env     ? kAllFour
                                : choice == LauncherChoice::slurm ? "start this with srun"
                                                                  : "start this as an Indexed Job with WORLD_SIZE");
  }
  return alone;
}

Launch launch_without_mpi(std::string_view why, const Get& get, LauncherChoice choice) {
  Launch launch = detect_launch(get, choice);
  if (launch.carrier == Carrier::sockets || !launch.problem.empty()) return launch;
  if (choice == LauncherChoice::automatic) {
    if (!launch.launched()) return detect_launch(get, LauncherChoice::none);
    if (launch.kind == Launcher::slurm) return detect_launch(get, LauncherChoice::slurm);
  }
  const std::string by =
      choice == LauncherChoice::mpi ? "--launcher mpi" : fmt::format("{} started this", name(launch.kind));
  throw_not_possible(fmt::format(
      "{}, and {}: start the ranks with torchrun, with srun, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set",
      by, why));
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

}  // namespace busbar
