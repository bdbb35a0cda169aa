#include "cuda_runtime.h"

#include <ucontext.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 64 << 10;
/// A thread that comes late gets one turn where the others get so many.
constexpr unsigned kLate = 50;
/// Turns of all threads without any that does more than look again for what it waits for.
constexpr unsigned kVain = 2000;

enum class State { ready, looking, at_block_barrier, at_warp_barrier, done };

/// A block under way: its threads are fibers from `first` on.
struct Block {
  const simt::Kernel* kernel = nullptr;
  uint3 at{};
  unsigned first = 0;
  int gpu = 0;

  unsigned size() const { return kernel->block.x; }
};

struct Fiber {
  ucontext_t context;
  State state = State::done;
  std::uint64_t slot = 0;
  const Block* block = nullptr;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
};

struct Scheduler {
  std::deque<Fiber> fibers;  ///< a context must not move
  unsigned running = 0;      ///< the fiber whose turn it is
  ucontext_t main;
  const char* error = nullptr;
  std::mt19937 random{1};

  void leave(State state) {
    Fiber& fiber = fibers[running];
    fiber.state = state;
    swapcontext(&fiber.context, &main);
  }
};

Scheduler& scheduler() {
  static Scheduler s;
  return s;
}

void run_thread() {
  for (;;) {  // a fiber is made once and used for thread after thread
    Scheduler& s = scheduler();
    s.fibers[s.running].block->kernel->body();
    scheduler().leave(State::done);
  }
}

/// Fibers that wait where nobody will come belong to a launch that failed, and are forgotten with it.
void begin_launch() {
  Scheduler& s = scheduler();
  if (s.error != nullptr) s.fibers.clear();
  s.error = nullptr;
}

void begin_block(const Block& block) {
  Scheduler& s = scheduler();
  while (s.fibers.size() < block.first + block.size()) {
    Fiber& fiber = s.fibers.emplace_back();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_thread, 0);
  }
  for (unsigned i = 0; i < block.size(); ++i) {
    s.fibers[block.first + i].state = State::ready;
    s.fibers[block.first + i].block = &block;
  }
}

bool all_are(State state, unsigned from, unsigned to) {
  for (unsigned i = from; i < to; ++i) {
    if (scheduler().fibers[i].state != state) return false;
  }
  return true;
}

/// Lets on whoever of a block waits where all have come; whether there was one.
bool open_barriers(const Block& block) {
  bool opened = false;
  const auto open = [&](State state, unsigned from, unsigned to) {
    if (!all_are(state, from, to)) return;
    for (unsigned i = from; i < to; ++i) scheduler().fibers[i].state = State::ready;
    opened = true;
  };
  const unsigned end = block.first + block.size();
  open(State::at_block_barrier, block.first, end);
  for (unsigned i = block.first; i < end; i += kWarp) open(State::at_warp_barrier, i, std::min(i + kWarp, end));
  return opened;
}

bool is_done(const Block& block) { return all_are(State::done, block.first, block.first + block.size()); }

/// Gives each fiber in `order` that can go on its turn. Whether one was given, and one that did more than look.
struct Turns {
  bool any = false;
  bool useful = false;
};
Turns give_turns(const std::vector<unsigned>& order, bool with_late, int late) {
  Scheduler& s = scheduler();
  Turns turns;
  for (const unsigned i : order) {
    Fiber& fiber = s.fibers[i];
    if (fiber.state != State::ready && fiber.state != State::looking) continue;
    const Block& block = *fiber.block;
    if (block.gpu == late && !with_late) continue;
    const State before = fiber.state;
    s.running = i;
    threadIdx = {i - block.first, 0, 0};
    blockIdx = block.at;
    blockDim = block.kernel->block;
    gridDim = block.kernel->grid;
    swapcontext(&s.main, &fiber.context);
    if (s.error != nullptr) return turns;
    turns.any = true;
    turns.useful |= before != State::looking || fiber.state != State::looking;
  }
  return turns;
}

std::vector<unsigned> in_order(unsigned nfibers) {
  std::vector<unsigned> order(nfibers);
  std::iota(order.begin(), order.end(), 0u);
  if (simt::machine().order == simt::Order::falling) std::reverse(order.begin(), order.end());
  return order;
}

/// Runs a block to its end.
void run_block(const Block& block) {
  begin_block(block);
  std::vector<unsigned> order = in_order(block.size());
  do {
    if (simt::machine().order == simt::Order::shuffled) std::shuffle(order.begin(), order.end(), scheduler().random);
    give_turns(order, true, -1);
    if (scheduler().error != nullptr) return;
  } while (open_barriers(block));
  if (!is_done(block)) scheduler().error = "a barrier that some threads never reached";
}

