// Would catch: a launcher's rank overlooked or taken from the wrong one of two, RANK and WORLD_SIZE that were left over
// in a shell and change how mpirun's jobs run, an srun without PMI whose processes do not see each other, and a mistake
// in the environment that is not said or is said without what to set.

#include "common/processes/launcher.h"

#include <catch2/catch.hpp>

#include <map>
#include <string>

using namespace busbar;

namespace {

using Environment = std::map<std::string, std::string>;

Launch detect(const Environment& environment, LauncherChoice choice = LauncherChoice::automatic) {
  return detect_launch(
      [&](const char* name) -> const char* {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      choice);
}

Environment operator+(Environment a, const Environment& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

Environment without(Environment e, const char* name) {
  e.erase(name);
  return e;
}

const Environment kEnv{{"RANK", "3"}, {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Environment kTorch = kEnv + Environment{{"TORCHELASTIC_RUN_ID", "run7"},
                                              {"TORCHELASTIC_RESTART_COUNT", "2"},
                                              {"LOCAL_RANK", "3"},
                                              {"LOCAL_WORLD_SIZE", "8"}};
const Environment kMpirun{{"OMPI_COMM_WORLD_RANK", "5"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Environment kSrun{{"SLURM_JOB_ID", "41"},        {"SLURM_STEP_ID", "2"},
                        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"},
                        {"SLURM_LOCALID", "1"},        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                        {"SLURM_NODEID", "0"},         {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
const Environment kPod{
    {"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "w-0.w"}, {"MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("The innermost launcher is taken, and decides what carries the job", "[launcher][sockets]") {
  struct Row {
    const char* what;
    Environment environment;
    LauncherChoice choice;
    Launcher kind;
    int rank, nprocs;
    Carrier carrier;
  };
  using enum LauncherChoice;
  const Row rows[] = {
      {"nothing", {}, automatic, Launcher::none, -1, 0, Carrier::mpi},
      {"nothing, one alone", {}, LauncherChoice::none, Launcher::none, 0, 1, Carrier::sockets},
      {"RANK", kEnv, automatic, Launcher::env, 3, 16, Carrier::sockets},
      {"RANK, env", kEnv, env, Launcher::env, 3, 16, Carrier::sockets},
      {"RANK, mpi", kEnv, mpi, Launcher::none, -1, 0, Carrier::mpi},
      {"RANK, one alone", kEnv, LauncherChoice::none, Launcher::none, 0, 1, Carrier::sockets},
      {"torchrun", kTorch, automatic, Launcher::torch, 3, 16, Carrier::sockets},
      {"torchrun, env", kTorch, env, Launcher::torch, 3, 16, Carrier::sockets},
      {"torchrun in srun", kTorch + kSrun, automatic, Launcher::torch, 3, 16, Carrier::sockets},
      {"torchrun in srun, slurm", kTorch + kSrun, slurm, Launcher::slurm, 1, 4, Carrier::sockets},
      {"torchrun in mpirun", kTorch + kMpirun, automatic, Launcher::torch, 3, 16, Carrier::sockets},
      {"torchrun in mpirun, mpi", kTorch + kMpirun, mpi, Launcher::open_mpi, 5, 8, Carrier::mpi},
      {"mpirun", kMpirun, automatic, Launcher::open_mpi, 5, 8, Carrier::mpi},
      {"mpirun, RANK left over", kMpirun + kEnv, automatic, Launcher::open_mpi, 5, 8, Carrier::mpi},
      {"mpirun, env", kMpirun + kEnv, env, Launcher::env, 3, 16, Carrier::sockets},
      {"mpirun in srun", kMpirun + kSrun, automatic, Launcher::open_mpi, 5, 8, Carrier::mpi},
      {"srun without PMI", kSrun, automatic, Launcher::slurm, 1, 4, Carrier::sockets},
      {"srun without PMI, mpi", kSrun, mpi, Launcher::slurm, 1, 4, Carrier::mpi},
      {"srun --mpi=pmix", kSrun + Environment{{"PMIX_RANK", "1"}}, automatic, Launcher::slurm, 1, 4, Carrier::mpi},
      {"srun --mpi=pmi2", kSrun + Environment{{"PMI_FD", "9"}}, automatic, Launcher::slurm, 1, 4, Carrier::mpi},
      {"srun --mpi=pmix, slurm", kSrun + Environment{{"PMIX_RANK", "1"}}, slurm, Launcher::slurm, 1, 4,
       Carrier::sockets},
      {"srun, RANK left over", kSrun + kEnv, automatic, Launcher::slurm, 1, 4, Carrier::sockets},
      {"srun -n 1", kSrun + Environment{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}, automatic,
       Launcher::slurm, 0, 1, Carrier::mpi},
      {"srun --pty", kSrun + Environment{{"SLURM_PTY_PORT", "1"}}, automatic, Launcher::none, -1, 0, Carrier::mpi},
      {"PMI", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, automatic, Launcher::pmi, 1, 2, Carrier::mpi},
      {"Flux", {{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}}, automatic, Launcher::flux, 1, 2, Carrier::mpi},
      {"Indexed Job", kPod, automatic, Launcher::k8s, 1, 2, Carrier::sockets},
      {"Indexed Job with RANK", kPod + kEnv, automatic, Launcher::env, 3, 16, Carrier::sockets},
      {"Indexed Job of single pods", {{"JOB_COMPLETION_INDEX", "1"}}, automatic, Launcher::none, -1, 0, Carrier::mpi},
      {"Indexed Job, k8s", kPod + kEnv, k8s, Launcher::k8s, 1, 16, Carrier::sockets},
      {"mpirun in a pod", kMpirun + kPod, automatic, Launcher::open_mpi, 5, 8, Carrier::mpi},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Launch launch = detect(row.environment, row.choice);
    CHECK(launch.kind == row.kind);
    CHECK(launch.rank == row.rank);
    CHECK(launch.nprocs == row.nprocs);
    CHECK(launch.carrier == row.carrier);
    CHECK(launch.problem.empty());
  }
}

TEST_CASE("Where rank 0 is met is what the launcher says", "[launcher][sockets]") {
  CHECK(detect(kEnv).master_address == "node1");
  CHECK(detect(kEnv).master_port == 29500);
  CHECK(detect(kEnv).job.empty());
  CHECK(detect(kTorch).job == "run7.2");
  CHECK(detect(kTorch).local_rank == 3);
  CHECK(detect(kTorch).local_size == 8);
  // Steps of one job have ports of their own.
  CHECK(detect(kSrun).master_address == "gpu07");
  CHECK(detect(kSrun).master_port == 20043);
  CHECK(detect(kSrun).job == "41.2");
  CHECK(detect(kSrun).local_size == 2);
  const Launch named = detect(kSrun + Environment{{"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "4000"}});
  CHECK(named.master_address == "10.0.0.7");
  CHECK(named.master_port == 4000);
  CHECK(detect(without(kSrun, "SLURM_STEP_NODELIST")).problem.find("MASTER_ADDR") != std::string::npos);
}

TEST_CASE("An incomplete environment is a sentence with what to set", "[launcher][sockets]") {
  const auto problem = [](const Environment& e, LauncherChoice choice = LauncherChoice::automatic) {
    const Launch launch = detect(e, choice);
    return launch.problem;
  };
  CHECK(problem(without(kEnv, "WORLD_SIZE")) ==
        "RANK is set and WORLD_SIZE is not: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or --launcher none for "
        "one process alone");
  CHECK(problem(without(kEnv, "RANK")).starts_with("WORLD_SIZE is set and RANK is not: "));
  CHECK(problem(without(kEnv, "MASTER_ADDR")).starts_with("RANK and WORLD_SIZE are set and MASTER_ADDR is not: "));
  CHECK(problem(without(kEnv, "MASTER_PORT")).starts_with("RANK and WORLD_SIZE are set and MASTER_PORT is not: "));
  CHECK(problem(kEnv + Environment{{"RANK", "16"}}).starts_with("RANK=16 is not a rank below WORLD_SIZE=16: "));
  CHECK(problem(kEnv + Environment{{"RANK", "-1"}}).starts_with("RANK=-1 is not a rank: "));
  CHECK(problem(kEnv + Environment{{"RANK", "4294967299"}}).starts_with("RANK=4294967299 is not a rank below "));
  CHECK(problem(kEnv + Environment{{"WORLD_SIZE", "0"}}).starts_with("WORLD_SIZE=0 is not a number of processes: "));
  CHECK(problem(kEnv + Environment{{"WORLD_SIZE", "1000000000"}}).find("at most 1048576: ") != std::string::npos);
  CHECK(problem(kEnv + Environment{{"MASTER_PORT", "0"}}).starts_with("MASTER_PORT=0 is not a port from 1 to 65535: "));
  CHECK(problem(kEnv + Environment{{"MASTER_PORT", "70000"}}).starts_with("MASTER_PORT=70000 is not a port"));
  CHECK(problem(kEnv + Environment{{"MASTER_PORT", "\x1b[2J"}}).find('\x1b') == std::string::npos);
  CHECK(problem(without(kPod, "WORLD_SIZE")).find("to the completions of the Job") != std::string::npos);
  CHECK(problem({}, LauncherChoice::env).starts_with("--launcher env needs variables that are not set: "));
  CHECK(problem({}, LauncherChoice::slurm).starts_with("--launcher slurm needs "));
  CHECK(problem({}, LauncherChoice::k8s).starts_with("--launcher k8s needs "));
  CHECK(problem({{"JOB_COMPLETION_INDEX", "0"}}, LauncherChoice::k8s).starts_with("JOB_COMPLETION_INDEX is set and "));
  // Who cannot know of a rank 0 speaks; srun's have one.
  CHECK(detect({{"RANK", "2"}}).rank == -1);
  CHECK(detect(without(kEnv, "MASTER_PORT")).rank == -1);
  CHECK(detect(kEnv + Environment{{"RANK", "16"}}).rank == -1);
  CHECK(detect(without(kSrun, "SLURM_STEP_NODELIST")).rank == 1);
  // One process meets nobody.
  CHECK(problem({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).empty());
}

TEST_CASE("Two launchers that disagree are a warning, and those that agree are none", "[launcher][sockets]") {
  CHECK(detect(kMpirun).warning.empty());
  CHECK(detect(kMpirun + Environment{{"RANK", "5"}, {"WORLD_SIZE", "8"}}).warning.empty());
  CHECK(detect(kMpirun + kEnv).warning ==
        "Open MPI's mpirun started this as rank 5 of 8, and RANK/WORLD_SIZE say 3 of 16: taking the former (--launcher "
        "env for the other)");
  CHECK(detect(kMpirun + kEnv, LauncherChoice::mpi).warning.empty());
}
