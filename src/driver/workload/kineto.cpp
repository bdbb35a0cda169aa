#include "common/base/error.h"
#include "common/base/sequences.h"
#include "common/base/text.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/kineto_event.h"
#include "driver/workload/timeline.h"
#include "driver/workload/trace_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace busbar {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr std::string_view kVllmStep = "execute_context_";
constexpr std::int64_t kMostTimeNs = 1'000'000'000'000'000;  // 11 days: sums of thousands fit
constexpr std::string_view kLoader = "enumerate(DataLoader)";

/// A call that c10d did not record: an annotation of an old trace, or one of another library.
struct OtherCall {
  CallShape shape;
  std::int64_t tid = -1, begin_ns = 0, end_ns = 0, id = -1;
};

/// An operation of an old trace, which has the output of the annotation within it.
struct Enclosing {
  std::int64_t end_ns = 0;
  std::optional<std::uint64_t> out_bytes;
};

class KinetoReader {
 public:
  explicit KinetoReader(const std::string& name) : name_(name) {}

  TraceRank read(const NextBytes& next) {
    KinetoEvents events([this](KinetoEvent& event) { take(event); });
    const JsonReading reading = read_json_events(next, events);
    is_old_ = rank_.calls.empty();
    if (is_old_) add_named();
    for (const OtherCall& call : others_) add(call.shape, rank_.group({}), call.begin_ns, call.id);
    if (rank_.calls.empty() && !reading.trouble.empty())
      throw_bad_config(fmt::format("{}: it {}", name_, reading.trouble));
    if (!events.is_trace()) throw_bad_config(name_ + ": no trace of PyTorch's profiler: it has no list of traceEvents");
    if (!reading.trouble.empty()) {
      rank_.remarks.push_back(
          fmt::format("the trace {}: what follows byte {} is not known", reading.trouble, reading.nbytes));
    }
    rank_.source.nbytes = reading.nbytes;
    describe(events.job());
    order();
    find_windows();
    timeline_.finish(windows_);
    add_times();
    fill_steps();
    tell();
    return std::move(rank_);
  }

 private:
  void take(KinetoEvent& event) {
    if (!event.complete || event.begin_ns == kNoTime) return;
    if (event.time_ns == kNoTime) event.time_ns = 0;
    if (event.time_ns < 0 || event.time_ns > kMostTimeNs) {
      ++backwards_;
      return;
    }
    switch (event.category) {
      case KinetoCategory::op:
        return take_op(event);
      case KinetoCategory::annotation:
        return take_annotation(event);
      case KinetoCategory::kernel:
        return take_kernel(event);
      case KinetoCategory::copy:
        add_interval(SpanKind::copying, event);
        return;
      default:
        return;
    }
  }

  void add_interval(SpanKind activity, const KinetoEvent& event) {
    timeline_.add(activity, event.begin_ns, event.time_ns, event.external_id);
    if (!timeline_.is_full()) return;
    // Markers come before kernels, because Kineto writes the CPU's events first. Without any, all is one window.
    if (windows_.empty()) set_windows(markers_.empty() ? context_markers_ : markers_);
    if (windows_.empty()) windows_.push_back({INT64_MIN, INT64_MAX, "whole trace"});
    timeline_.fold(windows_);
  }

  void take_kernel(const KinetoEvent& event) {
    const auto known = communicates_.find(event.name);
    constexpr std::size_t kMostNames = 1 << 16;
    const bool communicates =
        known != communicates_.end() ? known->second : builtin_line_rules().has("communication-kernels", event.name);
    if (known == communicates_.end() && communicates_.size() < kMostNames)
      communicates_.emplace(event.name, communicates);
    (communicates ? has_communication_ : has_compute_) = true;
    if (event.device >= 0 && devices_.size() < 64) devices_.insert(event.device);
    add_interval(communicates ? SpanKind::communicating : SpanKind::computing, event);
  }

