#include "common/measure/observed_steps.h"

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/packed_fields.h"
#include "common/base/units.h"
#include "common/measure/plan.h"
#include "common/measure/runner.h"
#include "common/processes/comm.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#if BUSBAR_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace busbar {
namespace {

#if BUSBAR_HAVE_NVTX
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kHandle = nvtxDomainCreateA("busbar");
  return kHandle;
}
#endif

using Arguments = std::vector<std::string>;

Arguments arguments_of(const Operation& op) {
  Arguments arguments{std::string(op.collective->name), fmt::format("count {}", op.problem.count),
                      fmt::format("type {}", name(op.dtype)), op.op ? fmt::format("op {}", name(*op.op)) : "no op",
                      op.in_place ? "in place" : "out of place"};
  if (op.collective->has_root) arguments.push_back(fmt::format("root {}", op.problem.root));
  return arguments;
}

bool all_equal(const Comm& world, const Arguments& arguments) {
  const auto mine = static_cast<std::int64_t>(hash(pack_fields(arguments)));
  std::int64_t both[2] = {mine, ~mine};  // the largest of ~x is ~ the smallest x
  world.max(both);
  return both[0] == ~both[1];
}

/// Processes that make the same call.
struct Party {
  Arguments arguments;
  std::vector<int> ranks;
  std::set<std::string> hosts;
};

/// The largest party first; of equal ones the one with the lowest rank.
std::vector<Party> parties_of(std::span<const AnnouncedCall> calls, int group) {
  std::vector<Party> parties;
  for (const AnnouncedCall& call : calls) {
    if (call.group != group) continue;
    auto at = std::ranges::find_if(parties, [&](const Party& p) { return p.arguments == call.arguments; });
    if (at == parties.end()) at = parties.insert(at, Party{call.arguments, {}, {}});
    at->ranks.push_back(call.rank);
    at->hosts.insert(call.host);
  }
  std::ranges::stable_sort(parties, [](const Party& a, const Party& b) { return a.ranks.size() > b.ranks.size(); });
  return parties;
}

/// The arguments at which the parties differ.
std::vector<std::size_t> differences(const std::vector<Party>& parties) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < parties.front().arguments.size(); ++i) {
    const auto differs = [&](const Party& p) {
      return p.arguments.size() <= i || p.arguments[i] != parties.front().arguments[i];
    };
    if (std::ranges::any_of(parties, differs)) at.push_back(i);
  }
  return at;
}

std::string with(const Party& party, const std::vector<std::size_t>& at) {
  std::vector<std::string> words;
  for (const std::size_t i : at)
    if (i < party.arguments.size()) words.push_back(party.arguments[i]);
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string who(const Party& party) {
  std::string text = fmt::format("rank{} {}", party.ranks.size() == 1 ? "" : "s", compress_ranks(party.ranks));
  if (party.hosts.size() > 4) return text + fmt::format(" on {} hosts", party.hosts.size());
  return text + fmt::format(" on {}", fmt::join(party.hosts, ", "));
}

std::string sentence(const std::vector<Party>& parties) {
  const std::vector<std::size_t> at = differences(parties);
  const bool majority = parties[0].ranks.size() > parties[1].ranks.size();
  std::vector<std::string> deviants;
  for (std::size_t i = majority ? 1 : 0; i < parties.size() && deviants.size() < 4; ++i) {
    const char* calls = parties[i].ranks.size() == 1 ? "is" : "are";
    deviants.push_back(fmt::format("{} {} about to call with {}", who(parties[i]), calls, with(parties[i], at)));
  }
  std::string text = fmt::format("{}", fmt::join(deviants, "; "));
  if (!majority) return text + "; there is no majority";
  const std::size_t others = parties[0].ranks.size();
  return text +
         fmt::format("; the other{} with {}", others == 1 ? "" : fmt::format(" {}", others), with(parties[0], at));
}

/// "all_reduce of 64 KiB float sum, in place".
std::string describe(const Operation& op) {
  return fmt::format("{} of {} {}{}{}", op.collective->name, format_bytes(message_bytes(*op.collective, op.problem)),
                     name(op.dtype), op.op ? fmt::format(" {}", name(*op.op)) : "",
                     op.in_place ? ", in place" : ", out of place");
}

}  // namespace

