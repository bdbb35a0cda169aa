#include "common/measure/observed_steps.h"

#include "common/measure/runner.h"

#include <fmt/format.h>
#if BUSBAR_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include <algorithm>

namespace busbar {

#if BUSBAR_HAVE_NVTX
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kHandle = nvtxDomainCreateA("busbar");
  return kHandle;
}

}  // namespace

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

}  // namespace busbar
