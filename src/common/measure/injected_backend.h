#pragma once

#include "common/backends/backend.h"
#include "common/base/injection.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

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
