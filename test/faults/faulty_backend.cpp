#include "faults/faulty_backend.h"

#include "common/base/error.h"
#include "common/measure/injected_backend.h"

#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

namespace busbar {
namespace {

/// How the product's own way of spoiling data does it; nothing for the others.
std::optional<Injection::Kind> data_fault(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::flip:
      return Injection::Kind::flip;
    case Fault::Kind::drop:
      return Injection::Kind::drop;
    case Fault::Kind::doubled:
      return Injection::Kind::doubled;
    case Fault::Kind::shift:
      return Injection::Kind::shift;
    case Fault::Kind::overrun:
      return Injection::Kind::overrun;
    default:
      return std::nullopt;
  }
}

class FaultyBackend final : public WrappedBackend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, const Fault& fault) : WrappedBackend(std::move(inner)), fault_(fault) {}

  void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner().fill(local, pattern, rank, first, count, dst);
  }
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override {
    pattern_ = pattern;
    inner().fill_neutral(local, pattern, count, dst);
  }

  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override {
    const bool now = is_due(calls_++);
    const int local = local_index();
    if (now && local >= 0) before(op, buffers[local], local);
    inner().enqueue(lane, op, buffers);
    if (local < 0) return;
    inner().synchronize(lane);
    if (now) after(op, buffers[local], local);
    if (fault_.kind == Fault::Kind::late && calls_ > fault_.call) dawdle();
    if (fault_.kind == Fault::Kind::stale) previous_ = read_result(inner(), op, buffers[local], local);
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
    for (std::size_t i = 0; i < local_ranks().size(); ++i) {
      if (local_ranks()[i] == fault_.rank) return static_cast<int>(i);
    }
    return -1;
  }

  bool is_due(int call) const {
    return call == fault_.call || (fault_.every > 0 && call > fault_.call && (call - fault_.call) % fault_.every == 0);
  }

  void before(const Operation& op, const Buffers& b, int local) {
    if (fault_.kind == Fault::Kind::fail) throw Error(ExitCode::backend, "injected failure");
    while (fault_.kind == Fault::Kind::stall) pause();
    if (const auto fault = data_fault(fault_.kind)) spoil_contribution(*fault, inner(), pattern_, op, b, local);
  }

  void after(const Operation& op, const Buffers& b, int local) {
    if (const auto fault = data_fault(fault_.kind)) spoil_result(*fault, inner(), op, b, local);
    if (fault_.kind != Fault::Kind::stale) return;
    if (previous_.size() == read_result(inner(), op, b, local).size()) write_result(inner(), previous_, b, local);
  }

  Fault fault_;
  int calls_ = 0;
  Pattern pattern_;
  std::vector<std::byte> previous_;
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
        const auto again = spec.find('+', second);
        return {kind, std::stoi(spec.substr(first + 1, second - first - 1)), std::stoi(spec.substr(second + 1)),
                again == std::string::npos ? 0 : std::stoi(spec.substr(again + 1))};
      }
    }
  }
  throw std::invalid_argument(
      "'" + spec + "' is not KIND:RANK:CALL[+EVERY] with flip drop double shift overrun stale throw stall late");
}

std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, const Fault& fault) {
  return std::make_unique<FaultyBackend>(std::move(inner), fault);
}

}  // namespace busbar
