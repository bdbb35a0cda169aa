// libbusbar_gloo.so: implements gloo_module.h with Gloo.

#include "common/backends/gloo/gloo_module.h"

#include "kernels/dtype_and_op.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/context.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/scatter.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <unordered_map>

#define BUSBAR_TEXT_OF(number) #number
#define BUSBAR_TEXT(number) BUSBAR_TEXT_OF(number)

namespace busbar {
namespace {

/// Longer than any limit of the watchdog (-T takes 1e9 s), which knows more about a hang than the rank that waits
/// longest. Not 0: some of Gloo's calls take it as "never", others as "at once".
constexpr std::chrono::milliseconds kLongerThanAnyHang = std::chrono::seconds(2'000'000'000);

/// For our own sends and receives; Gloo's collectives have 1 to 8 in the highest byte (gloo/types.h).
constexpr std::uint64_t kOwnSlot = std::uint64_t{0x80} << 56;

/// Every rank connected to every other, as in gloo::mpi::Context: Debian's build lacks that, and it would start MPI.
class Mesh final : public gloo::Context {
 public:
  explicit Mesh(const GlooPlace& place) : gloo::Context(place.rank, place.nranks) {
    setTimeout(kLongerThanAnyHang);
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(place.ip));
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(getTimeout());
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) transportContext_->createPair(peer);
  }

  std::vector<std::byte> addresses() const {
    std::vector<std::byte> all(static_cast<std::size_t>(size) * kGlooAddressBytes);
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> own = address_for(peer);
      if (own.size() > kGlooAddressBytes) throw std::length_error("Gloo's addresses are longer than busbar expects");
      std::memcpy(&all[static_cast<std::size_t>(peer) * kGlooAddressBytes], own.data(), own.size());
    }
    return all;
  }

  void connect(std::span<const std::byte> for_me) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      // All have one length, which Gloo checks.
      std::vector<char> address(address_for(peer).size());
      std::memcpy(address.data(), &for_me[static_cast<std::size_t>(peer) * kGlooAddressBytes], address.size());
      transportContext_->getPair(peer)->connect(address);
    }
  }

  /// Reuses the slots of bound algorithms, so that their number does not overflow an int in a long run.
  void give_slots_back() { slot_ = 0; }

 private:
  std::vector<char> address_for(int peer) const { return transportContext_->getPair(peer)->address().bytes(); }
};

std::uint8_t* bytes(void* memory) { return static_cast<std::uint8_t*>(memory); }

/// Gloo's options are created at each call, as in PyTorch.
class OpenContext final : public GlooContext {
 public:
  explicit OpenContext(const GlooPlace& place)
      : all_reduce_(place.all_reduce), mesh_(std::make_shared<Mesh>(place)), context_(mesh_) {}

  std::vector<std::byte> addresses() const override { return mesh_->addresses(); }
  void connect(std::span<const std::byte> for_me) override { mesh_->connect(for_me); }

  void prepare(const GlooCall& call, std::span<void* const> buffers) override {
    unbind();
    call_ = call;
    nbytes_ = call_.count * call_.elem_size;
    if (call_.collective != CollectiveId::reduce_scatter) return;
    copy_.resize(all_nbytes());
    // The new algorithms take the old slots: nobody may send to them while another rank still has the old.
    barrier();
    mesh_->give_slots_back();
    with_bits_of(call_.elem_size, [&](auto element) { bind<decltype(element)>(buffers); });
  }

  void run(void* send, void* recv) override {
    switch (call_.collective) {
#define BUSBAR_CASE(name, Name) \
  case CollectiveId::name:      \
    return name(send, recv);
      BUSBAR_COLLECTIVES(BUSBAR_CASE)
#undef BUSBAR_CASE
    }
  }

 private:
  std::size_t all_nbytes() const { return nbytes_ * static_cast<std::size_t>(context_->size); }
  bool is_root() const { return context_->rank == call_.root; }

  // Collectives that Gloo lacks.
  [[noreturn]] static void refuse() { throw std::logic_error("busbar calls a collective that Gloo lacks"); }
  void reduce_scatterv(void*, void*) { refuse(); }
  void gatherv(void*, void*) { refuse(); }
  void scatterv(void*, void*) { refuse(); }

  void sendrecv(void* send, void* recv) {
    const int size = context_->size, rank = context_->rank;
    exchange(send, (rank + 1) % size, recv, (rank + size - 1) % size, nbytes_);
  }

