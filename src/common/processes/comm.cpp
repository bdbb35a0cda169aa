#include "common/processes/comm.h"

#include "common/base/text.h"
#include "common/processes/session.h"

#include <fmt/format.h>

namespace busbar {
namespace {

/// How `work` failed on this process; code 0: it did not.
struct Failure {
  int code = 0;
  std::string text;
};

Failure failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return {static_cast<int>(e.code()), e.what()};
  } catch (const std::exception& e) {
    return {static_cast<int>(ExitCode::internal), e.what()};
  }
  return {};
}

}  // namespace

void collectively(const Comm& comm, const std::string& step, const std::function<void()>& work) {
  Failure failure = failure_of(work);
  const std::int64_t nobody = comm.size();
  const std::int64_t first = comm.min(failure.code != 0 ? std::int64_t{comm.rank()} : nobody);
  if (first == nobody) return;

  const int first_failed = static_cast<int>(first);
  const std::int64_t others = comm.sum(std::int64_t{failure.code != 0 ? 1 : 0}) - 1;
  comm.broadcast(&failure.code, sizeof failure.code, first_failed);
  const auto exit_code = static_cast<ExitCode>(failure.code);
  // If every rank finds the same error in the command line or the plan, no rank needs to be blamed.
  const bool common =
      others + 1 == comm.size() && (exit_code == ExitCode::bad_config || exit_code == ExitCode::not_possible);
  if (comm.rank() == first_failed && !common) {
    failure.text = fmt::format("rank {} on {}, {}: {}", first_failed, hostname(), step, failure.text);
    if (others > 0) failure.text += fmt::format(" (and {})", counted(others, "more rank"));
  }
  throw AgreedError(exit_code, comm.broadcast(failure.text, first_failed));
}

void on_process0(const Comm& comm, const std::function<void()>& work) {
  Failure failure;
  if (comm.rank() == 0) failure = failure_of(work);
  comm.broadcast(&failure.code, sizeof failure.code, 0);
  if (failure.code != 0) throw AgreedError(static_cast<ExitCode>(failure.code), comm.broadcast(failure.text, 0));
}

void require_same(const Comm& comm, const std::string& what, std::uint64_t value) {
  std::uint64_t reference = value;
  comm.broadcast(&reference, sizeof reference, 0);
  collectively(comm, "agreeing on " + what, [&] {
    if (value == reference) return;
    throw_bad_config(fmt::format(
        "{} differs from rank 0's: start every rank with the same arguments, environment and version", what));
  });
}

std::string Comm::broadcast(std::string text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(&length, sizeof length, root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), text.size(), root);
  return text;
}

bool on_one_host(const Comm& world) { return world.min(std::int64_t{world.split_by_host().size()}) == world.size(); }

}  // namespace busbar
