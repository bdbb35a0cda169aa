#include "cuda_runtime.h"

#include <ucontext.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 64 << 10;

enum class State { ready, at_block_barrier, at_warp_barrier, done };

struct Fiber {
  ucontext_t context;
  State state = State::done;
  std::uint64_t slot = 0;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
};

/// The block that is running.
struct Scheduler {
  std::vector<Fiber> fibers;
  ucontext_t main;
  const std::function<void()>* body = nullptr;
  const char* error = nullptr;
  std::mt19937 random{1};

  Fiber& current() { return fibers[threadIdx.x]; }

  void leave(State state) {
    current().state = state;
    swapcontext(&current().context, &main);
  }
};

Scheduler& scheduler() {
  static Scheduler s;
  return s;
}

void run_thread() {
  for (;;) {  // a fiber is made once and used for thread after thread
    (*scheduler().body)();
    scheduler().leave(State::done);
  }
}

void make_context(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_thread, 0);
}

/// Fibers that wait where nobody will come belong to a launch that failed, and are forgotten with it.
void make_fibers(unsigned nthreads) {
  Scheduler& s = scheduler();
  if (s.error != nullptr) s.fibers.clear();
  s.error = nullptr;
  if (s.fibers.size() >= nthreads) return;
  s.fibers.resize(nthreads);
  for (Fiber& f : s.fibers) make_context(f);  // again where it has moved: a context must not
}

/// Lets on whoever waits where all have come; whether there was one.
bool open_barriers(unsigned nthreads) {
  Scheduler& s = scheduler();
  const auto all_at = [&](State state, unsigned from, unsigned to) {
    return std::all_of(&s.fibers[from], &s.fibers[from] + (to - from),
                       [&](const Fiber& f) { return f.state == state; });
  };
  bool opened = false;
  const auto open = [&](State state, unsigned from, unsigned to) {
    if (!all_at(state, from, to)) return;
    for (unsigned i = from; i < to; ++i) s.fibers[i].state = State::ready;
    opened = true;
  };
  open(State::at_block_barrier, 0, nthreads);
  for (unsigned i = 0; i < nthreads; i += kWarp) open(State::at_warp_barrier, i, std::min(i + kWarp, nthreads));
  return opened;
}

void run_block(unsigned nthreads) {
  Scheduler& s = scheduler();
  std::vector<unsigned> order(nthreads);
  std::iota(order.begin(), order.end(), 0u);
  if (simt::machine().order == simt::Order::falling) std::reverse(order.begin(), order.end());
  for (unsigned i = 0; i < nthreads; ++i) s.fibers[i].state = State::ready;
  do {
    if (simt::machine().order == simt::Order::shuffled) std::shuffle(order.begin(), order.end(), s.random);
    for (const unsigned i : order) {
      if (s.fibers[i].state != State::ready) continue;
      threadIdx = {i, 0, 0};
      swapcontext(&s.main, &s.fibers[i].context);
      if (s.error != nullptr) return;
    }
  } while (open_barriers(nthreads));
  for (unsigned i = 0; i < nthreads; ++i) {
    if (s.fibers[i].state != State::done) s.error = "a barrier that some threads never reached";
  }
}

}  // namespace

namespace simt {

Machine& machine() {
  static Machine m;
  return m;
}

cudaError_t launch(dim3 grid, dim3 block, const std::function<void()>& body) {
  const bool fits = grid.x > 0 && grid.x < 1u << 31 && grid.y > 0 && grid.y < 1u << 16 && grid.z == 1 && block.x > 0 &&
                    block.x <= 1024 && block.y == 1 && block.z == 1;
  if (!fits) return cudaErrorInvalidConfiguration;
  Scheduler& s = scheduler();
  make_fibers(block.x);
  s.body = &body;
  gridDim = grid;
  blockDim = block;
  std::vector<uint3> blocks;
  if (machine().chosen) {
    blocks = machine().chosen(grid);
  } else {
    for (unsigned i = 0; i < grid.x * grid.y; ++i) blocks.push_back({i % grid.x, i / grid.x, 0});
  }
  for (const uint3 at : blocks) {
    blockIdx = at;
    if (s.error == nullptr) run_block(block.x);
  }
  if (s.error == nullptr) return cudaSuccess;
  std::fprintf(stderr, "simt: block %u %u, thread %u: %s\n", blockIdx.x, blockIdx.y, threadIdx.x, s.error);
  return cudaErrorLaunchFailure;
}

void wait_for_block() { scheduler().leave(State::at_block_barrier); }
void wait_for_warp() { scheduler().leave(State::at_warp_barrier); }
std::uint64_t& slot(unsigned thread) { return scheduler().fibers[thread].slot; }

void fail(const char* why) {
  scheduler().error = why;
  for (;;) scheduler().leave(State::done);
}

}  // namespace simt