  void set_reduction(auto& options, void* send, void* recv) const {
    with_bits_of(call_.elem_size, [&](auto element) {
      using T = decltype(element);
      if (!call_.in_place) options.setInput(static_cast<T*>(send), call_.count);
      options.setOutput(static_cast<T*>(recv), call_.count);
    });
    options.setReduceFunction(call_.reduction.reduce);
  }

  void all_reduce(void* send, void* recv) {
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    gloo::AllreduceOptions options(context_);
    set_reduction(options, send, recv);
    if (all_reduce_ == GlooAlgorithm::ring) options.setAlgorithm(Algorithm::RING);
    if (all_reduce_ == GlooAlgorithm::bcube) options.setAlgorithm(Algorithm::BCUBE);
    gloo::allreduce(options);
  }

  void reduce(void* send, void* recv) {
    gloo::ReduceOptions options(context_);
    set_reduction(options, send, recv);
    options.setRoot(call_.root);
    gloo::reduce(options);
  }

  void all_gather(void* send, void* recv) {
    gloo::AllgatherOptions options(context_);
    if (!call_.in_place) options.setInput(bytes(send), nbytes_);
    options.setOutput(bytes(recv), all_nbytes());
    gloo::allgather(options);
  }

  void all_gatherv(void* send, void* recv) {
    gloo::AllgathervOptions options(context_);
    if (!call_.in_place) options.setInput(bytes(send), call_.block_nbytes[static_cast<std::size_t>(context_->rank)]);
    options.setOutput(bytes(recv), call_.block_nbytes);
    gloo::allgatherv(options);
  }

  void broadcast(void* send, void* recv) {
    gloo::BroadcastOptions options(context_);
    if (is_root() && !call_.in_place) options.setInput(bytes(send), nbytes_);
    options.setOutput(bytes(recv), nbytes_);
    options.setRoot(call_.root);
    gloo::broadcast(options);
  }

  void gather(void* send, void* recv) {
    gloo::GatherOptions options(context_);
    options.setInput(bytes(send), nbytes_);
    if (is_root()) options.setOutput(bytes(recv), all_nbytes());
    options.setRoot(call_.root);
    gloo::gather(options);
  }

  void scatter(void* send, void* recv) {
    gloo::ScatterOptions options(context_);
    if (is_root()) {
      std::vector<std::uint8_t*> inputs;
      for (int peer = 0; peer < context_->size; ++peer)
        inputs.push_back(bytes(send) + static_cast<std::size_t>(peer) * nbytes_);
      options.setInputs(inputs, nbytes_);
    }
    options.setOutput(bytes(recv), nbytes_);
    options.setRoot(call_.root);
    gloo::scatter(options);
  }

  void alltoall(void* send, void* recv) {
    gloo::AlltoallOptions options(context_);
    options.setInput(bytes(send), all_nbytes());
    options.setOutput(bytes(recv), all_nbytes());
    gloo::alltoall(options);
  }

  void alltoallv(void* send, void* recv) {
    gloo::AlltoallvOptions options(context_);
    options.setInput(bytes(send), call_.send_nbytes);
    options.setOutput(bytes(recv), call_.recv_nbytes);
    gloo::alltoallv(options);
  }

  void exchange(void* send, int to, void* recv, int from, std::size_t nbytes) {
    if (to == context_->rank) {
      if (send != recv) std::memcpy(recv, send, nbytes);
      return;
    }
    const auto out = context_->createUnboundBuffer(send, nbytes);
    const auto in = context_->createUnboundBuffer(recv, nbytes);
    in->recv(from, kOwnSlot);
    out->send(to, kOwnSlot);
    out->waitSend();
    in->waitRecv();
  }

  /// All-gather by log2(nranks) pairwise exchanges, each of all blocks received so far.
  void hypercube(void* send, void* recv) {
    std::uint8_t* const all = bytes(recv);
    std::uint8_t* const own = all + static_cast<std::size_t>(context_->rank) * nbytes_;
    if (own != send) std::memcpy(own, send, nbytes_);
    for (int mask = 1; mask < context_->size; mask *= 2) {
      const int mine = context_->rank & ~(mask - 1);
      const int peer = context_->rank ^ mask;
      exchange(all + static_cast<std::size_t>(mine) * nbytes_, peer,
               all + static_cast<std::size_t>(mine ^ mask) * nbytes_, peer, static_cast<std::size_t>(mask) * nbytes_);
    }
  }

