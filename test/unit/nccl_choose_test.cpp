// The bug these catch: a cluster whose GPUs are dead, missing on one host, or too few, that is quietly measured on host
// memory and passes.

#include "common/backends/open_backend.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using busbar::BackendChoice;
using busbar::Carrier;
using busbar::choose_backend;
using busbar::Config;
using busbar::Error;
using busbar::ExitCode;
using busbar::HostFacts;
using Catch::Contains;

namespace {

HostFacts host(const std::string& name, int ranks, int on_bus, int usable) {
  HostFacts h;
  h.hostname = name;
  h.ranks = ranks;
  h.gpus_on_bus = on_bus;
  h.gpus_usable = usable;
  return h;
}

std::string refusal(const Config& config, const std::vector<HostFacts>& hosts, bool built_in = true) {
  try {
    choose_backend(config, hosts, built_in);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::not_possible);
    return e.what();
  }
  return "accepted";
}

Config with_backend(BackendChoice choice) {
  Config config;
  config.backend = choice;
  return config;
}

}  // namespace

TEST_CASE("Without a GPU on any host the choice is host memory", "[choose][nccl]") {
  const std::vector<HostFacts> hosts{host("a", 4, 0, 0), host("b", 4, 0, 0)};
  CHECK(choose_backend(Config{}, hosts, true) == BackendChoice::mpi);
  CHECK(choose_backend(Config{}, hosts, false) == BackendChoice::mpi);
}

TEST_CASE("Where MPI does not carry the job, the choice on host memory is Gloo, and MPI is refused",
          "[choose][sockets]") {
  const std::vector<HostFacts> hosts{host("a", 4, 0, 0)};
  CHECK(choose_backend(Config{}, hosts, true, Carrier::sockets) == BackendChoice::gloo);
  const auto refused = [&](const Config& config, const std::vector<HostFacts>& on) -> std::string {
    try {
      choose_backend(config, on, true, Carrier::sockets);
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::not_possible);
      return e.what();
    }
    return "accepted";
  };
  CHECK_THAT(refused(with_backend(BackendChoice::mpi), hosts), Contains("mpirun") && Contains("--backend gloo"));
  // No advice leads there either.
  for (const auto& [asked, on] : {std::pair(BackendChoice::nccl, host("a", 4, 0, 0)),
                                  {BackendChoice::automatic, host("a", 4, 2, 0)},
                                  {BackendChoice::automatic, host("a", 4, 2, 2)}}) {
    const std::string text = refused(with_backend(asked), {on});
    CHECK_THAT(text, Contains("--backend gloo") && !Contains("--backend mpi"));
  }
}

TEST_CASE("With a GPU for every rank the choice is NCCL", "[choose][nccl]") {
  const std::vector<HostFacts> hosts{host("a", 8, 8, 8), host("b", 4, 8, 8)};
  CHECK(choose_backend(Config{}, hosts, true) == BackendChoice::nccl);
  CHECK(choose_backend(with_backend(BackendChoice::nccl), hosts, true) == BackendChoice::nccl);
}

TEST_CASE("GPUs that no PCI bus shows still count when they are usable", "[choose][nccl]") {
  const std::vector<HostFacts> hosts{host("a", 1, 0, 1)};
  CHECK(choose_backend(Config{}, hosts, true) == BackendChoice::nccl);
}

TEST_CASE("--backend mpi takes host memory on any machine", "[choose][nccl]") {
  HostFacts dead = host("a", 2, 8, 0);
  dead.gpu_problem = "the driver does not answer";
  CHECK(choose_backend(with_backend(BackendChoice::mpi), std::vector{dead, host("b", 2, 0, 0)}, false) ==
        BackendChoice::mpi);
}

TEST_CASE("Hosts with and hosts without GPUs are refused, both named", "[choose][nccl]") {
  const std::string text = refusal(Config{}, {host("gpu1", 1, 8, 8), host("cpu1", 1, 0, 0), host("cpu2", 1, 0, 0)});
  CHECK_THAT(text, Contains("gpu1") && Contains("cpu1, cpu2") && Contains("--backend mpi"));
}

