#include "common/measure/injected_backend.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/measure/verify.h"
#include "kernels/number.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <thread>

namespace busbar {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = Injection::Kind;

/// `value` op `value`, as if the contribution had entered twice.
double twice(Op op, double value) {
  if (op == Op::sum || op == Op::avg || op == Op::mulsum) return value + value;
  return op == Op::prod ? value * value : value;
}

Extents local_extents(const Backend& backend, const Operation& op, int local) {
  return extents_of(*op.collective, op.problem, backend.local_ranks()[static_cast<std::size_t>(local)]);
}

Bytes read(Backend& backend, const void* at, std::size_t nbytes, int local) {
  Bytes bytes(nbytes);
  backend.copy_to_host(local, bytes.data(), at, nbytes);
  return bytes;
}

void double_elements(Backend& backend, const Operation& op, const Buffers& b, int local) {
  const std::size_t w = op.problem.elem_size;
  Bytes bytes = read(backend, b.send, local_extents(backend, op, local).send * w, local);
  for (std::size_t at = 0; at < bytes.size(); at += w) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &bytes[at], w);
    bits = encode(op.dtype, twice(*op.op, decode(op.dtype, bits)));
    std::memcpy(&bytes[at], &bits, w);
  }
  backend.copy_from_host(local, b.send, bytes.data(), bytes.size());
}

}  // namespace

void spoil_contribution(Injection::Kind fault, Backend& backend, const Pattern& pattern, const Operation& op,
                        const Buffers& buffers, int local) {
  if (fault == Kind::drop) {
    const std::size_t elements = local_extents(backend, op, local).send;
    if (op.op) {
      backend.fill_neutral(local, pattern, elements, buffers.send);
    } else {
      backend.set_bytes(local, buffers.send, kPoisonByte, elements * op.problem.elem_size);
    }
  }
  if (fault == Kind::doubled && op.op) double_elements(backend, op, buffers, local);
}

void spoil_result(Injection::Kind fault, Backend& backend, const Operation& op, const Buffers& buffers, int local) {
  const std::size_t w = op.problem.elem_size;
  Bytes bytes = read_result(backend, op, buffers, local);
  if (fault == Kind::flip) {
    if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{0x10};
  } else if (fault == Kind::shift) {
    if (bytes.size() > w) std::memmove(bytes.data() + w, bytes.data(), bytes.size() - w);
  } else if (fault == Kind::overrun) {
    bytes.resize(bytes.size() + 16, std::byte{0x77});
  } else {
    return;
  }
  write_result(backend, bytes, buffers, local);
}

Bytes read_result(Backend& backend, const Operation& op, const Buffers& buffers, int local) {
  const std::size_t elements = local_extents(backend, op, local).recv;
  return read(backend, buffers.recv, elements * op.problem.elem_size, local);
}

void write_result(Backend& backend, const Bytes& bytes, const Buffers& buffers, int local) {
  backend.copy_from_host(local, buffers.recv, bytes.data(), bytes.size());
}

struct Injector::Fault {
  Injection injection;
  std::function<void(double)> wait;
  std::atomic<bool> done{false};
  std::atomic<bool> armed{false};            ///< this process drives the rank
  std::atomic<std::uint64_t> operations{0};  ///< made by the process in all
  std::atomic<bool> is_announced{false};     ///< --paranoid was shown the changed call, and ends the job before it
  std::atomic<bool> is_seen{false};          ///< the operation's data were checked
  std::atomic<bool> is_empty{false};         ///< it has no data to break
  std::atomic<std::uint64_t> next_seen{0};   ///< the first one after it whose data were checked; 0: none

  Fault(const Injection& i, std::function<void(double)> w) : injection(i), wait(std::move(w)) {}
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  /// A silent alarm is no proof if nothing happened.
  ~Fault() {
    if (!armed || std::uncaught_exceptions() > 0) return;
    const std::uint64_t op = injection.operation;
    if (is_announced && !done) return;
    if (!done) {
      say("warning: --inject: nothing was broken: rank {} made {} operations, op={} never came", injection.rank,
          operations.load(), op);
    } else if (changes_data(injection.kind) && (is_empty || !is_seen)) {
      say("warning: --inject: nobody sees what was broken: operation {} of rank {} {}{}", op, injection.rank,
          is_empty ? "has no data there" : "is not checked",
          next_seen > 0 ? fmt::format("; try op={}", next_seen.load()) : "");
    }
  }

  void checked(std::uint64_t operation) {
    if (operation == injection.operation) is_seen = true;
    std::uint64_t none = 0;
    if (operation > injection.operation) next_seen.compare_exchange_strong(none, operation);
  }
};

namespace {

/// The faults that break the process before the operation.
void suffer(const Injector::Fault& fault) {
  const Injection& injection = fault.injection;
  if (injection.kind == Kind::late) fault.wait(injection.late_s);
  if (injection.kind == Kind::stop) kill(getpid(), SIGSTOP);
  if (injection.kind == Kind::kill) kill(getpid(), SIGKILL);
  if (injection.kind != Kind::crash) return;
  // MPI libraries catch it to print a stack, and some then wait.
  std::signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

class InjectedBackend final : public WrappedBackend {
 public:
  InjectedBackend(std::unique_ptr<Backend> backend, std::shared_ptr<Injector::Fault> fault, int local)
      : WrappedBackend(std::move(backend)),
        fault_(std::move(fault)),
        injection_(fault_->injection),
        per_lane_(std::max<int>(1, static_cast<int>(local_ranks().size()) / lanes())),
        local_(local) {}
  InjectedBackend(const InjectedBackend&) = delete;
  InjectedBackend& operator=(const InjectedBackend&) = delete;
  ~InjectedBackend() override { fault_->operations = std::max(fault_->operations.load(), entered(lane())); }

  void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner().fill(local, pattern, rank, first, count, dst);
  }
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner().fill_neutral(local, pattern, count, dst);
  }

  CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) override {
    if (local == local_) fault_->checked(entered(lane()));
    const CheckResult result = inner().check(local, pattern, blocks, recv);
    if (fault_->done && result.wrong > 0)
      fault_->is_seen = true;  // a timed call's data may stand in the checked buffer
    return result;
  }

  void group_begin(int lane) override {
    if (lane == this->lane()) in_group_ = true;
    inner().group_begin(lane);
  }
  void group_end(int lane) override {
    inner().group_end(lane);
    if (lane != this->lane()) return;
    in_group_ = false;
    if (!pending_) return;
    inner().synchronize(lane);
    spoil_result(injection_.kind, inner(), pending_->op, pending_->buffers, local_);
    pending_.reset();
  }

  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override {
    if (lane != this->lane() || entered(lane) != injection_.operation || fault_->done.exchange(true)) {
      inner().enqueue(lane, op, buffers);
    } else if (changes_data(injection_.kind)) {
      enqueue_spoilt(lane, op, buffers);
    } else if (changes_call(injection_.kind)) {
      inner().enqueue(lane, changed(op), buffers);
    } else {
      // It has not entered the operation yet, and its record must not claim so.
      counter(lane).uncount();
      if (injection_.kind == Kind::skip) return;
      suffer(*fault_);
      count(lane);
      inner().enqueue(lane, op, buffers);
    }
  }

  Operation as_called(const Operation& op, std::uint64_t calls) const override {
    const std::uint64_t before = entered(lane());
    const bool among_them = injection_.operation > before && injection_.operation - before <= calls;
    if (!among_them || fault_->done || !changes_call(injection_.kind)) return op;
    fault_->is_announced = true;
    return changed(op);
  }

 private:
  struct Pending {
    Operation op;
    Buffers buffers;
  };

  int lane() const { return local_ / per_lane_; }

  void enqueue_spoilt(int lane, const Operation& op, std::span<const Buffers> buffers) {
    const Kind fault = injection_.kind;
    const Buffers& mine = buffers[static_cast<std::size_t>(local_ - lane * per_lane_)];
    const Extents extents = local_extents(inner(), op, local_);
    const bool is_contribution = fault == Kind::drop || fault == Kind::doubled;
    fault_->is_empty = (is_contribution ? extents.send : extents.recv) == 0;
    // Earlier operations may still read the data that this spoils. Inside a group nothing to wait for is launched yet.
    if (!in_group_) inner().synchronize(lane);
    spoil_contribution(fault, inner(), pattern_, op, mine, local_);
    inner().enqueue(lane, op, buffers);
    if (in_group_) {
      pending_ = Pending{op, mine};
      return;
    }
    inner().synchronize(lane);
    spoil_result(fault, inner(), op, mine, local_);
  }

  /// The call that this rank makes instead. Fewer elements, never more: there is no room for them.
  Operation changed(const Operation& op) const {
    Operation other = op;
    if (injection_.kind == Kind::count && op.problem.count > 0) --other.problem.count;
    if (injection_.kind == Kind::dtype) {
      for (const DType dtype : kAllDTypes) {
        if (dtype == op.dtype || size_of(dtype) != size_of(op.dtype)) continue;
        other.dtype = dtype;
        if (!inner().why_unsupported(other)) return other;
      }
      return op;
    }
    if (injection_.kind == Kind::op && op.op) {
      for (const Op instead : {Op::max, Op::sum, Op::min, Op::prod}) {
        other.op = instead;
        if (instead != *op.op && !inner().why_unsupported(other)) return other;
      }
      return op;
    }
    return other;
  }

  std::shared_ptr<Injector::Fault> fault_;
  const Injection& injection_;
  int per_lane_;
  int local_;  ///< the rank's index in local_ranks()
  Pattern pattern_;
  bool in_group_ = false;
  std::optional<Pending> pending_;
};

}  // namespace

void sleep_for_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Injector::Injector(const std::optional<Injection>& injection, int process, std::function<void(double)> wait)
    : process_(process) {
  if (injection) fault_ = std::make_shared<Fault>(*injection, std::move(wait));
}

void Injector::check(int nranks, const Collective& collective) const {
  if (!fault_) return;
  const Injection& injection = fault_->injection;
  if (injection.rank >= nranks) {
    throw_bad_config(nranks == 1 ? fmt::format("--inject: there is no rank {}: the job has one rank, 0", injection.rank)
                                 : fmt::format("--inject: there is no rank {}: the job has ranks 0 to {}",
                                               injection.rank, nranks - 1));
  }
  if (!collective.has_op && (injection.kind == Kind::op || injection.kind == Kind::doubled)) {
    throw_bad_config(
        fmt::format("--inject: kind={} needs a collective that reduces, {} does not: try "
                    "kind=count, or drop",
                    name(injection.kind), collective.name));
  }
}

std::unique_ptr<Backend> Injector::around(std::unique_ptr<Backend> backend) const {
  if (!fault_ || backend == nullptr) return backend;
  const int nlocal = static_cast<int>(backend->local_ranks().size());
  const int local = fault_->injection.rank - process_ * nlocal;
  if (local < 0 || local >= nlocal) return backend;
  fault_->armed = true;
  return std::make_unique<InjectedBackend>(std::move(backend), fault_, local);
}

std::vector<std::string> Injector::remarks() const {
  if (!fault_) return {};
  return {fmt::format("WARNING: {} (--inject): what follows is not a measurement", describe(fault_->injection))};
}

}  // namespace busbar
