#pragma once

#include "common/base/config.h"
#include "common/measure/sampler.h"
#include "common/measure/verify.h"
#include "common/measure/watched_steps.h"
#include "common/mpi/comm.h"
#include "driver/compare/comparison.h"
#include "driver/compare/variants.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace busbar {

/// Hosts of a communicator. Collective.
int count_nodes(const Comm& comm);

/// A variant's communicator, or why there is none.
struct OpenedVariant {
  std::unique_ptr<Backend> backend;  ///< null where why_not says why
  std::string why_not;
};

/// The variant's own communicator on `group`, made while its settings are in force; they are taken back afterwards.
/// Where the library refuses the settings, no backend but the reason. Collective over `world`; throws as open_backend
/// does for everything else.
OpenedVariant open_variant(const Variant& variant, const Collective& collective, const Config& config,
                           const Comm& world, const Comm& group);

/// The variants' order in a round: `active` shuffled; every second round is the mirror image of the one before, so that
/// each variant stands as early as late. Pure, so that all processes agree.
std::vector<std::size_t> round_order(std::uint64_t seed, std::uint64_t case_number, int round,
                                     std::vector<std::size_t> active);

/// Time that one of `cases_left` sizes may take [s]: what the small ones leave is for the large ones.
double case_budget_s(double now_s, double max_time_s, double cell_time_s, std::size_t cases_left);

/// Lowers the samples per batch until no batch takes longer than 5 `batch_s` and a round of all of them no longer than
/// `round_s`, as far as 3 samples each allow; where that is far too long still, 1. `sample_s`: what a sample of each
/// takes with all around it. Pure.
void fit_samples(std::span<BatchShape> shapes, std::span<const double> sample_s, double batch_s, double round_s);

/// Measures variants against each other, one size at a time, all of them in the same seconds: each round takes a batch
/// of every variant in random order, so that drift hits all alike. Everything it decides comes from agreed numbers.
class Rounds {
 public:
  struct Settings {
    double delta = 0.02;
    std::uint64_t seed = 1;
    Cadence cadence = Cadence::isolated;  ///< not automatic
    bool in_place = false;
    Whereabouts where;
  };
  /// What is under way, for a person's eyes.
  using Tell = std::function<void(const std::string& text)>;

  /// `baseline` owns the buffers, of `capacity` bytes per message; the other variants are given per case. Collective.
  Rounds(Backend& baseline, std::size_t capacity, const Comm& world, const Config& config, const Settings& settings,
         std::vector<RankInfo> local_ranks, Watchdog& watchdog, FailJob fail, Tell tell);

  /// One case; opened[0] is not looked at, the baseline stands for it; a variant
  /// that the library refuses at its first call is lost, and `opened` then says why. Collective; the same on every
  /// process but for `ran`, complete on process 0. A failure inside must end the job.
  ComparedCase run(const Collective& collective, const Case& row_case, std::span<const Variant> variants,
                   std::span<OpenedVariant> opened, std::size_t cases_left);

  /// Seconds since the start, agreed.
  double now_s() const { return now_s_; }

  /// The step under way, for the message of a failure.
  const std::string& step() const { return steps_.current(); }

 private:
  struct Racer {
    Backend* backend = nullptr;
    BatchShape shape;
  };

  bool try_out(Backend& backend, const Workload& workload, VariantCell& cell);
  void check(Backend& backend, const Workload& workload, VariantCell& cell);
  void shape_batches(std::vector<Racer>& racers, std::span<const std::size_t> active, const Workload& workload,
                     double budget_s);
  void race(ComparedCase& compared, std::vector<Racer>& racers, std::vector<std::size_t> active,
            const Workload& workload, double deadline_s);

  Backend& baseline_;
  const Comm& world_;
  const Config& config_;
  Settings settings_;
  std::vector<RankInfo> local_ranks_;
  WatchedSteps steps_;
  FailJob fail_;
  Tell tell_;
  Arena arena_;
  Verifier baseline_verifier_;
  GlobalClock clock_;
  Sampler sampler_;
  double clock_read_s_;
  double now_s_ = 0;
  std::uint64_t case_number_ = 0;
};

}  // namespace busbar
