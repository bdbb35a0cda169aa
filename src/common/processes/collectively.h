#pragma once

#include "common/base/error.h"
#include "common/processes/comm.h"

#include <cstdint>
#include <functional>
#include <string>

namespace busbar {

/// Runs `work` on every process of `comm` and turns the failure of any one into the same AgreedError on all: the lowest
/// failing process's text, with rank, host and `step`. Collective. Only for work that is over when it throws: work with
/// a pending collective must abort the job instead (dune-common's MPIGuard has the idea).
void collectively(const Comm& comm, const std::string& step, const std::function<void()>& work);

/// The same for work with a result.
template <class Work>
auto collectively_get(const Comm& comm, const std::string& step, Work&& work) {
  decltype(work()) result{};
  collectively(comm, step, [&] { result = work(); });
  return result;
}

/// Runs `work` on process 0 alone. Its failure becomes the same AgreedError on all, with its own text: what one process
/// does for all blames no rank. Collective.
void on_process0(const Comm& comm, const std::function<void()>& work);

/// Throws the same AgreedError on all if the processes do not all have the same value. Collective.
void require_same(const Comm& comm, const std::string& what, std::uint64_t value);

}  // namespace busbar
