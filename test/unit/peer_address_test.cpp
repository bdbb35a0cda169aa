// Would catch: watchers that listen where the other hosts cannot come: on a bridge for containers, on a GPU's or a
// management controller's private wire, on another network than the user or the launcher chose; and a misspelt
// interface that is taken for none.

#include "common/watch/peer_address.h"

#include "common/base/error.h"
#include "common/base/random_source.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

using Variables = std::map<std::string, std::string>;
using Routes = std::map<std::string, std::string>;

// A host as they are: two networks, a bridge of Docker's before them, a wire to the management controller.
const std::vector<InterfaceAddress> kHost{
    {"lo", "127.0.0.1", 8, true, true},       {"docker0", "172.17.0.1", 16, true, false},
    {"usb0", "169.254.3.1", 24, true, false}, {"eth0", "10.1.0.7", 16, true, false},
    {"eth1", "10.2.0.7", 16, false, false},   {"ib0", "192.168.5.7", 24, true, false},
    {"lo", "::1", 128, true, true},           {"eth0", "fe80::1", 64, true, false},
    {"ib0", "fd00:5::7", 64, true, false},    {"br-0a1b", "172.18.0.1", 16, true, false},
};

std::string chosen(const Variables& variables, const Routes& routes = {},
                   const std::vector<InterfaceAddress>& host = kHost) {
  const auto get = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto route = [&](const std::string& ip) {
    const auto found = routes.find(ip);
    return found == routes.end() ? std::string() : found->second;
  };
  return choose_address(host, get, route);
}

}  // namespace

TEST_CASE("without a hint the first interface that others could reach is taken", "[peers]") {
  CHECK(chosen({}) == "10.1.0.7");
  CHECK(chosen({}, {}, {{"lo", "127.0.0.1", 8, true, true}, {"eth0", "fe80::1", 64}, {"eth0", "2001:db8::7", 64}}) ==
        "2001:db8::7");
  CHECK(chosen({}, {}, {{"eth0", "2001:db8::7", 64}, {"eth1", "10.0.0.1", 8}}) == "10.0.0.1");
  // Better a bridge than nothing: a container sees its own end under any name.
  CHECK(chosen({}, {}, {{"lo", "127.0.0.1", 8, true, true}, {"veth7", "10.0.3.2", 24}}) == "10.0.3.2");
  CHECK_THROWS_AS(chosen({}, {}, {{"lo", "127.0.0.1", 8, true, true}, {"eth0", "fe80::1", 64}}), Error);
  CHECK_THROWS_AS(chosen({}, {}, {}), Error);
}

TEST_CASE("an interface named to the library is taken", "[peers]") {
  struct Case {
    const char* variable;
    const char* value;
    const char* ip;
  };
  const Case cases[] = {
      {"OMPI_MCA_btl_tcp_if_include", "ib0", "192.168.5.7"},
      {"OMPI_MCA_btl_tcp_if_include", "ib9,ib0", "192.168.5.7"},
      {"OMPI_MCA_btl_tcp_if_include", "192.168.0.0/16", "192.168.5.7"},
      {"OMPI_MCA_btl_tcp_if_include", "10.0.0.0/8,192.168.0.0/16", "10.1.0.7"},
      {"OMPI_MCA_btl_tcp_if_include", "fd00:5::/32", "fd00:5::7"},
      {"OMPI_MCA_btl_tcp_if_include", "docker0", "172.17.0.1"},
      {"OMPI_MCA_oob_tcp_if_include", "ib0", "192.168.5.7"},
      {"PRTE_MCA_prte_if_include", "ib0", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "ib", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "=ib0", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "ib0:1234", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "xyz,ib", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "^eth", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "^=eth0,eth1", "192.168.5.7"},
      {"NCCL_SOCKET_IFNAME", "^=eth", "10.1.0.7"},
      {"NCCL_SOCKET_IFNAME", "", "10.1.0.7"},
  };
  for (const Case& c : cases) {
    INFO(c.variable << "=" << c.value);
    CHECK(chosen({{c.variable, c.value}}) == c.ip);
  }
  CHECK(chosen({{"OMPI_MCA_btl_tcp_if_include", "ib0"}, {"NCCL_SOCKET_IFNAME", "eth0"}}) == "192.168.5.7");
}