  /// Sends `n` messages from the one buffer to the peer, or receives them from it.
  void send_to_peer(void* buffer, std::size_t nbytes, int n) {
    const auto out = context_->createUnboundBuffer(buffer, nbytes);
    for (int i = 0; i < n; ++i) out->send(call_.peer, kOwnSlot);
    for (int i = 0; i < n; ++i) out->waitSend();
  }
  void receive_from_peer(void* buffer, std::size_t nbytes, int n) {
    const auto in = context_->createUnboundBuffer(buffer, nbytes);
    for (int i = 0; i < n; ++i) in->recv(call_.peer, kOwnSlot);
    for (int i = 0; i < n; ++i) in->waitRecv();
  }

  void pingpong(void* send, void* recv) {
    if (call_.pattern == PingpongPattern::both) return both_ways(send, recv);
    // A message there and one back; or a window, and a one-byte answer.
    const bool latency = call_.pattern == PingpongPattern::latency;
    const int n = latency ? 1 : call_.window;
    const std::size_t back_nbytes = latency ? nbytes_ : 1;
    std::uint8_t answer = 0;
    if (context_->rank < call_.peer) {
      send_to_peer(send, nbytes_, n);
      receive_from_peer(latency ? recv : &answer, back_nbytes, 1);
    } else {
      receive_from_peer(recv, nbytes_, n);
      send_to_peer(latency ? send : &answer, back_nbytes, 1);
    }
  }

  void both_ways(void* send, void* recv) {
    const auto out = context_->createUnboundBuffer(send, nbytes_);
    const auto in = context_->createUnboundBuffer(recv, nbytes_);
    for (int i = 0; i < call_.window; ++i) in->recv(call_.peer, kOwnSlot);
    for (int i = 0; i < call_.window; ++i) out->send(call_.peer, kOwnSlot);
    for (int i = 0; i < call_.window; ++i) out->waitSend();
    for (int i = 0; i < call_.window; ++i) in->waitRecv();
  }

  void barrier(void* /*send*/ = nullptr, void* /*recv*/ = nullptr) {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  // reduce_scatter: gloo::ReduceScatterHalvingDoubling works on the one buffer it was created for, overwrites it and
  // leaves the result at its start.

  void unbind() {
    if (!on_copy_) return;
    // It returns before its last notes to others are sent from its memory; once all ranks have returned, all are sent.
    barrier();
    bound_.clear();
    on_copy_.reset();
    function_.reset();
  }

  template <class T>
  void bind(std::span<void* const> buffers) {
    using Into = void(T*, const T*, std::size_t);
    const auto function =
        std::make_shared<gloo::ReductionFunction<T>>(gloo::CUSTOM, reinterpret_cast<Into*>(call_.reduction.into));
    function_ = function;
    const std::vector<int> counts(static_cast<std::size_t>(context_->size), static_cast<int>(call_.count));
    const auto made_for = [&](void* buffer) {
      return std::make_unique<gloo::ReduceScatterHalvingDoubling<T>>(context_, std::vector<T*>{static_cast<T*>(buffer)},
                                                                     static_cast<int>(call_.count) * context_->size,
                                                                     counts, function.get());
    };
    on_copy_ = made_for(copy_.data());
    for (void* buffer : buffers) bound_.emplace(buffer, made_for(buffer));
  }

  void reduce_scatter(void* send, void* recv) {
    if (call_.in_place)
      if (const auto found = bound_.find(send); found != bound_.end()) return found->second->run();
    std::memcpy(copy_.data(), send, copy_.size());
    on_copy_->run();
    std::memcpy(recv, copy_.data(), nbytes_);
  }

  GlooAlgorithm all_reduce_;
  std::shared_ptr<Mesh> mesh_;
  std::shared_ptr<gloo::Context> context_;  ///< the same, in the type of Gloo's constructors
  GlooCall call_;
  std::size_t nbytes_ = 0;  ///< `count` elements
  std::vector<std::uint8_t> copy_;
  std::shared_ptr<void> function_;
  std::unique_ptr<gloo::Algorithm> on_copy_;
  std::unordered_map<void*, std::unique_ptr<gloo::Algorithm>> bound_;
};

std::unique_ptr<GlooContext> open(const GlooPlace& place) { return std::make_unique<OpenContext>(place); }

}  // namespace
}  // namespace busbar

// NOLINTBEGIN(readability-identifier-naming): a name that programs look up
extern "C" const busbar::GlooModule busbar_gloo_module;
const busbar::GlooModule busbar_gloo_module{
    busbar::kGlooBorder,
    BUSBAR_TEXT(GLOO_VERSION_MAJOR) "." BUSBAR_TEXT(GLOO_VERSION_MINOR) "." BUSBAR_TEXT(GLOO_VERSION_PATCH),
    busbar::open};
// NOLINTEND(readability-identifier-naming)
