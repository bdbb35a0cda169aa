// Would catch: a launcher's rank overlooked (every rank then speaks, or starts an mpirun of its own), a shell in an
// allocation taken for a launch, and oversubscribed ranks left to spin.

#include "common/processes/launcher.h"

#include "fake_root.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <map>
#include <string>

using namespace busbar;

namespace {

Launch detect(const std::map<std::string, std::string>& environment) {
  return detect_launch([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

void check(const Launch& launch, Launcher kind, int rank, int nprocs, int local_rank, int local_size) {
  CHECK(launch.kind == kind);
  CHECK(launch.launched() == (kind != Launcher::none));
  CHECK(launch.rank == rank);
  CHECK(launch.nprocs == nprocs);
  CHECK(launch.local_rank == local_rank);
  CHECK(launch.local_size == local_size);
}

constexpr const char* kOpenMpi = "Open MPI 4.1.4";
constexpr const char* kYield = "OMPI_MCA_mpi_yield_when_idle";

/// Two cores in all.
FakeRoot two_cores() {
  FakeRoot root;
  root.file("sys/devices/system/cpu/online", "0-1\n");
  root.file("proc/self/status", "Name:\tx\nPPid:\t1\nCpus_allowed_list:\t0\n");
  return root;
}

Launch local_ranks(int n) {
  Launch launch;
  launch.kind = Launcher::open_mpi;
  launch.local_size = n;
  return launch;
}

}  // namespace

TEST_CASE("Every launcher's variables give rank, size and place on the host", "[launcher][cluster]") {
  check(detect({}), Launcher::none, -1, 0, -1, 0);
  check(detect({{"OMPI_COMM_WORLD_RANK", "5"},
                {"OMPI_COMM_WORLD_SIZE", "8"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                {"PMIX_RANK", "5"},
                {"SLURM_STEP_NUM_TASKS", "2"}}),
        Launcher::open_mpi, 5, 8, 1, 4);
  check(detect({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}),
        Launcher::hydra, 3, 4, 1, 2);
  check(detect({{"SLURM_STEP_ID", "0"},
                {"SLURM_STEP_NUM_TASKS", "5"},
                {"SLURM_PROCID", "4"},
                {"SLURM_LOCALID", "0"},
                {"SLURM_NODEID", "2"},
                {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                {"PMI_RANK", "4"}}),
        Launcher::slurm, 4, 5, 0, 1);
  check(detect({{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_LOCAL_ID", "1"}, {"PMI_RANK", "1"}}),
        Launcher::flux, 1, 2, 1, 0);
  check(detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), Launcher::pmi, 0, 2, -1, 0);
  check(detect({{"PMIX_RANK", "7"}}), Launcher::pmix, 7, 0, -1, 0);
}

TEST_CASE("A shell inside a Slurm allocation is not a launch", "[launcher][cluster]") {
  // salloc, sbatch's script
  check(detect({{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "0"}}), Launcher::none, -1, 0, -1, 0);
  // srun --pty bash
  check(detect({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PTY_PORT", "40001"}}), Launcher::none,
        -1, 0, -1, 0);
  // salloc with LaunchParameters=use_interactive_step
  check(detect({{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}}), Launcher::none, -1, 0, -1, 0);
}

TEST_CASE("Variables that hold no number are as if not told", "[launcher][cluster]") {
  check(detect({{"OMPI_COMM_WORLD_SIZE", "many"}, {"OMPI_COMM_WORLD_RANK", "-3"}}), Launcher::open_mpi, -1, 0, -1, 0);
}

TEST_CASE("Slurm's tasks per node are counted through its repetitions", "[launcher][cluster]") {
  CHECK(slurm_tasks_on_node("2(x3),1", 0) == 2);
  CHECK(slurm_tasks_on_node("2(x3),1", 2) == 2);
  CHECK(slurm_tasks_on_node("2(x3),1", 3) == 1);
  CHECK(slurm_tasks_on_node("2(x3),1", 4) == 0);
  CHECK(slurm_tasks_on_node("8", 0) == 8);
  CHECK(slurm_tasks_on_node("", 0) == 0);
  CHECK(slurm_tasks_on_node("4(", 0) == 0);
}

TEST_CASE("More ranks than cores are made to yield, and the sentence says so", "[launcher][cluster]") {
  const FakeRoot root = two_cores();
  unsetenv(kYield);
  CHECK(repair_oversubscription(local_ranks(2), kOpenMpi, root.path()).empty());
  CHECK(std::getenv(kYield) == nullptr);
  CHECK(repair_oversubscription(local_ranks(4), kOpenMpi, root.path()) == "4 ranks on 2 cores: yielding when idle");
  REQUIRE(std::getenv(kYield) != nullptr);
  CHECK(std::string(std::getenv(kYield)) == "1");
  unsetenv(kYield);
}

TEST_CASE("A user's own choice about yielding stands and shows", "[launcher][cluster]") {
  const FakeRoot root = two_cores();
  setenv(kYield, "0", 1);
  CHECK(repair_oversubscription(local_ranks(4), kOpenMpi, root.path()) ==
        "4 ranks on 2 cores: NOT yielding when idle, as the environment demands");
  CHECK(std::string(std::getenv(kYield)) == "0");
  unsetenv(kYield);
}

TEST_CASE("A library that nothing makes yield gets no such claim but what it costs", "[launcher][cluster]") {
  const FakeRoot root = two_cores();
  unsetenv(kYield);
  CHECK(repair_oversubscription(local_ranks(2), "MPICH 4.0.2", root.path()).empty());
  CHECK(repair_oversubscription(local_ranks(3), "MPICH 4.0.2", root.path()) ==
        "3 ranks on 2 cores: nothing makes MPICH 4.0.2 yield, so small operations may take milliseconds, not "
        "microseconds");
  CHECK(std::getenv(kYield) == nullptr);
}

TEST_CASE("MPICH 4.0 is kept from its device's reduce, and the user's own choice stands", "[launcher]") {
  constexpr const char* kVariable = "MPIR_CVAR_REDUCE_DEVICE_COLLECTIVE";
  unsetenv(kVariable);
  CHECK(repair_reduce("MPICH 5.0.2").empty());
  CHECK(repair_reduce(kOpenMpi).empty());
  CHECK(std::getenv(kVariable) == nullptr);
  CHECK(repair_reduce("MPICH 4.0.2") ==
        "MPIR_CVAR_REDUCE_DEVICE_COLLECTIVE=0: with 1, MPICH 4.0.2 crashes in in-place reduce at root > 0");
  setenv(kVariable, "1", 1);
  (void)repair_reduce("MPICH 4.0.2");
  CHECK(std::string(std::getenv(kVariable)) == "1");
  unsetenv(kVariable);
}

TEST_CASE("Intel MPI yields by a variable of its own", "[launcher][cluster]") {
  constexpr const char* kIntel = "Intel(R) MPI Library 2021.18 for Linux* OS";
  const FakeRoot root = two_cores();
  unsetenv("I_MPI_THREAD_YIELD");
  CHECK(repair_oversubscription(local_ranks(3), kIntel, root.path()) == "3 ranks on 2 cores: yielding when idle");
  CHECK(std::string(std::getenv("I_MPI_THREAD_YIELD")) == "3");
  setenv("I_MPI_THREAD_YIELD", "1", 1);
  CHECK(repair_oversubscription(local_ranks(3), kIntel, root.path()) ==
        "3 ranks on 2 cores: NOT yielding when idle, as the environment demands");
  unsetenv("I_MPI_THREAD_YIELD");
}

TEST_CASE("One rank that was started as one of several gets a warning with its remedy", "[launcher][cluster]") {
  Launch launch;
  CHECK(separate_worlds_warning(launch, 1).empty());
  launch.kind = Launcher::hydra;
  launch.nprocs = 4;
  CHECK(separate_worlds_warning(launch, 4).empty());
  const std::string warning = separate_worlds_warning(launch, 1);
  CHECK(warning.find("4 separate one-rank runs") != std::string::npos);
  CHECK(warning.find("use the mpirun of the MPI that it was built with") != std::string::npos);
  launch.kind = Launcher::slurm;
  CHECK(separate_worlds_warning(launch, 1).find("srun --mpi=pmix") != std::string::npos);
}

TEST_CASE("The command that a lone process becomes keeps the user's words and takes one rank each",
          "[launcher][cluster]") {
  using Words = std::vector<std::string>;
  CHECK(mpirun_command("/usr/bin/mpirun", kOpenMpi, 4, false, {"/b/all_reduce_perf", "-g4", "-b", "8"}) ==
        Words{"/usr/bin/mpirun", "-n", "4", "--oversubscribe", "/b/all_reduce_perf", "-g4", "-b", "8", "-t", "1", "-g",
              "1"});
  CHECK(mpirun_command("mpirun", kOpenMpi, 2, true, {"x"}) ==
        Words{"mpirun", "-n", "2", "--oversubscribe", "--allow-run-as-root", "x", "-t", "1", "-g", "1"});
  CHECK(mpirun_command("mpirun.mpich", "MPICH 4.0.2", 2, true, {"x"}) ==
        Words{"mpirun.mpich", "-n", "2", "x", "-t", "1", "-g", "1"});
}
