#include "faults/faulty_backend.h"

#include "common/base/error.h"
#include "common/measure/verify.h"
#include "kernels/number.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace busbar {
namespace {

using Bytes = std::vector<std::byte>;

/// `value` op `value`, as if the contribution had entered twice.
double twice(Op op, double value) {
  if (op == Op::sum || op == Op::avg || op == Op::mulsum) return value + value;
  return op == Op::prod ? value * value : value;
}

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, const Fault& fault) : inner_(std::move(inner)), fault_(fault) {}

  std::string name() const override { return inner_->name(); }
  std::string library_version() const override { return inner_->library_version(); }
  int library_version_code() const override { return inner_->library_version_code(); }
  int nranks() const override { return inner_->nranks(); }
  std::span<const int> local_ranks() const override { return inner_->local_ranks(); }
  int lanes() const override { return inner_->lanes(); }
  DeviceInfo device(int local) const override { return inner_->device(local); }
  std::optional<std::string> why_unsupported(const Operation& op) const override { return inner_->why_unsupported(op); }
  std::optional<std::string> note(const Operation& op) const override { return inner_->note(op); }
  InPlaceOffsets in_place_offsets(const Operation& op, int rank) const override {
    return inner_->in_place_offsets(op, rank);
  }
  std::vector<Block> expected(const Operation& op, int rank) const override { return inner_->expected(op, rank); }
  MemoryLimit memory_limit(const Collective& c) const override { return inner_->memory_limit(c); }
  void* allocate(int local, std::size_t nbytes) override { return inner_->allocate(local, nbytes); }
  void register_memory() override { inner_->register_memory(); }
  void release(int local, void* memory) noexcept override { inner_->release(local, memory); }
  void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner_->fill(local, pattern, rank, first, count, dst);
  }
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner_->fill_neutral(local, pattern, count, dst);
  }
  void set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) override {
    inner_->set_bytes(local, dst, byte, nbytes);
  }
  CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) override {
    return inner_->check(local, pattern, blocks, recv);
  }
  void copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) override {
    inner_->copy_to_host(local, dst, src, nbytes);
  }
  void copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) override {
    inner_->copy_from_host(local, dst, src, nbytes);
  }
  void group_begin(int lane) override { inner_->group_begin(lane); }
  void group_end(int lane) override { inner_->group_end(lane); }
  void synchronize(int lane) override { inner_->synchronize(lane); }
  bool asynchronous() const override { return inner_->asynchronous(); }
  void observe_begin() override { inner_->observe_begin(); }
  ShownAlgorithm observe_end(const Operation& op) override { return inner_->observe_end(op); }
  void mark(int lane, int index) override { inner_->mark(lane, index); }
  double between(int lane, int from, int to) override { return inner_->between(lane, from, to); }
  std::vector<MemoryUse> memory_use() const override { return inner_->memory_use(); }
  void abort() noexcept override { inner_->abort(); }

  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override {
    const bool now = calls_++ == fault_.call;
    const int local = local_index();
    if (now && local >= 0) before(op, buffers[local], local);
    inner_->enqueue(lane, op, buffers);
    if (local < 0) return;
    inner_->synchronize(lane);
    if (now) after(op, buffers[local], local);
    if (fault_.kind == Fault::Kind::late && calls_ > fault_.call) dawdle();
    if (fault_.kind == Fault::Kind::stale) previous_ = read(buffers[local].recv, recv_bytes(op, local), local);
  }

 private:
  /// 300 us of work of its own, as a slow host has between two operations.
  static void dawdle() {
    const Clock::time_point until = Clock::now() + std::chrono::microseconds(300);
    while (Clock::now() < until) {
    }
  }

  /// The faulty rank's place in local_ranks(), or -1. One lane is assumed: these tests run on host memory.
  int local_index() const {
    for (std::size_t i = 0; i < inner_->local_ranks().size(); ++i) {
      if (inner_->local_ranks()[i] == fault_.rank) return static_cast<int>(i);
    }
    return -1;
  }

  std::size_t recv_bytes(const Operation& op, int local) const {
    return local_extents(*inner_, op, inner_->local_ranks()[local]).recv * op.problem.elem_size;
  }
  std::size_t send_bytes(const Operation& op, int local) const {
    return local_extents(*inner_, op, inner_->local_ranks()[local]).send * op.problem.elem_size;
  }

  Bytes read(const void* at, std::size_t nbytes, int local) {
    Bytes bytes(nbytes);
    inner_->copy_to_host(local, bytes.data(), at, nbytes);
    return bytes;
  }
  void write(void* at, const Bytes& bytes, int local) { inner_->copy_from_host(local, at, bytes.data(), bytes.size()); }

  void before(const Operation& op, const Buffers& b, int local) {
    switch (fault_.kind) {
      case Fault::Kind::fail:
        throw Error(ExitCode::backend, "injected failure");
      case Fault::Kind::stall:
        for (;;) pause();
      case Fault::Kind::drop:
        if (op.op) {
          inner_->fill_neutral(local, pattern_, send_bytes(op, local) / op.problem.elem_size, b.send);
        } else {
          inner_->set_bytes(local, b.send, kPoisonByte, send_bytes(op, local));
        }
        break;
      case Fault::Kind::doubled:
        if (op.op) double_elements(op, b, local);
        break;
      default:
        break;
    }
  }

  void double_elements(const Operation& op, const Buffers& b, int local) {
    const std::size_t w = op.problem.elem_size;
    Bytes bytes = read(b.send, send_bytes(op, local), local);
    for (std::size_t at = 0; at < bytes.size(); at += w) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &bytes[at], w);
      bits = encode(op.dtype, twice(*op.op, decode(op.dtype, bits)));
      std::memcpy(&bytes[at], &bits, w);
    }
    write(b.send, bytes, local);
  }

  void after(const Operation& op, const Buffers& b, int local) {
    const std::size_t w = op.problem.elem_size;
    Bytes bytes = read(b.recv, recv_bytes(op, local), local);
    switch (fault_.kind) {
      case Fault::Kind::flip:
        if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{0x10};
        break;
      case Fault::Kind::shift:
        if (bytes.size() > w) std::memmove(bytes.data() + w, bytes.data(), bytes.size() - w);
        break;
      case Fault::Kind::overrun:
        bytes.resize(bytes.size() + 16, std::byte{0x77});
        break;
      case Fault::Kind::stale:
        if (previous_.size() == bytes.size()) bytes = previous_;
        break;
      default:
        return;
    }
    write(b.recv, bytes, local);
  }

  std::unique_ptr<Backend> inner_;
  Fault fault_;
  int calls_ = 0;
  Pattern pattern_;
  Bytes previous_;
};

}  // namespace

Fault parse_fault(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Fault::Kind>, 9> kKinds{{{"flip", Fault::Kind::flip},
                                                                            {"drop", Fault::Kind::drop},
                                                                            {"double", Fault::Kind::doubled},
                                                                            {"shift", Fault::Kind::shift},
                                                                            {"overrun", Fault::Kind::overrun},
                                                                            {"stale", Fault::Kind::stale},
                                                                            {"throw", Fault::Kind::fail},
                                                                            {"stall", Fault::Kind::stall},
                                                                            {"late", Fault::Kind::late}}};
  const std::string spec(text);
  const auto first = spec.find(':');
  const auto second = spec.find(':', first + 1);
  if (first != std::string::npos && second != std::string::npos) {
    for (const auto& [word, kind] : kKinds) {
      if (spec.substr(0, first) == word) {
        return {kind, std::stoi(spec.substr(first + 1, second - first - 1)), std::stoi(spec.substr(second + 1))};
      }
    }
  }
  throw std::invalid_argument("'" + spec +
                              "' is not KIND:RANK:CALL with flip drop double shift overrun stale throw stall late");
}

std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, const Fault& fault) {
  return std::make_unique<FaultyBackend>(std::move(inner), fault);
}

}  // namespace busbar