#if BUSBAR_HAVE_NVTX
// Without a tool NVTX creates no domain.
bool TraceRange::has_domain() { return domain() != nullptr; }

void TraceRange::push(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void TraceRange::pop() { nvtxDomainRangePop(domain()); }
#endif

double ExpectedTime::operation_s(double nbytes) const { return std::max(floor_s_, nbytes * seconds_per_byte_); }

void ExpectedTime::measured(double nbytes, double time_s) {
  if (time_s <= 0) return;
  floor_s_ = time_s;
  // A small message's time says nothing about bytes: scaled from it, a large one would get a day.
  constexpr double kLeastBytes = 1 << 20;
  if (nbytes >= kLeastBytes) seconds_per_byte_ = time_s / nbytes;
}

ObservedSteps::ObservedSteps(Observer& observer, const Backend& backend)
    : observer_(observer), backend_(backend), expected_(backend.traits().assumed_busbw) {}

void ObservedSteps::begin_step(const Collective& collective, const Case& row_case, bool in_place,
                               const StepWork& work) {
  // A slow core compares its slowest type slightly faster than this.
  constexpr double kDataRate = 0.2e9;  // [B/s]
  step_ = fmt::format("{}, {}, {}", describe(collective, row_case), in_place ? "in place" : "out of place", work.what);
  const Backend& backend = work.backend != nullptr ? *work.backend : backend_;
  const Operation op =
      backend.as_called({&collective, row_case.problem, row_case.dtype, row_case.op, in_place}, work.calls);
  const double messages = static_cast<double>(work.calls) * messages_per_call(collective, row_case.problem);
  const double calls_s = messages * expected_.operation_s(static_cast<double>(row_case.nbytes));
  observer_.begin_step(work.phase, step_, called_operation(op, row_case.nbytes, work.communicator), work.calls,
                       calls_s + work.bytes / kDataRate + work.seconds);
}

CalledOperation called_operation(const Operation& op, std::uint64_t nbytes, int communicator) {
  return {.communicator = communicator,
          .collective = std::string(op.collective->name),
          .count = op.problem.count,
          .dtype = std::string(name(op.dtype)),
          .op = std::string(op.op ? name(*op.op) : "none"),
          .root = shown_root(*op.collective, op.problem.root),
          .nbytes = nbytes,
          .in_place = op.in_place};
}

BUSBAR_RECORD(AnnouncedCall, rank, host, group, arguments);

std::string deviation(std::span<const AnnouncedCall> calls, std::string_view operation) {
  std::set<int> groups;
  for (const AnnouncedCall& call : calls) groups.insert(call.group);
  for (const int group : groups) {
    const std::vector<Party> parties = parties_of(calls, group);
    if (parties.size() < 2) continue;
    return fmt::format("ARG_MISMATCH in {}: {} (found by --paranoid before anybody called)", operation,
                       sentence(parties));
  }
  return {};
}

void compare_calls(const Comm& world, const Config& config, const Backend& backend, const Operation& op,
                   std::uint64_t calls) {
  if (!config.paranoid) return;
  const Arguments mine = arguments_of(backend.as_called(op, calls));
  if (all_equal(world, mine)) return;
  const int nlocal = static_cast<int>(backend.local_ranks().size());
  const AnnouncedCall call{world.rank() * nlocal, hostname(), split_color(config.split, world.rank()), mine};
  const std::vector<AnnouncedCall> announced = gather_records(world, std::vector<AnnouncedCall>{call});
  const std::string wrong = world.broadcast(deviation(announced, describe(op)), 0);
  // Empty if only groups differ, which have separate problems.
  if (!wrong.empty()) throw AgreedError(ExitCode::invalid_use, wrong);
}

}  // namespace busbar