TEST_CASE("an interface that does not exist is an error that names those there are", "[peers]") {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  for (const auto& [variable, value] : Pairs{{"OMPI_MCA_btl_tcp_if_include", "eth"},
                                             {"OMPI_MCA_btl_tcp_if_include", "eth1"},
                                             {"OMPI_MCA_oob_tcp_if_include", "11.0.0.0/8"},
                                             {"OMPI_MCA_oob_tcp_if_include", "10.0.0.0/99"},
                                             {"NCCL_SOCKET_IFNAME", "=eth"},
                                             {"PRTE_MCA_prte_if_include", ","},
                                             {"NCCL_SOCKET_IFNAME", "^eth,ib"}}) {
    INFO(variable << "=" << value);
    CHECK_THROWS_WITH(chosen({{variable, value}}), Catch::Contains(variable + "=" + value) &&
                                                       Catch::Contains("eth0 (10.1.0.7/16)") &&
                                                       Catch::Contains("eth1 (10.2.0.7/16, down)"));
  }
}

TEST_CASE("the way to the launcher's daemon is taken", "[peers]") {
  // As Debian's Open MPI 4.1.4 gives it to its ranks.
  const std::string uri = "165019648.0;tcp://172.17.0.1,10.9.0.1,192.168.5.1:46433;tcp6://[fd00:5::1]:48325";
  const Routes routes{{"172.17.0.1", "172.17.0.1"},  // every host has that one itself
                      {"10.9.0.1", "10.1.0.7"},      // behind a gateway
                      {"192.168.5.1", "192.168.5.7"},
                      {"fd00:5::1", "fd00:5::7"}};
  CHECK(chosen({{"OMPI_MCA_orte_hnp_uri", uri}}, routes) == "192.168.5.7");
  CHECK(chosen({{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.9.0.1:1"}}, routes) == "10.1.0.7");
  CHECK(chosen({{"OMPI_MCA_orte_hnp_uri", "1.0;tcp6://[fd00:5::1]:1"}}, routes) == "fd00:5::7");
  CHECK(chosen({{"PMIX_SERVER_URI41", "prte-a-1@0.0;tcp4://127.0.0.1:1"}, {"SLURM_LAUNCH_NODE_IPADDR", "192.168.5.1"}},
               routes) == "192.168.5.7");
  CHECK(chosen({{"SLURM_LAUNCH_NODE_IPADDR", "192.168.5.1"}}, routes) == "192.168.5.7");
  // No way there, or a name where figures were expected: as if nothing were known.
  CHECK(chosen({{"SLURM_LAUNCH_NODE_IPADDR", "203.0.113.1"}}, routes) == "10.1.0.7");
  CHECK(chosen({{"SLURM_SRUN_COMM_HOST", "login1"}}, routes) == "10.1.0.7");
  // The user's word comes first.
  CHECK(chosen({{"OMPI_MCA_orte_hnp_uri", uri}, {"NCCL_SOCKET_IFNAME", "eth0"}}, routes) == "10.1.0.7");
}

TEST_CASE("a daemon's URI is taken apart", "[peers]") {
  using List = std::vector<std::string>;
  CHECK(uri_addresses("165019648.0;tcp://192.0.2.2:46433;tcp6://[fd00::2]:48325") == List{"192.0.2.2", "fd00::2"});
  CHECK(uri_addresses("1.0;tcp://10.0.0.1,10.1.0.1:46433") == List{"10.0.0.1", "10.1.0.1"});
  CHECK(uri_addresses("1.0;tcp6://[fd00::1,fd01::1]:7;tcp6://[fd02::1],[fd03::1]:8") ==
        List{"fd00::1", "fd01::1", "fd02::1", "fd03::1"});
  CHECK(uri_addresses("a@1;tcp4://127.0.0.1:50621") == List{"127.0.0.1"});
  for (const char* nothing : {"", ";", "tcp://", "tcp://:1", "1.0;usock", "tcp://name:1", "://10.0.0.1:1", "tcp://["}) {
    CHECK(uri_addresses(nothing).empty());
  }
}

TEST_CASE("this host's own interfaces are found", "[peers]") {
  const auto get = [](const char*) -> const char* { return nullptr; };
  CHECK(job_interface_address(true, get) == "127.0.0.1");
  bool loopback = false;
  for (const InterfaceAddress& a : interface_addresses()) {
    if (a.ip != "127.0.0.1") continue;
    loopback = a.loopback && a.up && a.prefix_bits == 8;
  }
  CHECK(loopback);
  CHECK(interface_of("127.0.0.1") == "lo");
  CHECK(interface_of("192.0.2.77").empty());
  CHECK(interface_mtu("lo") >= 1500);
  CHECK(interface_mtu("no-such-thing") == 0);
  CHECK(route_source("127.0.0.1") == "127.0.0.1");
  CHECK(route_source("no address").empty());
}

TEST_CASE("tokens are 32 hexadecimal characters that do not repeat", "[peers]") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string token = random_id();
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    seen.insert(token);
  }
  CHECK(seen.size() == 100);
}
