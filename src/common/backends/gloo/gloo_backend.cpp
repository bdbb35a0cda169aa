#include "common/backends/gloo/gloo_backend.h"

#include "common/backends/host_memory_backend.h"
#include "common/base/error.h"
#include "common/machine/job_interface.h"
#include "common/machine/resources.h"
#include "common/processes/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <utility>

namespace busbar {
namespace {

/// The most bytes that Gloo's reduce_scatter can count, in an int.
constexpr std::size_t kMostToReduceScatter = INT_MAX;

/// The most copies of a message that Gloo allocates for a collective.
double copies_of(CollectiveId id) {
  if (id == CollectiveId::reduce_scatter) return 3;  // ours, and two of each ReduceScatterHalvingDoubling
  return id == CollectiveId::all_reduce ? 1 : 0;     // bcube's
}

/// Why no function of Gloo's is the collective; null if one is, or if it is built from sends and receives.
std::optional<std::string> why_lacking(const Collective& c) {
  if (c.block == nullptr || (!c.has_op && !c.has_root)) return std::nullopt;
  if (!c.has_op) return fmt::format("Gloo 0.5.0 has no {}", c.name);
  // It sends an empty block that no receiver expects, and waits for the answer (gloo/reduce_scatter.h).
  return "Gloo's reduce_scatter hangs if a rank's block is empty, so blocks of different sizes are not measured";
}

/// Buffers that get a ReduceScatterHalvingDoubling each; if a row walks through more, none does. Each takes 4 n (n-1)
/// of Gloo's slots, which are counted in an int.
std::size_t most_bound(int nranks) {
  constexpr std::size_t kMost = 1024;
  const auto n = static_cast<std::size_t>(nranks);
  return n == 1 ? kMost : std::min(kMost, INT_MAX / (4 * n * (n - 1)) - 1);
}

/// What creates this rank's contexts.
struct GlooOpener {
  const GlooModule& gloo;
  GlooPlace place;  ///< without the address
  std::string ip;
  Comm comm;  ///< its own: the ranks exchange addresses over it

  std::unique_ptr<GlooContext> open() const {
    try {
      GlooPlace here = place;
      here.ip = ip.c_str();
      return gloo.open(here);
    } catch (const std::exception& e) {
      throw_not_possible(
          fmt::format("Gloo cannot listen on {}: {}; name another interface "
                      "(OMPI_MCA_btl_tcp_if_include or NCCL_SOCKET_IFNAME)",
                      ip, e.what()));
    }
  }

  /// Sends each rank the address at which this one listens for it. Collective.
  void connect_all(GlooContext& context) const {
    const std::vector<std::byte> for_me = comm.all_to_all(context.addresses());
    try {
      context.connect(for_me);
    } catch (const std::exception& e) {
      throw Error(ExitCode::backend, fmt::format("Gloo cannot connect to its peers: {}", e.what()));
    }
  }
};

class GlooBackend final : public HostMemoryBackend {
 public:
  GlooBackend(int ranks_on_host, GlooOpener opener, std::unique_ptr<GlooContext> context, Clock::duration took,
              std::int64_t resident_before)
      : HostMemoryBackend(opener.comm, ranks_on_host), opener_(std::move(opener)), context_(std::move(context)) {
    created(took, resident_before);
  }
  GlooBackend(const GlooBackend&) = delete;
  GlooBackend& operator=(const GlooBackend&) = delete;
  ~GlooBackend() override {
    // When this rank closes, a peer inside a call fails with "Connection closed by peer". If an exception unwinds,
    // ranks do not meet here, and the end of the process closes.
    if (std::uncaught_exceptions() == 0) {
      opener_.comm.barrier();
      context_.reset();
    }
    static_cast<void>(context_.release());
  }

  const BackendTraits& traits() const override { return kGlooTraits; }
  std::string library_version() const override { return fmt::format("Gloo {}", opener_.gloo.version); }