  void take_op(KinetoEvent& event) {
    if (event.name == "record_param_comms") return take_record(event);
    if (event.name.starts_with("c10d::") && event.name.ends_with("_base_")) return take_enclosing(event);
    if (event.name.starts_with(kLoader)) return take_input(event);
    if (!event.name.starts_with("symm_mem::") || kind_of_symmetric(event.name) == CommKind::unknown) return;
    const auto tensor = std::ranges::find_if(event.elements, [](std::int64_t n) { return n >= 0; });
    const TraceType type = type_of_first(event);
    const auto nbytes = bytes_of(tensor == event.elements.end() ? -1 : *tensor, type.size);
    others_.push_back({{.call = kind_of_symmetric(event.name),
                        .dtype = type.name,
                        .in_bytes = nbytes,
                        .out_bytes = nbytes,
                        .via = "symm_mem"},
                       event.tid,
                       event.begin_ns,
                       event.begin_ns,
                       event.external_id});
  }

  static TraceType type_of_first(const KinetoEvent& event) {
    return type_of(event.types.empty() ? "" : event.types.front());
  }

  void add(const CallShape& shape, std::uint32_t group, std::int64_t begin_ns, std::int64_t id) {
    ids_.push_back(id);
    rank_.add_call(shape, group).begin_ns = begin_ns;
  }

  static CommKind kind_of_symmetric(std::string_view name) {
    return mentions(name, "all_reduce") ? CommKind::all_reduce : CommKind::unknown;
  }

  void take_input(const KinetoEvent& event) {
    has_input_ = true;
    timeline_.add(SpanKind::input, event.begin_ns, event.time_ns);
  }

  /// A call, with its arguments since PyTorch 2.2.
  void take_record(KinetoEvent& event) {
    const CommKind kind = kind_of(event.collective);
    if (event.collective.empty()) {
      // "wait" has one input less than a call.
      constexpr std::size_t kInputsOfWait = 6;
      if (event.inputs == kInputsOfWait) ++rank_.left_out["wait"];
      return;
    }
    if (kind == CommKind::barrier || event.collective == "wait" || event.collective == "init") {
      ++rank_.left_out[event.collective];
      return;
    }
    const TraceType type = type_of(event.dtype);
    CallShape shape{.call = kind,
                    .dtype = type.name,
                    .in_bytes = bytes_of(event.in_elements, type.size),
                    .out_bytes = bytes_of(event.out_elements, type.size),
                    .via = "c10d"};
    // PyTorch calls it all_to_allv only with splits.
    if (kind == CommKind::alltoall && event.unequal) shape.call = CommKind::alltoallv;
    if (const int rank = small(event.rank); rank >= 0 && (is_rooted(kind) || is_message(kind)))
      (is_rooted(kind) ? shape.root : shape.peer) = rank;
    if (kind == CommKind::unknown)
      ++rank_.left_out[fmt::format("of an unknown kind ({})", printable(event.collective))];
    bool cut = false;
    TraceGroup group{printable(event.group), printable(event.description), small(event.group_size),
                     ranks_in(event.ranks, cut)};
    if (cut || (group.size >= 0 && group.ranks.size() != static_cast<std::size_t>(group.size))) group.ranks.clear();
    add(shape, rank_.group(std::move(group)), event.begin_ns, event.external_id);
  }

  static int small(std::int64_t number) {
    constexpr std::int64_t kMost = 1 << 24;
    return number >= 0 && number < kMost ? static_cast<int>(number) : -1;
  }

  void take_annotation(KinetoEvent& event) {
    const std::string_view name = event.name;
    constexpr std::size_t kMostMarkers = 1 << 20;
    std::vector<StepWindow>* const markers = name.starts_with(kProfilerStep) ? &markers_
                                             : name.starts_with(kVllmStep)   ? &context_markers_
                                                                             : nullptr;
    if (markers != nullptr && markers->size() < kMostMarkers) {
      markers->push_back({event.begin_ns, event.begin_ns + event.time_ns, printable(name)});
    } else if (name.starts_with(kLoader)) {
      take_input(event);
    } else if (name.starts_with("nccl:") || name.starts_with("gloo:")) {
      take_named(event);
    }
  }

