// What this would catch: a port for NCCL's RAS that is free on the first host alone. Elsewhere nobody could ask RAS, or
// it would be another job's that answers.

#include "backend_fixture.h"
#include "common/backends/nccl/device_kernels.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::test;

TEST_CASE("A port is taken that is free on every host, if three tries find one", "[nccl][seven]") {
  const Comm comm = world();
  const Comm host = comm.split(comm.rank());  // every rank is one
  const int busy = GENERATE(0, 1, 2, 9);      // so many ports are another's on the last host
  int tries = 0;
  const int port = port_free_on_all_hosts(comm, host, [&](int wanted) {
    if (wanted == 0) return 5000 + tries++;
    return comm.rank() == comm.size() - 1 && wanted < 5000 + busy ? 0 : wanted;
  });
  CHECK(port == (comm.size() == 1 ? 5000 : 5000 + std::min(busy, 2)));
}
