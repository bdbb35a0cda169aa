#include "common/measure/verify.h"

#include "common/base/packed_fields.h"
#include "common/measure/observed_steps.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"
#include "kernels/wrong_data_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kRememberedSeeds = 8;

/// A seed used by no other (round, slot).
std::uint64_t slot_seed(std::uint64_t round, std::size_t slot) { return (round << 24) + slot; }

/// Bytes of a wrong buffer that are copied and examined, from its first wrong element on.
constexpr std::size_t kExaminedBytes = std::size_t{16} << 20;

std::uint64_t wanted_bits(const Pattern& pattern, const std::vector<Block>& blocks, std::size_t index) {
  for (const Block& b : blocks)
    if (index >= b.at && index < b.at + b.count) return element_bits(pattern, b.source, b.from + (index - b.at));
  return 0;
}

/// One record per rank and buffer: later findings only add to the count.
void add(std::vector<WrongRank>& found, WrongRank record) {
  for (WrongRank& known : found) {
    if (known.rank == record.rank && known.in_place == record.in_place && known.part == record.part) {
      known.count += record.count;
      return;
    }
  }
  found.push_back(std::move(record));
}

struct Guard {
  std::byte* at;
  WrongPart part;
};

std::vector<Guard> guards_of(const Backend& backend, const BufferPlan& buffer_plan, int local) {
  const Operation& op = buffer_plan.operation();
  const std::size_t w = op.problem.elem_size;
  std::byte* const recv = buffer_plan.recv_base(local);
  if (op.in_place) {
    return {{recv - kGuardBytes, WrongPart::guard_before_recv},
            {recv + buffer_plan.message_bytes(), WrongPart::guard_after_recv}};
  }
  const Extents e = extents_of(*op.collective, op.problem, backend.local_ranks()[local]);
  std::byte* const send = buffer_plan.send_base(local);
  return {{recv - kGuardBytes, WrongPart::guard_before_recv},
          {recv + e.recv * w, WrongPart::guard_after_recv},
          {send - kGuardBytes, WrongPart::guard_before_send},
          {send + e.send * w, WrongPart::guard_after_send}};
}

Case small_all_reduce(const Backend& backend, std::size_t nbytes) {
  Case c;
  c.op = Op::sum;
  c.problem.elem_size = size_of(c.dtype);
  c.problem.count = nbytes / c.problem.elem_size;
  c.problem.nranks = backend.nranks();
  c.nbytes = c.problem.count * c.problem.elem_size;
  c.requested_bytes = c.nbytes;
  return c;
}

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

void Verifier::prepare_slot(const BufferPlan& buffer_plan, std::size_t slot, std::uint64_t seed) {
  const Operation& op = buffer_plan.operation();
  const Pattern& data = pattern(op, seed);
  for (int i = 0; i < nlocal(); ++i) {
    const int rank = backend_.local_ranks()[i];
    const Extents e = extents_of(*op.collective, op.problem, rank);
    // In place the parts may overlap: poison first, then the rank's own data.
    backend_.set_bytes(i, buffer_plan.recv_base(i) + slot * buffer_plan.message_bytes(), kPoisonByte,
                       buffer_plan.message_bytes());
    backend_.fill(i, data, rank, 0, e.send, buffer_plan.buffers(slot, i).send);
  }
}

void Verifier::prepare_timed(const BufferPlan& buffer_plan) {
  const Operation& op = buffer_plan.operation();
  const std::uint64_t round = next_seed_++;
  timed_seed_ = round;
  if (!op.op || is_idempotent(backend_, op)) {
    for (std::size_t slot = 0; slot < buffer_plan.slots(); ++slot)
      prepare_slot(buffer_plan, slot, slot_seed(round, slot));
    return;
  }
  const Pattern& data = pattern(op, slot_seed(round, 0));
  const std::size_t elements = buffer_plan.slots() * buffer_plan.message_bytes() / op.problem.elem_size;
  for (int i = 0; i < nlocal(); ++i) backend_.fill_neutral(i, data, elements, buffer_plan.recv_base(i));
}

std::vector<WrongRank> Verifier::check_timed(const BufferPlan& buffer_plan) {
  std::vector<WrongRank> found;
  for (int local = 0; local < nlocal(); ++local) {
    for (std::size_t slot = 0; slot < buffer_plan.slots(); ++slot)
      check_slot(buffer_plan, slot, slot_seed(timed_seed_, slot), local, WrongPart::timed_data, found);
  }
  remember(slot_seed(timed_seed_, buffer_plan.slots() - 1));
  return found;
}

std::vector<WrongRank> Verifier::verify_once(const BufferPlan& buffer_plan, bool through_graph, const FailJob& fail) {
  const std::uint64_t seed = slot_seed(next_seed_++, 0);
  prepare_slot(buffer_plan, 0, seed);
  for (int local = 0; local < nlocal(); ++local) set_guards(buffer_plan, local);

  const auto launch = [&](int lane) {
    if (through_graph) backend_.capture_begin(lane);
    backend_.launch(lane, buffer_plan.operation(), buffer_plan.lane_buffers(0, lane));
    if (through_graph) {
      backend_.capture_end(lane);
      backend_.replay(lane);
    }
    backend_.synchronize(lane);
    if (through_graph) backend_.capture_release(lane);
  };
  run_on_lanes(backend_, launch, fail);

  std::vector<WrongRank> found;
  for (int local = 0; local < nlocal(); ++local) {
    check_slot(buffer_plan, 0, seed, local, WrongPart::checked_data, found);
    check_guards(buffer_plan, local, found);
  }
  remember(seed);
  return found;
}

