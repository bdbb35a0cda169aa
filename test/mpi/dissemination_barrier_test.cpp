// Would catch: a barrier that lets a process through before all have come, as wrong neighbours or too few rounds do
// where the number of processes is not a power of two. Every isolated sample would then contain the wait for the
// others.

#include "backend_fixture.h"
#include "common/base/random_source.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

using namespace busbar;
using namespace busbar::test;

namespace {

/// A counter in memory that all processes (of this one host) see.
class SharedCounter {
 public:
  explicit SharedCounter(const Comm& comm) {
    const std::string file = comm.broadcast("/busbar_barrier_test." + random_id(), 0);
    const int fd = shm_open(file.c_str(), O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *value_) != 0) throw std::runtime_error("no shared memory: " + file);
    value_ = static_cast<std::atomic<std::int64_t>*>(
        mmap(nullptr, sizeof *value_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));  // zero is its first state
    close(fd);
    comm.barrier();
    if (comm.rank() == 0) shm_unlink(file.c_str());
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { munmap(value_, sizeof *value_); }

  std::atomic<std::int64_t>& value() const { return *value_; }

 private:
  std::atomic<std::int64_t>* value_ = nullptr;
};

/// Work of no fixed length, so that the processes come in every order.
void dawdle(std::mt19937& random) {
  volatile unsigned sink = 0;
  for (unsigned i = random() % 2000; i > 0; --i) sink = sink + i;
}

}  // namespace

TEST_CASE("Nobody leaves the barrier before all have entered", "[dissemination_barrier][seven]") {
  const Comm comm = world();
  const SharedCounter entered(comm);
  const auto barrier = comm.small_barrier();
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  int early = 0;
  int wrong_phase = 0;
  for (std::int64_t phase = 1; phase <= 500; ++phase) {
    dawdle(random);
    entered.value().fetch_add(1);
    barrier->wait();
    if (entered.value().load() < phase * comm.size()) ++early;
    barrier->wait();
    // Nobody is in the next phase yet when the first comes out of the second barrier, but may be right after it: at
    // most all others.
    if (entered.value().load() > (phase + 1) * comm.size() - 1) ++wrong_phase;
  }
  CHECK(early == 0);
  CHECK(wrong_phase == 0);
}

TEST_CASE("Two barriers over the same processes do not take each other's messages", "[dissemination_barrier]") {
  const Comm comm = world();
  const SharedCounter entered(comm);
  const auto first = comm.small_barrier();
  const auto second = comm.small_barrier();
  int early = 0;
  for (std::int64_t phase = 1; phase <= 100; ++phase) {
    entered.value().fetch_add(1);
    (phase % 2 == 0 ? first : second)->wait();
    if (entered.value().load() < phase * comm.size()) ++early;
    first->wait();
  }
  CHECK(early == 0);
}
