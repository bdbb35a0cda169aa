#include "common/measure/data_faults.h"

#include "common/measure/verify.h"
#include "kernels/number.h"

#include <cstring>

namespace busbar {
namespace {

using Bytes = std::vector<std::byte>;

/// `value` op `value`, as if the contribution had entered twice.
double twice(Op op, double value) {
  if (op == Op::sum || op == Op::avg || op == Op::mulsum) return value + value;
  return op == Op::prod ? value * value : value;
}

std::size_t sent_elements(const Backend& backend, const Operation& op, int local) {
  return local_extents(backend, op, backend.local_ranks()[local]).send;
}

Bytes read(Backend& backend, const void* at, std::size_t nbytes, int local) {
  Bytes bytes(nbytes);
  backend.copy_to_host(local, bytes.data(), at, nbytes);
  return bytes;
}

void double_elements(Backend& backend, const Operation& op, const Buffers& b, int local) {
  const std::size_t w = op.problem.elem_size;
  Bytes bytes = read(backend, b.send, sent_elements(backend, op, local) * w, local);
  for (std::size_t at = 0; at < bytes.size(); at += w) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &bytes[at], w);
    bits = encode(op.dtype, twice(*op.op, decode(op.dtype, bits)));
    std::memcpy(&bytes[at], &bits, w);
  }
  backend.copy_from_host(local, b.send, bytes.data(), bytes.size());
}

}  // namespace

void spoil_contribution(DataFault fault, Backend& backend, const Pattern& pattern, const Operation& op,
                        const Buffers& buffers, int local) {
  if (fault == DataFault::drop) {
    const std::size_t elements = sent_elements(backend, op, local);
    if (op.op) {
      backend.fill_neutral(local, pattern, elements, buffers.send);
    } else {
      backend.set_bytes(local, buffers.send, kPoisonByte, elements * op.problem.elem_size);
    }
  }
  if (fault == DataFault::doubled && op.op) double_elements(backend, op, buffers, local);
}

void spoil_result(DataFault fault, Backend& backend, const Operation& op, const Buffers& buffers, int local) {
  const std::size_t w = op.problem.elem_size;
  Bytes bytes = read_result(backend, op, buffers, local);
  if (fault == DataFault::flip) {
    if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{0x10};
  } else if (fault == DataFault::shift) {
    if (bytes.size() > w) std::memmove(bytes.data() + w, bytes.data(), bytes.size() - w);
  } else if (fault == DataFault::overrun) {
    bytes.resize(bytes.size() + 16, std::byte{0x77});
  } else {
    return;
  }
  write_result(backend, bytes, buffers, local);
}

Bytes read_result(Backend& backend, const Operation& op, const Buffers& buffers, int local) {
  const std::size_t elements = local_extents(backend, op, backend.local_ranks()[local]).recv;
  return read(backend, buffers.recv, elements * op.problem.elem_size, local);
}

void write_result(Backend& backend, const Bytes& bytes, const Buffers& buffers, int local) {
  backend.copy_from_host(local, buffers.recv, bytes.data(), bytes.size());
}

}  // namespace busbar