  /// A call of an older PyTorch: its input, and its kind in the name. PyTorch's all_to_all is by alltoall_base, which
  /// takes sizes per rank that are not recorded.
  void take_named(const KinetoEvent& event) {
    CommKind kind = kind_of(std::string_view(event.name).substr(5));
    if (kind == CommKind::alltoall) kind = CommKind::alltoallv;
    if (kind == CommKind::barrier || kind == CommKind::unknown) {
      ++rank_.left_out[kind == CommKind::barrier ? "barrier"
                                                 : fmt::format("of an unknown kind ({})", printable(event.name))];
      return;
    }
    if (!rank_.calls.empty()) return;  // a newer one
    std::int64_t elements = -1;
    for (const std::int64_t tensor : event.elements) {
      if (tensor >= 0) elements = (elements < 0 ? 0 : elements) + std::min(tensor, std::int64_t{1} << 50);
    }
    const TraceType type = type_of_first(event);
    CallShape shape{.call = kind, .dtype = type.name, .in_bytes = bytes_of(elements, type.size), .via = "c10d"};
    if (!has_other_output(kind)) shape.out_bytes = shape.in_bytes;
    named_.push_back({std::move(shape), event.tid, event.begin_ns, event.begin_ns + event.time_ns, event.external_id});
  }

  static bool has_other_output(CommKind kind) {
    return kind == CommKind::all_gather || kind == CommKind::reduce_scatter || kind == CommKind::alltoallv ||
           kind == CommKind::gather || kind == CommKind::scatter;
  }

  /// c10d::alltoall_base_ and the like: inputs are [out], [in], ...
  void take_enclosing(const KinetoEvent& event) {
    if (!rank_.calls.empty() || event.elements.empty() || event.elements.front() < 0) return;
    around_[{event.tid, event.begin_ns}] = {event.begin_ns + event.time_ns,
                                            bytes_of(event.elements.front(), type_of_first(event).size)};
  }

  /// Calls of an old trace, with the output that the operation around each has: a file has them in either order.
  void add_named() {
    for (OtherCall& call : named_) {
      auto around = around_.upper_bound({call.tid, call.begin_ns});
      const bool has_one = has_other_output(call.shape.call) && around != around_.begin() &&
                           (--around)->first.first == call.tid && call.end_ns <= around->second.end_ns;
      if (has_one) {
        call.shape.out_bytes = around->second.out_bytes;
        around_.erase(around);
      }
      add(call.shape, rank_.group({.name = {}, .description = {}, .size = group_size(call.shape), .ranks = {}}),
          call.begin_ns, call.id);
    }
  }

  /// The ratio of the output and the input.
  static int group_size(const CallShape& shape) {
    const bool gathers = shape.call == CommKind::all_gather;
    const auto whole = gathers ? shape.out_bytes : shape.in_bytes, part = gathers ? shape.in_bytes : shape.out_bytes;
    if ((!gathers && shape.call != CommKind::reduce_scatter) || !whole || !part || *part == 0 || *whole % *part != 0)
      return -1;
    return small(static_cast<std::int64_t>(*whole / *part));
  }

  void describe(const KinetoJob& job) {
    const auto number = [&](const char* key) {
      return small(number_of<std::int64_t>(text_in(job.facts, key)).value_or(-1));
    };
    rank_.rank = number("rank");
    rank_.nranks = number("world_size");
    rank_.source.version = printable(text_in(job.facts, "nccl_version"));
    for (TraceGroup& group : rank_.groups) {
      for (const KinetoJob::Facts& listed : job.groups) {
        if (group.name.empty() || printable(text_in(listed, "pg_name")) != group.name) continue;
        bool cut = false;
        std::vector<int> ranks = ranks_in(text_in(listed, "ranks"), cut);
        if (group.ranks.empty() && !cut && std::ssize(ranks) == group.size) group.ranks = std::move(ranks);
        if (group.description.empty()) group.description = printable(text_in(listed, "pg_desc"));
      }
    }
  }

  static std::string_view text_in(const KinetoJob::Facts& facts, const char* key) {
    const auto found = facts.find(key);
    return found == facts.end() ? std::string_view() : found->second;
  }