  std::optional<std::string> why_unsupported(const Operation& op) const override {
    if (op.op && gloo_reduction(op.dtype, *op.op).reduce == nullptr)
      return fmt::format("Gloo has no {} operation", *op.op == Op::avg ? "average" : "pre-multiplied sum");
    if (auto why = why_lacking(*op.collective)) return why;
    // Gloo reads the buffer while it writes to it.
    if (op.in_place && op.collective->replaces_input)
      return fmt::format("Gloo has no {} in place", op.collective->name);
    if (op.collective->id != CollectiveId::reduce_scatter) return std::nullopt;
    // A rank in a smaller block of ranks does not wait until the larger block has read what it sent, and its next call
    // overwrites it (gloo/reduce_scatter.h).
    if (!std::has_single_bit(static_cast<unsigned>(op.problem.nranks))) {
      return fmt::format("Gloo's reduce_scatter mixes up successive calls on {} ranks: it needs a power of 2",
                         op.problem.nranks);
    }
    if (message_bytes(*op.collective, op.problem) > kMostToReduceScatter)
      return fmt::format("Gloo's reduce_scatter counts bytes in an int: at most {}", kMostToReduceScatter);
    return std::nullopt;
  }

  std::optional<std::string> note(const Operation& op) const override {
    if (op.collective->id != CollectiveId::reduce_scatter) return std::nullopt;
    return "out of place, the time includes a copy of the message: Gloo's overwrites its input";
  }

  std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& /*world*/) override {
    return std::make_unique<Lifecycle>(*this);
  }

  MemoryLimit memory_limit(const Collective& c) const override {
    MemoryLimit limit = limit_with(copies_of(c.id), "Gloo");
    if (c.id == CollectiveId::reduce_scatter && limit.bytes_per_rank > 2 * kMostToReduceScatter)
      return {2 * kMostToReduceScatter, "Gloo's reduce_scatter counts bytes in an int"};
    return limit;
  }

  void release(int local, void* memory) noexcept override {
    forget_buffers();
    HostMemoryBackend::release(local, memory);
  }
  void give_back(int /*local*/, void* /*memory*/) noexcept override { forget_buffers(); }

  /// Fills all buffers of a row in one piece, before they are timed in place.
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override {
    HostMemoryBackend::fill_neutral(local, pattern, count, dst);
    filled_ = {dst, count};
    if (filled_ != bound_) called_ = {};
  }

  void group_begin(int) override {}  // Gloo's calls have ended when they return: one after another
  void group_end(int) override {}

  void enqueue(int, const Operation& op, std::span<const Buffers> buffers) override {
    try {
      if (op != called_) [[unlikely]]
        prepare(op);
      // Nothing to move; Gloo's all_gather divides by its size.
      if (empty_) [[unlikely]]
        return;
      context_->run(buffers[0].send, buffers[0].recv);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      throw Error(ExitCode::backend, fmt::format("Gloo's {} failed: {}", op.collective->name, e.what()));
    }
  }

  ShownAlgorithm observe_end(const Operation& op) override {
    ShownAlgorithm shown;
    shown.algorithm = shown_gloo_algorithm(*op.collective, opener_.place.all_reduce);
    return shown;
  }

 private:
  class Lifecycle final : public CommunicatorLifecycle {
   public:
    explicit Lifecycle(GlooBackend& backend) : backend_(backend) {}

    std::optional<std::string> why_not(LifecycleStep step) const override {
      const bool has = step == LifecycleStep::create || is_operation(step) || step == LifecycleStep::free;
      return has ? std::nullopt : std::optional<std::string>("Gloo's contexts are made and closed, nothing else");
    }

    void take(LifecycleStep step) override {
      if (step == LifecycleStep::create) {
        own_ = std::exchange(backend_.context_, backend_.opener_.open());
        backend_.called_ = {};
        backend_.opener_.connect_all(*backend_.context_);
      }
      if (step == LifecycleStep::free) {
        backend_.context_ = std::move(own_);
        backend_.called_ = {};
      }
    }

