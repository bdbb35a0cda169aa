// What a rank that only calls MPI needs: the measure for the suite's own memory (memory_bench.py) and time
// (loop_bench.py), so nothing of the suite is in here. `bare_collective_bench all_reduce|all_gather BYTES` under
// mpirun: two buffers, both placements, 21 calls. `bare_collective_bench loop CALLS`: rank 0 prints what one of so many
// all_reduces of 8 bytes took, back to back, the mean over the ranks [us]; and again after one message more. (Open
// MPI's ranks of a host write messages of 32 bytes into a ring, two to a cache line, and it matters whether two ranks
// fill their lines in step: that is decided by what was sent before.)

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace {

void call(bool gather, void* send, void* recv, int count, int rank, int nranks, bool in_place) {
  if (gather) {
    const int block = count / nranks;
    const void* from = in_place ? MPI_IN_PLACE : static_cast<float*>(send) + rank * block;
    MPI_Allgather(from, block, MPI_FLOAT, recv, block, MPI_FLOAT, MPI_COMM_WORLD);
  } else {
    MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

/// Two numbers: the second after one message more from rank 0.
std::pair<double, double> loop(int calls) {
  constexpr int kWarmUp = 1000;
  void* send = std::aligned_alloc(4096, 4096);
  void* recv = std::aligned_alloc(4096, 4096);
  std::memset(send, 0, 4096);
  std::memset(recv, 0, 4096);
  for (int i = 0; i < kWarmUp; ++i) MPI_Allreduce(send, recv, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const auto time_us = [&] {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin_s = MPI_Wtime();
    for (int i = 0; i < calls; ++i) MPI_Allreduce(send, recv, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return 1e6 * (MPI_Wtime() - begin_s) / calls;
  };
  double mine_us[2] = {time_us(), 0};
  MPI_Bcast(send, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
  mine_us[1] = time_us();
  std::free(send);
  std::free(recv);
  double sum_us[2] = {0, 0};
  int nranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  MPI_Reduce(mine_us, sum_us, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return {sum_us[0] / nranks, sum_us[1] / nranks};
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) {
    std::fputs("usage: bare_collective_bench all_reduce|all_gather BYTES, or loop CALLS\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  int nranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  if (std::string_view(argv[1]) == "loop") {
    const auto [first_us, second_us] = loop(std::atoi(argv[2]));
    if (rank == 0) std::printf("%.6f %.6f\n", first_us, second_us);
    MPI_Finalize();
    return 0;
  }
  const bool gather = std::string_view(argv[1]) == "all_gather";
  const std::size_t nbytes = std::strtoull(argv[2], nullptr, 10);

  void* send = std::aligned_alloc(4096, nbytes);
  void* recv = std::aligned_alloc(4096, nbytes);
  std::memset(send, 0, nbytes);
  std::memset(recv, 0, nbytes);
  for (const bool in_place : {false, true}) {
    for (int i = 0; i < 21; ++i)
      call(gather, send, recv, static_cast<int>(nbytes / sizeof(float)), rank, nranks, in_place);
  }
  std::free(send);
  std::free(recv);
  MPI_Finalize();
  return 0;
}
