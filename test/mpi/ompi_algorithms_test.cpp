// Would catch: a forced algorithm that does not reach the communicator (Open MPI ignores it in silence), stays behind
// for the next one, gives wrong data, ends the job, or is shown where another one runs.

#include "backend_fixture.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/base/error.h"
#include "common/processes/mpi/mpi_session.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using namespace busbar::test;

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr std::uint64_t kSegment = 1024;

/// Nothing here applies to another MPI library; there all cases pass empty.
bool is_open_mpi() { return mpi_library_version().starts_with("Open MPI"); }

std::unique_ptr<Backend> make_forced(const Collective& c, const Settings& settings, const Comm& comm) {
  const TunedSettings forced(c, settings, comm.size());
  return make_mpi_backend(comm, comm.size());
}

std::string refusal(const Collective& c, const Settings& settings) {
  try {
    const TunedSettings forced(c, settings, 2);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

/// What of the algorithm's cases went wrong, over all sizes, roots and placements; empty: nothing.
std::string run_cases(const Comm& comm, const MpiCollective& known, const OmpiChoice& choice, int& ran) {
  const Collective& c = collective(known.id);
  Settings settings{{"ompi.algorithm", std::to_string(choice.algorithm)}};
  if (choice.segment_bytes > 0) settings.emplace_back("ompi.segmentsize", std::to_string(choice.segment_bytes));
  const auto backend = make_forced(c, settings, comm);
  const Arena arena(*backend, 1 << 18, 64);
  Verifier verifier(*backend, local_ranks(*backend));
  const Traffic traffic;
  for (const std::size_t nbytes :
       {std::size_t{0}, std::size_t{4}, std::size_t{64}, std::size_t{5000}, std::size_t{1} << 18}) {
    for (const int root : roots_of(c, comm.size())) {
      if (root != 0 && root != comm.size() - 1) continue;
      const std::optional<Op> op = c.has_op ? std::optional(Op::sum) : std::nullopt;
      const Case row = make_case(c, DType::float32, op, root, nbytes, comm.size(), traffic);
      for (const bool in_place : {false, true}) {
        const Operation operation{&c, row.problem, DType::float32, op, in_place};
        const std::string title = fmt::format("{} {} of {} root {}{}", c.name, describe(known.id, choice), nbytes, root,
                                              in_place ? " in place" : "");
        if (in_place && c.in_place == nullptr) continue;
        const auto reason = why_not(choice, operation);
        const std::string shown = backend->observe_end(operation).algorithm;
        const std::string expected = comm.size() == 1 ? "default" : reason ? "unknown" : describe(known.id, choice);
        if (shown != expected) return fmt::format("{}: shown as {}", title, shown);
        if (reason && reason->find("refuses") != std::string::npos) continue;
        const BufferPlan buffer_plan(*backend, arena, c, row, in_place, 0, 4);
        const auto wrong = verifier.verify_once(buffer_plan, false, never);
        if (!wrong.empty()) return title + ": " + wrong[0].explanation;
        ++ran;
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE("Every algorithm of every collective gives right data and is shown by its name", "[ompi_algorithms][seven]") {
  if (!is_open_mpi()) return;
  const Comm comm = world();
  std::string wrong;
  int ran = 0;
  for (const CollectiveId id : kAllCollectives) {
    const MpiCollective* known = ompi_collective(id);
    if (known == nullptr) continue;
    for (const MpiAlgorithm& algorithm : known->algorithms) {
      for (const std::uint64_t segment : {std::uint64_t{0}, kSegment}) {
        if (segment > 0 && id == CollectiveId::alltoallv) continue;  // the one without a segment size
        const std::string found = run_cases(comm, *known, {algorithm.id, segment}, ran);
        if (wrong.empty()) wrong = found;
      }
    }
  }
  CHECK(wrong == "");
  CHECK(ran > 100);
  REQUIRE(comm.sum(std::int64_t{wrong.empty() ? 0 : 1}) == 0);
}

TEST_CASE("Forced settings end with their scope and do not touch older communicators", "[ompi_algorithms]") {
  if (!is_open_mpi()) return;
  const Comm comm = world();
  const Problem problem{1000, 4, comm.size(), 0, nullptr};
  const Operation op{&kAllReduce, problem, DType::float32, Op::sum, false};
  const auto before = make_mpi_backend(comm, comm.size());
  const auto ring = make_forced(kAllReduce, {{"ompi.algorithm", "ring"}}, comm);
  const auto after = make_mpi_backend(comm, comm.size());
  const std::string expected = comm.size() == 1 ? "default" : "ring";
  CHECK(before->observe_end(op).algorithm == "default");
  CHECK(ring->observe_end(op).algorithm == expected);
  CHECK(after->observe_end(op).algorithm == "default");
  const Operation other{&kBroadcast, problem, DType::float32, std::nullopt, false};
  CHECK(ring->observe_end(other).algorithm == "default");
  const Operation without{&kSendrecv, problem, DType::float32, std::nullopt, false};
  CHECK(ring->observe_end(without).algorithm == "-");
  CHECK(mpi_tool().read("coll_tuned_allreduce_algorithm") == "0");
}

TEST_CASE("Aggregated calls are nonblocking ones, of which nothing is known", "[ompi_algorithms]") {
  const Comm comm = world();
  const auto backend = make_mpi_backend(comm, comm.size());
  std::vector<float> send(8, 1), recv(8);
  const Operation op{&kAllReduce, {8, 4, comm.size(), 0, nullptr}, DType::float32, Op::sum, false};
  const std::vector<Buffers> buffers{{send.data(), recv.data()}};
  backend->enqueue(0, op, buffers);
  CHECK((backend->observe_end(op).algorithm == "default" || !is_open_mpi()));
  backend->group_begin(0);
  backend->enqueue(0, op, buffers);
  backend->group_end(0);
  CHECK(backend->observe_end(op).algorithm == "unknown");
}

TEST_CASE("A setting that cannot be is an error that names the choices, and leaves nothing behind",
          "[ompi_algorithms]") {
  if (!is_open_mpi()) return;
  CHECK(refusal(kAllReduce, {{"ompi.algorithm", "ringg"}}).find("did you mean ring?") != std::string::npos);
  CHECK(refusal(kAllReduce, {{"ompi.algorithm", "ring"}, {"ompi.segmentsize", "lots"}}) != "");
  CHECK(mpi_tool().read("coll_tuned_allreduce_algorithm") == "0");
  CHECK(refusal(kAllReduce, {{"ompi.fanout", "4"}}).find("ompi.segmentsize") != std::string::npos);
  CHECK(refusal(kAllReduce, {{"ompi.coll_tuned_nonsense", "4"}}).find("no variable") != std::string::npos);
  CHECK(refusal(kAllReduce, {{"ompi.coll_tuned_allgatherv_algorithm", "3"}}).find("at launch") != std::string::npos);
  CHECK(refusal(kSendrecv, {{"ompi.algorithm", "ring"}}).find("no algorithm to choose") != std::string::npos);
  CHECK(refusal(kBroadcast, {{"ompi.coll_tuned_bcast_algorithm_knomial_radix", "3"}}).empty());
  CHECK(mpi_tool().read("coll_tuned_bcast_algorithm_knomial_radix") == "4");
  CHECK_THROWS_AS(mpi_tool().write("coll_tuned_allgatherv_algorithm", "0"), Error);
}

TEST_CASE("What decides is shown: another library, another component, a rule, a variable", "[ompi_algorithms]") {
  const Operation op{&kAllReduce, {1000, 4, 4, 0, nullptr}, DType::float32, Op::sum, false};
  TunedState state;
  CHECK(shown_algorithm(state, op) == "unknown");  // no Open MPI
  state.known = true;
  state.rules = parse_ompi_rules("1 2 1 4 2 0 0 0 0 4000 3 0 0").rules;
  state.forced[CollectiveId::all_reduce] = {4, 0};
  CHECK(shown_algorithm(state, op) == "default");  // without dynamic rules all of that is ignored
  state.dynamic = true;
  CHECK(shown_algorithm(state, op) == "rule:recursive_doubling");
  state.forced_first = true;  // Open MPI 5
  CHECK(shown_algorithm(state, op) == "ring");
  state.forced.clear();
  CHECK(shown_algorithm(state, op) == "rule:recursive_doubling");
  const Operation smaller{&kAllReduce, {999, 4, 4, 0, nullptr}, DType::float32, Op::sum, false};
  CHECK(shown_algorithm(state, smaller) == "default");
  state.rules = parse_ompi_rules("1 2 1 4 1 0 4 0 0").rules;
  const Operation tiny{&kAllReduce, {3, 4, 4, 0, nullptr}, DType::float32, Op::sum, false};
  CHECK(shown_algorithm(state, tiny) == "rule:unknown");  // Open MPI falls back
  state.overtaken_by = "hcoll";
  CHECK(shown_algorithm(state, op) == "unknown");
}

TEST_CASE("Our table of algorithms is the library's own", "[ompi_algorithms]") {
  if (!is_open_mpi()) return;
  mpi_tool().start();
  for (const CollectiveId id : kAllCollectives) {
    const MpiCollective* known = ompi_collective(id);
    if (known == nullptr) continue;
    const auto offered = mpi_tool().choices(fmt::format("coll_tuned_{}_algorithm", known->name));
    for (const MpiAlgorithm& algorithm : known->algorithms) {
      const bool found = std::any_of(offered.begin(), offered.end(), [&](const auto& choice) {
        return choice.first == algorithm.id && choice.second == algorithm.name;
      });
      CHECK((found || offered.empty()));
      if (!found) WARN(known->name << " " << algorithm.name);
    }
  }
}