   private:
    GlooBackend& backend_;
    std::unique_ptr<GlooContext> own_;
  };

  /// The elements that an in-place row uses in turn.
  struct Filled {
    void* first = nullptr;
    std::size_t count = 0;
    bool operator==(const Filled&) const = default;
  };

  /// Memory may return at an old address on some ranks only.
  void forget_buffers() noexcept {
    filled_ = {};
    called_ = {};
  }

  /// Does all of a call that does not depend on its buffers, once per row, as the MPI backend does; here collective.
  [[gnu::noinline]] void prepare(const Operation& op) {
    if (const auto why = why_unsupported(op)) throw_not_possible(*why);
    const Problem& p = op.problem;
    called_ = op;
    empty_ = op.collective->moves_data && message_bytes(*op.collective, p) == 0;
    if (empty_) return;
    GlooCall call{.collective = op.collective->id,
                  .count = p.count,
                  .elem_size = p.elem_size,
                  .root = p.root,
                  .in_place = op.in_place,
                  .reduction = op.op ? gloo_reduction(op.dtype, *op.op) : GlooReduction{},
                  .send_nbytes = {},
                  .recv_nbytes = {},
                  .block_nbytes = {}};
    if (call.collective == CollectiveId::pingpong) {
      call.pattern = p.traffic->pattern;
      call.window = p.traffic->window;
      call.peer = pingpong_peer(p, rank());
    }
    for (int peer = 0; uses_traffic(*op.collective) && peer < p.nranks; ++peer) {
      if (op.collective->block != nullptr) {
        call.block_nbytes.push_back(op.collective->block(p, peer) * p.elem_size);
        continue;
      }
      call.send_nbytes.push_back(static_cast<std::int64_t>(alltoallv_count(p, rank(), peer) * p.elem_size));
      call.recv_nbytes.push_back(static_cast<std::int64_t>(alltoallv_count(p, peer, rank()) * p.elem_size));
    }
    context_->prepare(call, buffers_to_bind(op));
  }

  std::vector<void*> buffers_to_bind(const Operation& op) {
    bound_ = {};
    if (!op.in_place || op.collective->id != CollectiveId::reduce_scatter) return {};
    bound_ = filled_;
    const std::size_t nbytes = message_bytes(*op.collective, op.problem);
    const std::size_t found = filled_.count * op.problem.elem_size / nbytes;
    if (found > most_bound(op.problem.nranks)) return {};
    std::vector<void*> buffers;
    for (std::size_t i = 0; i < found; ++i) buffers.push_back(static_cast<std::byte*>(filled_.first) + i * nbytes);
    return buffers;
  }

  GlooOpener opener_;
  std::unique_ptr<GlooContext> context_;
  Operation called_;
  bool empty_ = false;
  Filled filled_;  ///< most recently
  Filled bound_;   ///< for called_
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const GlooModule& gloo, const Comm& world, const Comm& group,
                                           int ranks_on_host, GlooAlgorithm all_reduce) {
  const bool one_host = on_one_host(world);
  const std::int64_t before = resident_bytes();
  GlooOpener opener{gloo, {group.rank(), group.size(), "", all_reduce}, "", group.split(0)};
  Clock::duration took{};
  auto context = collectively_get(world, "opening Gloo's sockets", [&] {
    opener.ip = world.address();
    if (opener.ip.empty())
      opener.ip = job_interface_address(one_host, [](const char* name) { return std::getenv(name); });
    const Clock::time_point begin = Clock::now();
    auto opened = opener.open();
    took = Clock::now() - begin;
    return opened;
  });
  // Gloo writes to sockets whose peer may be gone: blame that rank, not the one that writes to it.
  std::signal(SIGPIPE, SIG_IGN);
  const Clock::time_point begin = Clock::now();
  opener.connect_all(*context);
  took += Clock::now() - begin;
  return std::make_unique<GlooBackend>(ranks_on_host, std::move(opener), std::move(context), took, before);
}

}  // namespace busbar
