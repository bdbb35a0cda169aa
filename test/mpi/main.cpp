// The runner of the MPI tests: every rank runs the same tests, and the job fails if a test fails on any rank.
#include "backend_fixture.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/processes/launcher.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"
#include "run_catch.h"

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <streambuf>
#include <string>

namespace {

// Passes on whole lines, each with its rank in front and at once: reports of several ranks can then be told apart, and
// what a rank said before it hung or died is not lost.
class RankPrefix : public std::streambuf {
 public:
  explicit RankPrefix(int rank) : prefix_("[" + std::to_string(rank) + "] "), line_(prefix_) {}

 protected:
  int_type overflow(int_type c) override {
    if (c == traits_type::eof()) {
      return traits_type::not_eof(c);
    }
    line_ += traits_type::to_char_type(c);
    if (c == '\n') {
      std::fwrite(line_.data(), 1, line_.size(), stdout);
      std::fflush(stdout);
      line_ = prefix_;
    }
    return c;
  }

 private:
  std::string prefix_;
  std::string line_;
};

}  // namespace

namespace {

int run_prefixed(int rank, int argc, char** argv) {
  RankPrefix prefix(rank);
  std::streambuf* const plain = std::cout.rdbuf(&prefix);
  const int failed = run_catch(argc, argv) != 0 ? 1 : 0;
  std::cout.rdbuf(plain);
  return failed;
}

/// Started with RANK and WORLD_SIZE: everything but what needs MPI's own functions.
int run_over_sockets(const busbar::Launch& launch, int argc, char** argv) {
  busbar::Session session({launch, "test_mpi", "", 120}, {});
  const busbar::Comm& world = session.world();
  busbar::test::socket_world = &world;
  return static_cast<int>(world.max(std::int64_t{run_prefixed(world.rank(), argc, argv)}));
}

}  // namespace

int main(int argc, char** argv) {
  const busbar::Launch launch = busbar::detect_launch();
  if (launch.carrier == busbar::Carrier::sockets) return run_over_sockets(launch, argc, argv);
  busbar::prepare_ompi_variation();
  (void)busbar::repair_reduce(busbar::mpi_library_version());
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int failed = run_prefixed(rank, argc, argv);
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
