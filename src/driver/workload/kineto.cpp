#include "driver/workload/kineto.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/kineto_event.h"
#include "driver/workload/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
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

struct Marker {
  std::string name;
  StepWindow window;
};

/// An annotation of an old trace that waits for the operation around it, which has the output's size, or the other way
/// round: a file has them in either order.
struct Enclosed {
  std::int64_t begin_ns = 0, end_ns = -1;
  std::uint32_t call = 0;
  CommKind kind = CommKind::unknown;
  std::int64_t out_elements = -1;
};

/// Calls that were recorded in one way.
struct Recorded {
  TraceRank rank;
  std::vector<std::int64_t> ids;  ///< of each call: what its kernel has too

  TraceCall& add(const TraceCallKey& key, std::int64_t begin_ns, std::int64_t id) {
    ids.push_back(id);
    TraceCall& call = rank.add_call(key);
    call.begin_ns = begin_ns;
    return call;
  }
};

class KinetoReader {
 public:
  explicit KinetoReader(const std::string& name) : name_(name) {}

  TraceRank read(const NextBytes& next) {
    KinetoEvents events([this](KinetoEvent& event) { take(event); });
    const JsonReading reading = read_json_events(next, events);
    const KinetoJob& job = events.job();
    Recorded& chosen = !by_args_.rank.calls.empty() ? by_args_ : by_annotation_;
    is_old_ = &chosen == &by_annotation_;
    add_others(chosen);
    if (chosen.rank.calls.empty() && !reading.trouble.empty())
      throw_bad_config(fmt::format("{}: it {}", name_, reading.trouble));
    if (!events.is_trace()) throw_bad_config(name_ + ": no trace of PyTorch's profiler: it has no list of traceEvents");
    TraceRank rank = std::move(chosen.rank);
    if (!reading.trouble.empty()) {
      rank.remarks.push_back(
          fmt::format("the trace {}: what follows byte {} is not known", reading.trouble, reading.nbytes));
    }
    rank.source.nbytes = reading.nbytes;
    rank.left_out = left_out_;
    describe(rank, job);
    order(rank, chosen.ids);
    find_windows(rank);
    timeline_.finish(windows_);
    add_times(rank, chosen.ids);
    fill_steps(rank);
    tell(rank);
    return rank;
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
    if (windows_.empty()) windows_.push_back({INT64_MIN, INT64_MAX});
    timeline_.fold(windows_);
  }