TEST_CASE("A GPU on the bus whose driver is dead is refused with the driver's reason", "[choose][nccl]") {
  HostFacts dead = host("node7", 1, 8, 0);
  dead.gpu_problem = "no CUDA driver (libcuda.so.1) is loaded";
  const std::string text = refusal(Config{}, {host("node6", 1, 8, 8), dead});
  CHECK_THAT(text, Contains("node7: no CUDA driver (libcuda.so.1) is loaded") && !Contains("node6"));
  CHECK_THAT(text, Contains("nvidia-smi") && Contains("--backend mpi"));
}

TEST_CASE("A build without NCCL on a GPU machine is refused and says how to rebuild", "[choose][nccl]") {
  CHECK_THAT(refusal(Config{}, {host("a", 1, 1, 0)}, false),
             Contains("GPUs on a") && Contains("CUDA_HOME") && Contains("NCCL_HOME") && Contains("--backend mpi"));
}

TEST_CASE("A missing NCCL library is refused, the hosts named", "[choose][nccl]") {
  HostFacts h = host("b", 1, 1, 1);
  h.library_problem = "libnccl.so.2 is not found";
  CHECK_THAT(refusal(Config{}, {host("a", 1, 1, 1), h}), Contains("b: libnccl.so.2 is not found") && !Contains("a:"));
}

TEST_CASE("More ranks than GPUs is refused, with the --ranks-per-gpu that would do", "[choose][nccl]") {
  const std::vector<HostFacts> hosts{host("a", 8, 8, 8), host("b", 9, 4, 4)};
  CHECK_THAT(refusal(Config{}, hosts),
             Contains("b: 9 ranks but 4 usable GPUs") && Contains("--ranks-per-gpu 3") && !Contains("a:"));
}

TEST_CASE("Sharing GPUs is not proposed to a process with several ranks", "[choose][nccl]") {
  Config config;
  config.ngpus = 3;
  CHECK_THAT(refusal(config, {host("a", 3, 2, 2)}), Contains("a: 3 ranks") && !Contains("--ranks-per-gpu"));
}

TEST_CASE("A dead driver is named before the NCCL library that it keeps from loading", "[choose][nccl]") {
  HostFacts dead = host("a", 1, 1, 0);
  dead.gpu_problem = "driver mismatch";
  dead.library_problem = "libcuda.so.1 is not found";
  CHECK_THAT(refusal(Config{}, {dead}), Contains("a: driver mismatch") && !Contains("libcuda"));
}

TEST_CASE("--ranks-per-gpu multiplies what each GPU takes, and no more", "[choose][nccl]") {
  Config config;
  config.ranks_per_gpu = 4;
  CHECK(choose_backend(config, std::vector{host("a", 4, 1, 1)}, true) == BackendChoice::nccl);
  CHECK_THAT(refusal(config, {host("a", 5, 1, 1)}), Contains("a: 5 ranks but 1 usable GPU;"));
}

TEST_CASE("NCCL_TESTS_DEVICE leaves the number of GPUs to the user", "[choose][nccl]") {
  Config config;
  config.base_device = 0;
  CHECK(choose_backend(config, std::vector{host("a", 4, 4, 1)}, true) == BackendChoice::nccl);
}

TEST_CASE("--backend nccl where there is no GPU is refused", "[choose][nccl]") {
  CHECK_THAT(refusal(with_backend(BackendChoice::nccl), {host("a", 1, 0, 0)}),
             Contains("no NVIDIA GPU on a") && Contains("--backend mpi"));
}

TEST_CASE("A thousand dead hosts are counted, not all named", "[choose][nccl]") {
  std::vector<HostFacts> hosts(1000, host("n", 1, 1, 0));
  const std::string text = refusal(Config{}, hosts);
  CHECK_THAT(text, Contains("and 992 more"));
  CHECK(text.size() < 1000);
}