void Verifier::set_guards(const BufferPlan& buffer_plan, int local) {
  for (const Guard& guard : guards_of(backend_, buffer_plan, local))
    backend_.set_bytes(local, guard.at, kGuardByte, kGuardBytes);
}

void Verifier::check_guards(const BufferPlan& buffer_plan, int local, std::vector<WrongRank>& found) {
  const std::size_t w = buffer_plan.operation().problem.elem_size;
  std::array<unsigned char, kGuardBytes> bytes;
  for (const Guard& guard : guards_of(backend_, buffer_plan, local)) {
    backend_.copy_to_host(local, bytes.data(), guard.at, bytes.size());
    const CheckResult result = check_bytes(bytes.data(), bytes.size(), kGuardByte);
    if (result.wrong == 0) continue;
    WrongRank record = record_of(local);
    record.in_place = buffer_plan.operation().in_place;
    record.part = guard.part;
    record.first = result.first / w;
    record.last = result.last / w;
    record.count = record.last - record.first + 1;
    record.got = fmt::format("byte 0x{:02x} at byte {}", bytes[result.first], result.first);
    record.want = fmt::format("byte 0x{:02x}", kGuardByte);
    record.cause = name(Cause::guard_overwritten);
    record.explanation = fmt::format("{} overwritten: {} bytes outside the buffer were written",
                                     buffer_words(record.in_place, record.part), result.wrong);
    add(found, std::move(record));
  }
}

void Verifier::check_slot(const BufferPlan& buffer_plan, std::size_t slot, std::uint64_t seed, int local,
                          WrongPart part, std::vector<WrongRank>& found) {
  const Operation& op = buffer_plan.operation();
  const std::vector<Block> blocks = backend_.expected(op, backend_.local_ranks()[local]);
  if (blocks.empty()) return;
  const Pattern& data = pattern(op, seed);
  const void* recv = buffer_plan.buffers(slot, local).recv;
  const CheckResult result = backend_.check(local, data, blocks, recv);
  if (result.wrong == 0) return;
  WrongRank record = explain(op, data, blocks, static_cast<const std::byte*>(recv), result, local);
  record.in_place = op.in_place;
  record.part = part;
  add(found, std::move(record));
}

WrongRank Verifier::record_of(int local) const {
  const RankInfo& info = local_ranks_[local];
  WrongRank record;
  record.rank = info.rank;
  record.host = info.hostname;
  record.device = fmt::format("device {} [{}] {}", info.device.device, info.device.id, info.device.name);
  return record;
}

WrongRank Verifier::explain(const Operation& op, const Pattern& data, const std::vector<Block>& blocks,
                            const std::byte* recv, const CheckResult& result, int local) {
  const std::size_t w = op.problem.elem_size;
  const std::size_t count = std::min<std::size_t>(result.last + 1 - result.first, kExaminedBytes / w);
  std::vector<std::byte> copy(count * w);
  backend_.copy_to_host(local, copy.data(), recv + result.first * w, copy.size());
  const WrongDataCause diagnosis = find_cause({data, blocks, copy.data(), result.first, count, earlier_});

  WrongRank record = record_of(local);
  record.count = result.wrong;
  record.first = result.first;
  record.last = result.last;
  record.got = format_element(op.dtype, load_bits(copy.data(), 0, w));
  record.want = format_element(op.dtype, wanted_bits(data, blocks, result.first));
  record.cause = name(diagnosis.cause);
  record.suspect_rank = diagnosis.rank;
  record.explanation = diagnosis.text;
  return record;
}

std::uint64_t count_wrong(const std::vector<WrongRank>& wrong) {
  std::uint64_t total = 0;
  for (const WrongRank& record : wrong) total += record.count;
  return total;
}

SmallOperation::SmallOperation(Backend& backend, std::vector<RankInfo> local_ranks, std::size_t nbytes, FailJob fail)
    : backend_(backend),
      fail_(std::move(fail)),
      case_(small_all_reduce(backend, nbytes)),
      arena_(backend, case_.nbytes, 0),
      buffer_plan_(backend, arena_, kAllReduce, case_, false, 0, 1),
      verifier_(backend, std::move(local_ranks)) {}

CalledOperation SmallOperation::called() const {
  return called_operation(backend_.as_called(buffer_plan_.operation(), 1), case_.nbytes, 0);
}

void SmallOperation::prepare() { verifier_.prepare_timed(buffer_plan_); }

double SmallOperation::run() {
  const Clock::time_point begin = Clock::now();
  launch_once(backend_, buffer_plan_, fail_);
  return seconds(Clock::now() - begin);
}

std::vector<WrongRank> SmallOperation::check() { return verifier_.check_timed(buffer_plan_); }

InitTime measure_init(const Comm& world, const Backend& backend, SmallOperation& operation) {
  operation.prepare();
  world.barrier();
  InitTime init{backend.creation_s(), operation.run()};
  init.create_s = world.max(init.create_s);
  init.first_op_s = world.max(init.first_op_s);
  return init;
}

}  // namespace busbar
