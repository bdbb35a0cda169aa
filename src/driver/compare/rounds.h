#pragma once

#include "common/base/config.h"
#include "common/measure/observed_steps.h"
#include "common/measure/sampler.h"
#include "common/measure/verify.h"
#include "common/processes/comm.h"
#include "common/watch/watchdog.h"
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
  std::unique_ptr<Backend> backend;  ///< null if why_not says why
  std::string why_not;
};

/// The variant's own communicator on `group`, made while its settings are in force; they are taken back afterwards.
/// If the library refuses the settings, no backend but the reason. Collective over `world`; throws as open_backend
/// does for everything else.
OpenedVariant open_variant(const Variant& variant, const Collective& collective, const Config& config,
                           const Comm& world, const Comm& group);

/// A shuffled order of `active`; every second one is the mirror image of the one before, so that each variant comes as
/// early as late. For variants in a turn and sizes in a round. Pure, so that all processes agree.
std::vector<std::size_t> turn_order(std::uint64_t seed, std::uint64_t stream, int turn,
                                    std::vector<std::size_t> active);

/// Rounds that all sizes may get if opening the communicators of one takes so long: as many as the last look wants,
/// fewer if that would take more than half of the time that is left, but not fewer than the first look wants.
int affordable_rounds(double opening_s, double left_s);

/// Time that one of `visits_left` visits may take [s], at most `most_s`: what the small sizes leave is for the large
/// ones.
double visit_budget_s(double now_s, double max_time_s, double most_s, std::size_t visits_left);

/// Lowers the samples per batch until no batch takes longer than 5 `batch_s` and a round of all of them no longer than
/// `round_s`, as far as 3 samples each allow; if that is far too long still, 1. `sample_s`: what a sample of each
/// takes with all around it. Pure.
void fit_samples(std::span<BatchShape> shapes, std::span<const double> sample_s, double batch_s, double round_s);

/// What a round measures with: new communicators each time, and buffers that are the first one's.
struct RoundSet {
  std::vector<OpenedVariant> opened;
  std::vector<std::shared_ptr<void>> watched;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Verifier> verifier;

  Backend& baseline() const { return *opened.front().backend; }
};

/// One size, from its first round to its last.
struct ComparedSize {
  ComparedCase compared;
  std::uint64_t number = 0;         ///< of all that were ever begun
  std::vector<std::size_t> active;  ///< variants that are measured on
  bool over = false;                ///< decided, or there is nothing to compare with
};

/// Measures variants against each other in rounds. A round is a set of new communicators and new buffers, a visit to
/// each size, and turns in it: a batch of every variant in random order, so that drift hits all alike. So rounds also
/// differ by what two communicators with the same settings differ by. Everything it decides comes from agreed numbers.
class Rounds {
 public:
  struct Settings {
    double delta = 0.02;
    std::uint64_t seed = 1;
    Cadence cadence = Cadence::isolated;  ///< not automatic
    bool in_place = false;
    Whereabouts where;
  };
  /// What is under way, for people.
  using ReportProgress = std::function<void(const std::string& text)>;

  /// `like`: a backend as those of the variants. Collective.
  Rounds(const Backend& like, const Comm& world, const Config& config, const Settings& settings,
         std::vector<RankInfo> local_ranks, Observer& observer, FailJob fail, ReportProgress report);

  ComparedSize start(const Case& row_case, std::size_t nvariants);

  /// Buffers of `capacity` bytes per message, for all variants; `set` then says which cannot register them. Collective.
  void allocate(RoundSet& set, std::size_t capacity) const;

  /// One size's turns in this round, within `budget_s` but for the least that is needed; nothing without a budget. A
  /// variant that the library refuses at its first call is lost, and `set` then says why. Collective; the same on every
  /// process but for `ran`, complete on process 0. A failure inside must end the job.
  void visit(ComparedSize& size, const Collective& collective, std::span<const Variant> variants, RoundSet& set,
             double budget_s);

  /// Judges what the rounds so far have brought, and takes out of the size what is confidently slower.
  void look(ComparedSize& size) const;

  /// Seconds since the start, agreed at the end of the last batch or agree_on_now().
  double now_s() const { return now_s_; }
  /// Collective.
  double agree_on_now();

  /// The step under way, for the message of a failure.
  const std::string& step() const { return steps_.current(); }

 private:
  struct Candidate {
    Backend* backend = nullptr;
    BatchShape shape;
  };

  void prepare(ComparedSize& size, std::span<const Variant> variants, RoundSet& set, const BufferPlan& buffer_plan);
  bool try_out(Backend& backend, const BufferPlan& buffer_plan, VariantCell& cell);
  void check(Backend& backend, RoundSet& set, const BufferPlan& buffer_plan, VariantCell& cell);
  void shape_batches(std::vector<Candidate>& candidates, std::span<const std::size_t> active,
                     const BufferPlan& buffer_plan, double budget_s);
  void take_turns(ComparedSize& size, std::vector<Candidate>& candidates, const BufferPlan& buffer_plan,
                  double deadline_s);

  const Comm& world_;
  const Config& config_;
  Settings settings_;
  std::vector<RankInfo> local_ranks_;
  ObservedSteps steps_;
  FailJob fail_;
  ReportProgress report_;
  GlobalClock clock_;
  Sampler sampler_;
  double clock_read_s_;
  double now_s_ = 0;
  std::uint64_t sizes_ = 0;
};

}  // namespace busbar
