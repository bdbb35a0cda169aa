// The bug these catch: two ranks of one host id on one GPU ("Duplicate GPU detected"), a user's own setting lost, a
// socket interface that cannot reach the other host, or another job's RAS asked.

#include "common/backends/nccl/device_kernels.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/machine/job_interface.h"

#include <catch2/catch.hpp>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

std::map<std::string, ProcessSetting> by_name(int rank, bool one_host) {
  std::map<std::string, ProcessSetting> map;
  for (const ProcessSetting& s : shared_gpu_environment(rank, one_host)) map[s.name] = s;
  return map;
}

}  // namespace

TEST_CASE("Every rank claims a host of its own, whatever the environment said", "[ranks_per_gpu][nccl]") {
  CHECK(by_name(0, true)["NCCL_HOSTID"] == ProcessSetting{"NCCL_HOSTID", "busbar-0", true});
  CHECK(by_name(7, true)["NCCL_HOSTID"].value == "busbar-7");
}

TEST_CASE("Only the host id overrides the user", "[ranks_per_gpu][nccl]") {
  for (const ProcessSetting& s : shared_gpu_environment(3, true)) {
    CAPTURE(s.name);
    CHECK(s.overwrite == (s.name == "NCCL_HOSTID"));
  }
}

TEST_CASE("The recipe is complete", "[ranks_per_gpu][nccl]") {
  auto env = by_name(1, true);
  CHECK(env.size() == 10);
  CHECK(env["NCCL_NET"].value == "Socket");
  CHECK(env["NCCL_NET_PLUGIN"].value == "none");
  CHECK(env["NCCL_IB_DISABLE"].value == "1");
  CHECK(env["NCCL_SOCKET_IFNAME"].value == "lo");
  CHECK(env["NCCL_SOCKET_FAMILY"].value == "AF_INET");
  CHECK(env["NCCL_MNNVL_ENABLE"].value == "0");
  CHECK(env["NCCL_NVLS_ENABLE"].value == "0");
  CHECK(env["NCCL_RUNTIME_CONNECT"].value == "0");
  CHECK(env["NCCL_CGA_CLUSTER_SIZE"].value == "0");
}

TEST_CASE("Loopback is named only where it reaches every rank", "[ranks_per_gpu][nccl]") {
  CHECK(by_name(0, false).count("NCCL_SOCKET_IFNAME") == 0);
}

TEST_CASE("A job's RAS listens on a port of its own, or where the user says", "[ranks_per_gpu][nccl]") {
  using Settings = std::vector<ProcessSetting>;
  CHECK(ras_environment(40001, std::nullopt) == Settings{{"NCCL_RAS_ADDR", "localhost:40001", false}});
  CHECK(ras_environment(40001, "node0:1234") == Settings{{"NCCL_RAS_ADDR", "node0:1234", false}});
  CHECK(ras_environment(0, std::nullopt).empty());  // none could be had
}

TEST_CASE("Applying keeps the user's value and replaces what must be unique", "[ranks_per_gpu][nccl]") {
  setenv("BUSBAR_TEST_KEPT", "user", 1);
  setenv("BUSBAR_TEST_REPLACED", "user", 1);
  unsetenv("BUSBAR_TEST_NEW");
  const ProcessSetting settings[] = {
      {"BUSBAR_TEST_KEPT", "ours", false}, {"BUSBAR_TEST_REPLACED", "ours", true}, {"BUSBAR_TEST_NEW", "ours", false}};
  apply(settings);
  CHECK(std::string(std::getenv("BUSBAR_TEST_KEPT")) == "user");
  CHECK(std::string(std::getenv("BUSBAR_TEST_REPLACED")) == "ours");
  CHECK(std::string(std::getenv("BUSBAR_TEST_NEW")) == "ours");
}

TEST_CASE("The header says that shared GPUs give functional runs", "[ranks_per_gpu][nccl]") {
  CHECK(ranks_per_gpu_remark(1).empty());
  CHECK_THAT(ranks_per_gpu_remark(4), Contains("4 ranks per GPU") && Contains("functional"));
}

TEST_CASE("A free port is a port", "[ranks_per_gpu][nccl]") {
  const int port = free_port();
  CHECK(port > 0);
  CHECK(port < 65536);
  CHECK(free_port(port) == port);
  const Socket taken(socket(AF_INET, SOCK_STREAM, 0));
  const SocketAddress address = *socket_address("127.0.0.1", static_cast<std::uint16_t>(port));
  REQUIRE(bind(taken.fd(), address.get(), address.length) == 0);
  CHECK(free_port(port) == 0);
}

TEST_CASE("The mulsum scalar is two in every dtype", "[mulsum][nccl]") {
  const float two_f32 = 2.0f;
  const double two_f64 = 2.0;
  std::uint32_t f32_bits = 0;
  std::uint64_t f64_bits = 0;
  std::memcpy(&f32_bits, &two_f32, sizeof f32_bits);
  std::memcpy(&f64_bits, &two_f64, sizeof f64_bits);
  CHECK(mulsum_scalar_bits(DType::float32) == f32_bits);
  CHECK(mulsum_scalar_bits(DType::float64) == f64_bits);
  CHECK(mulsum_scalar_bits(DType::int8) == 2);
  CHECK(mulsum_scalar_bits(DType::uint64) == 2);
  // 2 = 1.0 * 2^1: exponent bias + 1, no fraction. Biases: half 15, bfloat16 127, e4m3 7, e5m2 15.
  CHECK(mulsum_scalar_bits(DType::half) == (15u + 1) << 10);
  CHECK(mulsum_scalar_bits(DType::bfloat16) == (127u + 1) << 7);
  CHECK(mulsum_scalar_bits(DType::f8e4m3) == (7u + 1) << 3);
  CHECK(mulsum_scalar_bits(DType::f8e5m2) == (15u + 1) << 2);
}