  void take_kernel(const KinetoEvent& event) {
    const auto known = communicates_.find(event.name);
    constexpr std::size_t kMostNames = 1 << 16;
    const bool communicates = known != communicates_.end() ? known->second : is_communication_kernel(event.name);
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
    const TraceType type = type_of(event.types.empty() ? "" : event.types.front());
    TraceCallKey key{.kind = kind_of_symmetric(event.name), .dtype = type.name, .via = "symm_mem"};
    key.in_bytes = key.out_bytes = bytes_of(tensor == event.elements.end() ? -1 : *tensor, type.size);
    others_.add(key, event.begin_ns, event.external_id);
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
      if (event.inputs == kInputsOfWait) ++left_out_["wait"];
      return;
    }
    if (kind == CommKind::barrier || event.collective == "wait" || event.collective == "init") {
      ++left_out_[event.collective];
      return;
    }
    const TraceType type = type_of(event.dtype);
    TraceCallKey key{.kind = kind, .dtype = type.name, .via = "c10d"};
    // PyTorch calls it all_to_allv only with splits.
    if (kind == CommKind::alltoall && event.unequal) key.kind = CommKind::alltoallv;
    key.in_bytes = bytes_of(event.in_elements, type.size);
    key.out_bytes = bytes_of(event.out_elements, type.size);
    if (kind == CommKind::broadcast || kind == CommKind::reduce || kind == CommKind::gather ||
        kind == CommKind::scatter) {
      key.root = small(event.rank);
    }
    if (kind == CommKind::send || kind == CommKind::recv) key.peer = small(event.rank);
    if (kind == CommKind::unknown) ++left_out_[fmt::format("of an unknown kind ({})", printable(event.collective))];
    bool cut = false;
    TraceGroup group{printable(event.group), printable(event.description), small(event.group_size),
                     ranks_in(event.ranks, cut)};
    if (cut || (group.size >= 0 && group.ranks.size() != static_cast<std::size_t>(group.size))) group.ranks.clear();
    key.group = by_args_.rank.group(std::move(group));
    by_args_.add(key, event.begin_ns, event.external_id);
  }

  static int small(std::int64_t number) {
    constexpr std::int64_t kMost = 1 << 24;
    return number >= 0 && number < kMost ? static_cast<int>(number) : -1;
  }

  void take_annotation(KinetoEvent& event) {
    const std::string_view name = event.name;
    constexpr std::size_t kMostMarkers = 1 << 20;
    if (name.starts_with(kProfilerStep) && markers_.size() < kMostMarkers) {
      markers_.push_back({printable(name), {event.begin_ns, event.begin_ns + event.time_ns}});
    } else if (name.starts_with(kVllmStep) && context_markers_.size() < kMostMarkers) {
      context_markers_.push_back({printable(name), {event.begin_ns, event.begin_ns + event.time_ns}});
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
    if (kind == CommKind::barrier) {
      ++left_out_["barrier"];
      return;
    }
    if (kind == CommKind::unknown) {
      ++left_out_[fmt::format("of an unknown kind ({})", printable(event.name))];
      return;
    }
    std::int64_t elements = -1;
    for (const std::int64_t tensor : event.elements) {
      if (tensor >= 0) elements = (elements < 0 ? 0 : elements) + std::min(tensor, std::int64_t{1} << 50);
    }
    const TraceType type = type_of(event.types.empty() ? "" : event.types.front());
    TraceCallKey key{.kind = kind, .dtype = type.name, .via = "c10d"};
    key.in_bytes = bytes_of(elements, type.size);
    if (!has_other_output(kind)) key.out_bytes = key.in_bytes;
    key.group = by_annotation_.rank.group({});
    Enclosed& around = around_[event.tid];
    const std::int64_t end_ns = event.begin_ns + event.time_ns;
    if (has_other_output(kind) && around.out_elements >= 0 && around.begin_ns <= event.begin_ns &&
        end_ns <= around.end_ns) {
      complete(key, around.out_elements, type.size);
      around.out_elements = -1;
    } else if (has_other_output(kind)) {
      waiting_[event.tid] = {event.begin_ns, end_ns, static_cast<std::uint32_t>(by_annotation_.rank.calls.size()), kind,
                             -1};
    }
    by_annotation_.add(key, event.begin_ns, event.external_id);
  }

  static bool has_other_output(CommKind kind) {
    return kind == CommKind::all_gather || kind == CommKind::reduce_scatter || kind == CommKind::alltoallv ||
           kind == CommKind::gather || kind == CommKind::scatter;
  }

  /// The output, and the group's size, which is the ratio of both.
  void complete(TraceCallKey& key, std::int64_t out_elements, std::uint64_t size) {
    key.out_bytes = bytes_of(out_elements, size);
    const bool gathers = key.kind == CommKind::all_gather, scatters = key.kind == CommKind::reduce_scatter;
    const std::uint64_t whole = gathers ? key.out_bytes : key.in_bytes, part = gathers ? key.in_bytes : key.out_bytes;
    if ((!gathers && !scatters) || part == 0 || whole == kUnknownBytes || part == kUnknownBytes || whole % part != 0)
      return;
    key.group = by_annotation_.rank.group(
        {.name = {}, .description = {}, .size = small(static_cast<std::int64_t>(whole / part)), .ranks = {}});
  }

  /// c10d::alltoall_base_ and the like: inputs are [out], [in], ...
  void take_enclosing(const KinetoEvent& event) {
    if (event.elements.empty() || event.elements.front() < 0) return;
    Enclosed op{event.begin_ns, event.begin_ns + event.time_ns, 0, CommKind::unknown, event.elements.front()};
    const auto waits = waiting_.find(event.tid);
    if (waits != waiting_.end() && op.begin_ns <= waits->second.begin_ns && waits->second.end_ns <= op.end_ns) {
      TraceCall& call = by_annotation_.rank.calls[waits->second.call];
      TraceCallKey key = by_annotation_.rank.operations[call.operation];
      complete(key, op.out_elements, type_of(event.types.empty() ? "" : event.types.front()).size);
      call.operation = by_annotation_.rank.operation(key);
      call.nbytes = key.nbytes();
      waiting_.erase(waits);
      return;
    }
    around_[event.tid] = op;
  }

  /// Calls that do not pass through c10d join those that do.
  void add_others(Recorded& chosen) {
    for (std::size_t i = 0; i < others_.rank.calls.size(); ++i) {
      TraceCallKey key = others_.rank.operations[others_.rank.calls[i].operation];
      key.group = chosen.rank.group({});
      chosen.add(key, others_.rank.calls[i].begin_ns, others_.ids[i]);
    }
  }

  void describe(TraceRank& rank, const KinetoJob& job) {
    rank.rank = small(job.rank);
    rank.nranks = small(job.nranks);
    rank.source.version = printable(job.version);
    for (TraceGroup& group : rank.groups) {
      for (const KinetoJob::Group& listed : job.listed) {
        if (group.name.empty() || printable(listed.name) != group.name) continue;
        bool cut = false;
        std::vector<int> ranks = ranks_in(listed.ranks, cut);
        if (group.ranks.empty() && !cut && std::ssize(ranks) == group.size) group.ranks = std::move(ranks);
        if (group.description.empty()) group.description = printable(listed.description);
      }
    }
  }

  /// Calls as they were made: threads write theirs one after another.
  static void order(TraceRank& rank, std::vector<std::int64_t>& ids) {
    std::vector<std::size_t> places(rank.calls.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::ranges::stable_sort(places, {}, [&](std::size_t i) { return rank.calls[i].begin_ns; });
    std::vector<TraceCall> calls;
    std::vector<std::int64_t> ordered;
    for (const std::size_t i : places) {
      calls.push_back(rank.calls[i]);
      ordered.push_back(ids[i]);
    }
    rank.calls = std::move(calls);
    ids = std::move(ordered);
  }

  /// Windows in order, without overlaps; `markers` become the same.
  void set_windows(std::vector<Marker>& markers) {
    std::ranges::sort(markers, {}, [](const Marker& m) { return m.window.begin_ns; });
    std::set<std::string> seen;
    std::erase_if(markers, [&](const Marker& m) { return !seen.insert(m.name).second; });
    for (std::size_t i = 0; i + 1 < markers.size(); ++i) {
      markers[i].window.end_ns = std::min(markers[i].window.end_ns, markers[i + 1].window.begin_ns);
    }
    windows_.clear();
    for (const Marker& marker : markers) windows_.push_back(marker.window);
  }

  void find_windows(TraceRank& rank) {
    std::vector<Marker>& markers = markers_.empty() ? context_markers_ : markers_;
    if (markers.empty()) return find_windows_by_repetition(rank);
    rank.source.steps = markers_.empty() ? "annotations execute_context_*" : "annotations ProfilerStep#N";
    if (!timeline_.folded()) set_windows(markers);
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      WorkloadStep& step = rank.steps.emplace_back();
      step.name = i < markers.size() ? markers[i].name : "whole trace";
    }
    for (TraceCall& call : rank.calls) {
      const auto next = std::ranges::upper_bound(windows_, call.begin_ns, {}, &StepWindow::begin_ns);
      if (next == windows_.begin() || call.begin_ns >= std::prev(next)->end_ns) continue;
      const auto step = next - windows_.begin() - 1;
      call.step = static_cast<std::int32_t>(step);
      ++rank.steps[static_cast<std::size_t>(step)].calls;
      rank.steps[static_cast<std::size_t>(step)].nbytes += call.nbytes;
    }
  }

  /// Without markers a step begins with the first call of a repetition.
  void find_windows_by_repetition(TraceRank& rank) {
    if (!rank.calls.empty()) find_steps(rank);
    if (timeline_.folded()) {
      rank.remarks.push_back(
          "no step is marked, and the trace is too long to look for steps in it: they have no times");
      return;
    }
    std::map<std::int32_t, std::int64_t> begins;
    for (const TraceCall& call : rank.calls) {
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
      rank.steps.emplace_back().name = "whole trace";
      rank.steps.back().calls = rank.calls.size();
      for (const TraceCall& call : rank.calls) rank.steps.back().nbytes += call.nbytes;
    }
  }

  /// Gives kernels to calls by the number that both have. Not by order: streams overtake each other, and a trace begins
  /// with kernels of earlier calls.
  void add_times(TraceRank& rank, const std::vector<std::int64_t>& ids) {
    std::unordered_map<std::int64_t, std::size_t> call_of;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0) call_of.try_emplace(ids[i], i);
    }
    std::vector<const CommKernel*> left;
    const auto give = [](TraceCall& call, const CommKernel& kernel) {
      call.time_ns = std::min(std::max<std::int64_t>(call.time_ns, 0) + kernel.time_ns, kMostTimeNs);
      call.exposed_ns = std::min(call.exposed_ns + kernel.exposed_ns, call.time_ns);
    };
    for (const CommKernel& kernel : timeline_.kernels()) {
      const auto found = call_of.find(kernel.id);
      if (found != call_of.end())
        give(rank.calls[found->second], kernel);
      else
        left.push_back(&kernel);
    }
    if (left.empty()) return;
    std::int64_t time_ns = 0;
    for (const CommKernel* kernel : left) time_ns += kernel->time_ns;
    rank.remarks.push_back(
        fmt::format("{} of communication ({:.3g} ms) belong to no recorded call: {}", counted(left.size(), "kernel"),
                    1e-6 * static_cast<double>(time_ns),
                    is_old_ ? "before 2.2 PyTorch records no number that both have, so calls have no times"
                            : "calls made before the trace begins, replays of CUDA graphs, or libraries that do not "
                              "pass through c10d"));
  }

  void fill_steps(TraceRank& rank) {
    rank.has_kernels = has_communication_ || has_compute_;
    rank.has_compute = has_compute_;
    rank.has_input = has_input_;
    const auto seconds = [](std::int64_t time_ns) { return 1e-9 * static_cast<double>(time_ns); };
    for (std::size_t i = 0; i < rank.steps.size() && i < windows_.size(); ++i) {
      StepWindow window = windows_[i];
      if (window.begin_ns == INT64_MIN) window = timeline_.extent();
      WorkloadStep& step = rank.steps[i];
      const StateTimes& state = timeline_.states()[i];
      step.time_s = seconds(window.end_ns - window.begin_ns);
      step.communicating_s = seconds(state.overlapped + state.exposed);
      step.on_gpu = has_compute_;
      if (!has_compute_) continue;  // what computes meanwhile is not in the trace
      step.computing_s = seconds(state.computing);
      step.overlapped_s = seconds(state.overlapped);
      step.exposed_s = seconds(state.exposed);
      step.copying_s = seconds(state.copying);
      step.idle_s = seconds(window.end_ns - window.begin_ns - state.busy);
      if (has_input_) step.input_s = seconds(state.input_idle);
    }
    rank.lanes = std::move(timeline_.lanes());
    rank.lanes.rank = rank.rank;
    const std::size_t picture = Timeline::picture_of(windows_);
    if (picture >= rank.steps.size()) return;
    rank.lanes.step = rank.steps[picture].name;
    rank.lanes.time_s = rank.steps[picture].time_s;
  }

  void tell(TraceRank& rank) const {
    if (backwards_ > 0)
      rank.remarks.push_back(
          fmt::format("{} end before they begin, or last for days: left out", counted(backwards_, "event")));
    if (timeline_.too_late() > 0) {
      rank.remarks.push_back(fmt::format("{} came long after others of their time: left out of the steps' times",
                                         counted(timeline_.too_late(), "interval")));
    }
    if (devices_.size() > 1) {
      rank.remarks.push_back(fmt::format(
          "kernels of {} GPUs in one trace: the steps' times are of all of them together", devices_.size()));
    }
    if (const StepWindow all = timeline_.extent(); !windows_.empty() && all.begin_ns < all.end_ns &&
                                                   windows_.back().end_ns < all.end_ns &&
                                                   windows_.front().begin_ns != INT64_MIN) {
      const double after_s = 1e-9 * static_cast<double>(all.end_ns - windows_.back().end_ns);
      const double step_s = 1e-9 * static_cast<double>(windows_.back().end_ns - windows_.back().begin_ns);
      constexpr double kMuch = 0.05;
      if (after_s > kMuch * step_s) {
        rank.remarks.push_back(
            fmt::format("GPU work goes on for {:.3g} ms after the last step ends: it is in no step", 1e3 * after_s));
      }
    }
  }

  const std::string& name_;
  Recorded by_args_, by_annotation_, others_;
  std::map<std::int64_t, Enclosed> around_, waiting_;  // by thread
  std::map<std::string, std::uint64_t> left_out_;
  std::vector<Marker> markers_, context_markers_;
  std::vector<StepWindow> windows_;
  Timeline timeline_;
  std::unordered_map<std::string, bool> communicates_;
  std::set<std::int64_t> devices_;
  std::uint64_t backwards_ = 0;
  bool has_communication_ = false, has_compute_ = false, has_input_ = false, is_old_ = false;
};

}  // namespace

bool is_communication_kernel(std::string_view name) {
  // NCCL's and RCCL's; PyTorch's symmetric memory; vLLM's, TensorRT-LLM's and FlashInfer's own; DeepEP; NVSHMEM.
  static constexpr std::array<std::string_view, 9> kWords{
      "nccl", "rccl", "multimem", "cross_device_reduce", "allreduce", "all_reduce", "all_gather", "deep_ep", "nvshmem"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return mentions(name, word); });
}

TraceRank read_kineto(const NextBytes& next, const std::string& name) {
  TraceRank rank = KinetoReader(name).read(next);
  rank.source.kind = "Kineto trace";
  rank.source.calls = rank.calls.size();
  return rank;
}

}  // namespace busbar