  /// Calls as they were made: threads write theirs one after another.
  void order() {
    std::vector<std::size_t> places(rank_.calls.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::ranges::stable_sort(places, {}, [&](std::size_t i) { return rank_.calls[i].begin_ns; });
    rank_.calls = mapped(places, [&](std::size_t i) { return rank_.calls[i]; });
    ids_ = mapped(places, [&](std::size_t i) { return ids_[i]; });
  }

  /// Markers in order, without overlaps.
  void set_windows(std::vector<StepWindow> markers) {
    std::ranges::sort(markers, {}, &StepWindow::begin_ns);
    std::set<std::string> seen;
    std::erase_if(markers, [&](const StepWindow& m) { return !seen.insert(m.name).second; });
    for (std::size_t i = 0; i + 1 < markers.size(); ++i)
      markers[i].end_ns = std::min(markers[i].end_ns, markers[i + 1].begin_ns);
    windows_ = std::move(markers);
  }

  void find_windows() {
    const std::vector<StepWindow>& markers = markers_.empty() ? context_markers_ : markers_;
    if (markers.empty()) return find_windows_by_repetition();
    rank_.source.steps = markers_.empty() ? "annotations execute_context_*" : "annotations ProfilerStep#N";
    if (!timeline_.folded()) set_windows(markers);
    for (const StepWindow& window : windows_) rank_.steps.emplace_back().name = window.name;
    for (TraceCall& call : rank_.calls) {
      const auto next = std::ranges::upper_bound(windows_, call.begin_ns, {}, &StepWindow::begin_ns);
      if (next == windows_.begin() || call.begin_ns >= std::prev(next)->end_ns) continue;
      rank_.put_into_step(call, static_cast<std::size_t>(next - windows_.begin() - 1));
    }
  }

  /// Without markers a step begins with the first call of a repetition.
  void find_windows_by_repetition() {
    if (!rank_.calls.empty()) find_steps(rank_);
    if (timeline_.folded()) {
      rank_.remarks.push_back(
          "no step is marked, and the trace is too long to look for steps in it: they have no times");
      return;
    }
    std::map<std::int32_t, std::int64_t> begins;
    for (const TraceCall& call : rank_.calls) {
      if (call.step >= 0) begins.try_emplace(call.step, call.begin_ns);
    }
    for (const auto& [step, begin_ns] : begins) {
      if (!windows_.empty()) windows_.back().end_ns = begin_ns;
      windows_.push_back({begin_ns, begin_ns});
    }
    if (windows_.size() > 1) {
      const StepWindow& before = windows_[windows_.size() - 2];
      windows_.back().end_ns += before.end_ns - before.begin_ns;
    } else if (const StepWindow all = timeline_.extent(); windows_.empty() && all.begin_ns < all.end_ns) {
      windows_.push_back(all);
      rank_.steps.emplace_back().name = "whole trace";
      rank_.steps.back().calls = rank_.calls.size();
      for (const TraceCall& call : rank_.calls) rank_.steps.back().nbytes += call.nbytes;
    }
  }

  /// Gives kernels to calls by the number that both have. Not by order: streams overtake each other, and a trace begins
  /// with kernels of earlier calls.
  void add_times() {
    std::unordered_map<std::int64_t, std::size_t> call_of;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] >= 0) call_of.try_emplace(ids_[i], i);
    }
    std::vector<const CommKernel*> left;
    const auto give = [](TraceCall& call, const CommKernel& kernel) {
      call.time_ns = std::min(std::max<std::int64_t>(call.time_ns, 0) + kernel.time_ns, kMostTimeNs);
      call.exposed_ns = std::min(call.exposed_ns + kernel.exposed_ns, call.time_ns);
    };
    for (const CommKernel& kernel : timeline_.kernels()) {
      const auto found = call_of.find(kernel.id);
      if (found != call_of.end())
        give(rank_.calls[found->second], kernel);
      else
        left.push_back(&kernel);
    }
    if (left.empty()) return;
    std::int64_t time_ns = 0;
    for (const CommKernel* kernel : left) time_ns += kernel->time_ns;
    rank_.remarks.push_back(
        fmt::format("{} of communication ({:.3g} ms) belong to no recorded call: {}", counted(left.size(), "kernel"),
                    1e-6 * static_cast<double>(time_ns),
                    is_old_ ? "before 2.2 PyTorch records no number that both have, so calls have no times"
                            : "calls made before the trace begins, replays of CUDA graphs, or libraries that do not "
                              "pass through c10d"));
  }

  void fill_steps() {
    rank_.has_kernels = has_communication_ || has_compute_;
    rank_.has_compute = has_compute_;
    rank_.has_input = has_input_;
    for (std::size_t i = 0; i < rank_.steps.size() && i < windows_.size(); ++i) {
      StepWindow window = windows_[i];
      if (window.begin_ns == INT64_MIN) window = timeline_.extent();
      WorkloadStep& step = rank_.steps[i];
      const StateTimes& state = timeline_.states()[i];
      step.time_s = seconds_of(window.end_ns - window.begin_ns);
      step.communicating_s = seconds_of(state.overlapped + state.exposed);
      step.on_gpu = has_compute_;
      if (!has_compute_) continue;  // what computes meanwhile is not in the trace
      step.computing_s = seconds_of(state.computing);
      step.overlapped_s = seconds_of(state.overlapped);
      step.exposed_s = seconds_of(state.exposed);
      step.copying_s = seconds_of(state.copying);
      step.idle_s = seconds_of(window.end_ns - window.begin_ns - state.busy);
      if (has_input_) step.input_s = seconds_of(state.input_idle);
    }
    rank_.lanes = std::move(timeline_.lanes());
    rank_.lanes.rank = rank_.rank;
    const std::size_t picture = Timeline::picture_of(windows_);
    if (picture >= rank_.steps.size()) return;
    rank_.lanes.step = rank_.steps[picture].name;
    rank_.lanes.time_s = rank_.steps[picture].time_s;
  }

  void tell() {
    if (backwards_ > 0)
      rank_.remarks.push_back(
          fmt::format("{} end before they begin, or last for days: left out", counted(backwards_, "event")));
    if (timeline_.too_late() > 0) {
      rank_.remarks.push_back(fmt::format("{} came long after others of their time: left out of the steps' times",
                                          counted(timeline_.too_late(), "interval")));
    }
    if (devices_.size() > 1) {
      rank_.remarks.push_back(fmt::format(
          "kernels of {} GPUs in one trace: the steps' times are of all of them together", devices_.size()));
    }
    if (const StepWindow all = timeline_.extent(); !windows_.empty() && all.begin_ns < all.end_ns &&
                                                   windows_.back().end_ns < all.end_ns &&
                                                   windows_.front().begin_ns != INT64_MIN) {
      const double after_s = seconds_of(all.end_ns - windows_.back().end_ns);
      const double step_s = seconds_of(windows_.back().end_ns - windows_.back().begin_ns);
      constexpr double kMuch = 0.05;
      if (after_s > kMuch * step_s) {
        rank_.remarks.push_back(
            fmt::format("GPU work goes on for {:.3g} ms after the last step ends: it is in no step", 1e3 * after_s));
      }
    }
  }

  const std::string& name_;
  TraceRank rank_;
  std::vector<std::int64_t> ids_;  ///< of each call: what its kernel has too
  std::vector<OtherCall> named_, others_;
  std::map<std::pair<std::int64_t, std::int64_t>, Enclosing> around_;  ///< by thread and beginning
  std::vector<StepWindow> markers_, context_markers_, windows_;
  Timeline timeline_;
  std::unordered_map<std::string, bool> communicates_;
  std::set<std::int64_t> devices_;
  std::uint64_t backwards_ = 0;
  bool has_communication_ = false, has_compute_ = false, has_input_ = false, is_old_ = false;
};

}  // namespace

TraceRank read_kineto(const NextBytes& next, const std::string& name) {
  TraceRank rank = KinetoReader(name).read(next);
  rank.source.kind = "Kineto trace";
  rank.source.calls = rank.calls.size();
  return rank;
}

}  // namespace busbar