bool fits(dim3 grid, dim3 block) {
  return grid.x > 0 && grid.x < 1u << 31 && grid.y > 0 && grid.y < 1u << 16 && grid.z == 1 && block.x > 0 &&
         block.x <= 1024 && block.y == 1 && block.z == 1;
}

cudaError_t result() {
  const char* const error = scheduler().error;
  if (error == nullptr) return cudaSuccess;
  std::fprintf(stderr, "simt: block %u %u, thread %u: %s\n", blockIdx.x, blockIdx.y, threadIdx.x, error);
  return cudaErrorLaunchFailure;
}

/// Streams of several GPUs under way.
class Streams {
 public:
  Streams(const std::vector<std::vector<simt::Kernel>>& streams, int late)
      : streams_(streams), next_(streams.size()), late_(late) {}

  void run() {
    Scheduler& s = scheduler();
    unsigned vain = 0;
    for (unsigned pass = 1; begin_kernels(); ++pass) {
      if (simt::machine().order == simt::Order::shuffled) std::shuffle(order_.begin(), order_.end(), s.random);
      const Turns turns = give_turns(order_, pass % kLate == 0, late_);
      if (s.error != nullptr) return;
      bool useful = turns.useful;
      for (const Block& block : blocks_) useful |= open_barriers(block);
      vain = useful ? 0 : vain + 1;
      if (vain > kVain) s.error = "threads that wait for what never comes";
      if (s.error != nullptr) return;
    }
  }

 private:
  /// The next kernel of every stream whose last one is over; whether anything is under way.
  bool begin_kernels() {
    bool under_way = false;
    for (std::size_t gpu = 0; gpu < streams_.size(); ++gpu) {
      const auto is_running = [&](const Block& b) { return b.gpu == static_cast<int>(gpu) && !is_done(b); };
      if (std::any_of(blocks_.begin(), blocks_.end(), is_running)) {
        under_way = true;
      } else if (next_[gpu] < streams_[gpu].size()) {
        begin(streams_[gpu][next_[gpu]++], static_cast<int>(gpu));
        under_way = true;
      }
    }
    return under_way;
  }

  void begin(const simt::Kernel& kernel, int gpu) {
    for (unsigned x = 0; x < kernel.grid.x; ++x) {
      const Block block{&kernel, {x, 0, 0}, nfibers_, gpu};
      nfibers_ += block.size();
      begin_block(blocks_.emplace_back(block));
    }
    order_ = in_order(nfibers_);
  }

  const std::vector<std::vector<simt::Kernel>>& streams_;
  std::vector<std::size_t> next_;
  std::deque<Block> blocks_;  ///< fibers point to them
  std::vector<unsigned> order_;
  unsigned nfibers_ = 0;
  int late_;
};

}  // namespace

namespace simt {

Machine& machine() {
  static Machine m;
  return m;
}

cudaError_t launch(dim3 grid, dim3 block, const std::function<void()>& body) {
  if (!fits(grid, block)) return cudaErrorInvalidConfiguration;
  begin_launch();
  std::vector<uint3> blocks;
  if (machine().chosen) {
    blocks = machine().chosen(grid);
  } else {
    for (unsigned i = 0; i < grid.x * grid.y; ++i) blocks.push_back({i % grid.x, i / grid.x, 0});
  }
  const Kernel kernel{grid, block, body};
  for (const uint3 at : blocks) {
    if (scheduler().error == nullptr) run_block({&kernel, at, 0, 0});
  }
  return result();
}

cudaError_t run_streams(const std::vector<std::vector<Kernel>>& streams, int late) {
  for (const std::vector<Kernel>& stream : streams) {
    for (const Kernel& kernel : stream) {
      if (!fits(kernel.grid, kernel.block) || kernel.grid.y != 1) return cudaErrorInvalidConfiguration;
    }
  }
  begin_launch();
  Streams(streams, late).run();
  return result();
}

void wait_for_block() { scheduler().leave(State::at_block_barrier); }
void wait_for_warp() { scheduler().leave(State::at_warp_barrier); }
void look_again() { scheduler().leave(State::looking); }

std::uint64_t& slot(unsigned thread) {
  Scheduler& s = scheduler();
  return s.fibers[s.fibers[s.running].block->first + thread].slot;
}

void fail(const char* why) {
  scheduler().error = why;
  for (;;) scheduler().leave(State::done);
}

}  // namespace simt
