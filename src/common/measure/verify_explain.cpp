#include "common/measure/verify.h"
#include "kernels/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace busbar {
namespace {

/// Bytes of a wrong buffer that are copied and examined, from its first wrong element on.
constexpr std::size_t kExaminedBytes = std::size_t{16} << 20;

std::uint64_t load_bits(const std::byte* at, std::size_t elem_size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, elem_size);
  return bits;
}

std::uint64_t wanted_bits(const Pattern& pattern, const std::vector<Block>& blocks, std::size_t index) {
  for (const Block& b : blocks) {
    if (index >= b.at && index < b.at + b.count) return element_bits(pattern, b.source, b.from + (index - b.at));
  }
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

std::vector<Guard> guards_of(const Backend& backend, const Workload& workload, int local) {
  const Operation& op = workload.operation();
  const std::size_t w = op.problem.elem_size;
  std::byte* const recv = workload.recv_base(local);
  if (op.in_place) {
    return {{recv - kGuardBytes, WrongPart::guard_before_recv},
            {recv + workload.message_bytes(), WrongPart::guard_after_recv}};
  }
  const Extents e = local_extents(backend, op, backend.local_ranks()[local]);
  std::byte* const send = workload.send_base(local);
  return {{recv - kGuardBytes, WrongPart::guard_before_recv},
          {recv + e.recv * w, WrongPart::guard_after_recv},
          {send - kGuardBytes, WrongPart::guard_before_send},
          {send + e.send * w, WrongPart::guard_after_send}};
}

}  // namespace

Extents local_extents(const Backend& backend, const Operation& op, int rank) {
  if (op.collective->id != CollectiveId::alltoallv) return op.collective->extents(op.problem);
  Extents e;
  for (int peer = 0; peer < op.problem.nranks; ++peer) e.send += alltoallv_count(op.problem, rank, peer);
  for (const Block& block : backend.expected(op, rank)) e.recv += block.count;
  return e;
}

void Verifier::set_guards(const Workload& workload, int local) {
  for (const Guard& guard : guards_of(backend_, workload, local)) {
    backend_.set_bytes(local, guard.at, kGuardByte, kGuardBytes);
  }
}

void Verifier::check_guards(const Workload& workload, int local, std::vector<WrongRank>& found) {
  const std::size_t w = workload.operation().problem.elem_size;
  std::array<unsigned char, kGuardBytes> bytes;
  for (const Guard& guard : guards_of(backend_, workload, local)) {
    backend_.copy_to_host(local, bytes.data(), guard.at, bytes.size());
    const CheckResult result = check_bytes(bytes.data(), bytes.size(), kGuardByte);
    if (result.wrong == 0) continue;
    WrongRank record = record_of(local);
    record.in_place = workload.operation().in_place;
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

void Verifier::check_slot(const Workload& workload, std::size_t slot, std::uint64_t seed, int local, WrongPart part,
                          std::vector<WrongRank>& found) {
  const Operation& op = workload.operation();
  const std::vector<Block> blocks = backend_.expected(op, backend_.local_ranks()[local]);
  if (blocks.empty()) return;
  const Pattern& data = pattern(op, seed);
  const void* recv = workload.buffers(slot, local).recv;
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
  const DataDiagnosis diagnosis = diagnose({data, blocks, copy.data(), result.first, count, earlier_});

  WrongRank record = record_of(local);
  record.count = result.wrong;
  record.first = result.first;
  record.last = result.last;
  record.got = format_element(op.dtype, load_bits(copy.data(), w));
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

}  // namespace busbar
