#pragma once

#include "common/measure/buffer_plan.h"
#include "common/measure/timed_loop.h"
#include "common/processes/comm.h"
#include "common/processes/global_clock.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace busbar {

/// The shape of one batch of samples; the same on all processes.
struct BatchShape {
  Cadence cadence = Cadence::isolated;  ///< not automatic
  int settle = 4;                       ///< calls before the first sample: the agreement disturbs the first few
  int samples = 20;
  int calls_per_sample = 1;
};

/// A batch as agreed by all processes, and this process's own part. Times are per call, or per message if a call is
/// several messages.
struct Batch {
  std::vector<double> time_s;  ///< per sample over the ranks: see estimand()
  std::vector<double> skew_s;  ///< per sample: last entry less first; empty if no host clock sees the entries
  double elapsed_s = 0;        ///< the longest wall time of the batch on any process, settling included
  double now_s = 0;            ///< since the sampler's creation, at the end of the batch, the largest of any process

  std::vector<double> own_s;   ///< this process's own duration of each sample
  std::vector<double> late_s;  ///< its entry less the first process's; empty if skew_s is
  std::vector<char> last;      ///< it entered last
  double own_start_s = 0;      ///< its mean time to start one (Backend::take_start_s); 0: not known
};

/// Takes batches of samples, for the statistical mode and comparisons. Inside a batch nothing communicates except the
/// operations and, if calls are isolated, the barrier before each (our own, so that the library under test does not
/// choose it). One agreement ends it.
class Sampler {
 public:
  Sampler(const Comm& world, const GlobalClock& clock, FailJob fail);

  /// Called before each batch, outside of all times, with the operation and the number of calls.
  using BeforeBatch = std::function<void(const Backend& backend, const Operation& op, std::uint64_t calls)>;
  void before_batches(BeforeBatch call) { before_batch_ = std::move(call); }

  /// Collective over `world`, with the same arguments. A failure inside must end the job.
  Batch measure(Backend& backend, const BufferPlan& buffer_plan, const BatchShape& shape);

  /// Time since its creation, on this process.
  double now_s() const;

 private:
  const Comm& world_;
  const GlobalClock& clock_;
  FailJob fail_;
  std::unique_ptr<SmallBarrier> barrier_;
  Clock::time_point start_;
  BeforeBatch before_batch_;
};

/// What a sample is over the ranks, as text: "last in to last out" if all ranks share a clock, else "the slowest rank's
/// own time".
const char* estimand(const Backend& backend, Cadence cadence, bool one_host);

/// The shape for an operation of about `call_s`: samples for `batch_s` of timing, between `least` and `most` of them;
/// calls are bundled if one is shorter than 20 clock readings. Pure.
BatchShape shape_for(double call_s, double clock_read_s, double batch_s, int least, int most, Cadence cadence);

/// Cost of one clock reading [s], the largest over the processes. Collective.
double clock_read_cost(const Comm& world);

/// Calls until times no longer fall, at least 10 and 10 ms, at most `limit_s`; the agreed result. Collective.
struct WarmUp {
  int calls = 0;
  double call_s = 0;  ///< median of the last group over the ranks' largest
  bool settled = true;
};
WarmUp warm_up(Sampler& sampler, Backend& backend, const BufferPlan& buffer_plan, Cadence cadence, double limit_s);

}  // namespace busbar
