#pragma once

#include "common/backends/backend.h"
#include "common/base/injection.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// How data go wrong, for detectors to be seen to find it.
enum class DataFault : std::uint8_t {
  flip,     ///< one bit of the result
  drop,     ///< the rank sends nothing: the op's neutral element, or bytes that nobody sent
  doubled,  ///< the rank's contribution counts twice (sum, prod)
  shift,    ///< the result lies one element too far
  overrun,  ///< 16 bytes after the receive buffer are written
};

/// Spoils what the local rank is about to send; nothing for faults of the result. Before the operation is enqueued.
void spoil_contribution(DataFault fault, Backend& backend, const Pattern& pattern, const Operation& op,
                        const Buffers& buffers, int local);

/// Spoils what the local rank received; nothing for faults of the contribution. After the operation is complete.
void spoil_result(DataFault fault, Backend& backend, const Operation& op, const Buffers& buffers, int local);

/// The local rank's result, and the same written.
std::vector<std::byte> read_result(Backend& backend, const Operation& op, const Buffers& buffers, int local);
void write_result(Backend& backend, const std::vector<std::byte>& bytes, const Buffers& buffers, int local);

void sleep_for_seconds(double seconds);

/// --inject for one process: its communicators count their operations together and share the fault, which happens once.
class Injector {
 public:
  /// `process` of the job drives the ranks from process x ranks per process on. Nothing: breaks nothing.
  /// `wait` lets so many seconds pass for kind=late.
  Injector(const std::optional<Injection>& injection, int process,
           std::function<void(double)> wait = sleep_for_seconds);

  /// Throws Error(bad_config) where a job of `nranks` has no such rank or this collective nothing to break so; the same
  /// on every rank.
  void check(int nranks, const Collective& collective) const;

  /// The backend, broken where it drives the rank; else as it was.
  std::unique_ptr<Backend> around(std::unique_ptr<Backend> backend) const;

  /// What the header must say, so that nobody takes the results for real.
  std::vector<std::string> remarks() const;

  /// What the communicators share.
  struct Fault;

 private:
  std::shared_ptr<Fault> fault_;
  int process_;
};

}  // namespace busbar
