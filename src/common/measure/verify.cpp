#include "common/measure/verify.h"

#include "common/measure/lanes.h"

namespace busbar {
namespace {

constexpr std::size_t kRememberedSeeds = 8;

/// A seed that no other (round, slot) has.
std::uint64_t slot_seed(std::uint64_t round, std::size_t slot) { return (round << 24) + slot; }

}  // namespace

Verifier::Verifier(Backend& backend, std::vector<RankInfo> local_ranks)
    : backend_(backend), local_ranks_(std::move(local_ranks)) {}

const Pattern& Verifier::pattern(const Operation& op, std::uint64_t seed) {
  const bool same = have_pattern_ && pattern_.dtype == op.dtype && pattern_.reduces == op.op.has_value() &&
                    (!op.op || pattern_.op == *op.op) && pattern_.nranks == op.problem.nranks;
  if (!same) {
    pattern_ = make_pattern(op.dtype, op.op, op.problem.nranks, seed);
    have_pattern_ = true;
    earlier_.clear();
  }
  pattern_.seed = seed;
  return pattern_;
}

void Verifier::remember(std::uint64_t seed) {
  earlier_.insert(earlier_.begin(), seed);
  if (earlier_.size() > kRememberedSeeds) earlier_.pop_back();
}

void Verifier::prepare_slot(const Workload& workload, std::size_t slot, std::uint64_t seed) {
  const Operation& op = workload.operation();
  const Pattern& data = pattern(op, seed);
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    const int rank = backend_.local_ranks()[local];
    const int i = static_cast<int>(local);
    const Extents e = local_extents(backend_, op, rank);
    // In place the parts may overlap: poison first, then the rank's own data.
    backend_.set_bytes(i, workload.recv_base(i) + slot * workload.message_bytes(), kPoisonByte,
                       workload.message_bytes());
    backend_.fill(i, data, rank, 0, e.send, workload.buffers(slot, i).send);
  }
}

void Verifier::prepare_timed(const Workload& workload) {
  const Operation& op = workload.operation();
  const std::uint64_t round = next_seed_++;
  timed_seed_ = round;
  if (is_idempotent(backend_, op)) {
    for (std::size_t slot = 0; slot < workload.slots(); ++slot) prepare_slot(workload, slot, slot_seed(round, slot));
    return;
  }
  const Pattern& data = pattern(op, slot_seed(round, 0));
  const std::size_t elements = workload.slots() * workload.message_bytes() / op.problem.elem_size;
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    const int i = static_cast<int>(local);
    backend_.fill_neutral(i, data, elements, workload.recv_base(i));
  }
}

std::vector<WrongRank> Verifier::check_timed(const Workload& workload) {
  std::vector<WrongRank> found;
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    for (std::size_t slot = 0; slot < workload.slots(); ++slot) {
      check_slot(workload, slot, slot_seed(timed_seed_, slot), static_cast<int>(local), WrongPart::timed_data, found);
    }
  }
  remember(slot_seed(timed_seed_, workload.slots() - 1));
  return found;
}

std::vector<WrongRank> Verifier::verify_once(const Workload& workload, bool through_graph, const FailJob& fail) {
  const std::uint64_t seed = slot_seed(next_seed_++, 0);
  prepare_slot(workload, 0, seed);
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) set_guards(workload, static_cast<int>(local));

  const auto launch = [&](int lane) {
    if (through_graph) backend_.capture_begin(lane);
    backend_.launch(lane, workload.operation(), workload.lane_buffers(0, lane));
    if (through_graph) {
      backend_.capture_end(lane);
      backend_.replay(lane);
    }
    backend_.synchronize(lane);
    if (through_graph) backend_.capture_release(lane);
  };
  run_on_lanes(backend_.lanes(), launch, fail);

  std::vector<WrongRank> found;
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    check_slot(workload, 0, seed, static_cast<int>(local), WrongPart::checked_data, found);
    check_guards(workload, static_cast<int>(local), found);
  }
  remember(seed);
  return found;
}

}  // namespace busbar
