#include "common/base/error.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_rank.h"

#include <fmt/format.h>

#include <algorithm>
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

/// The annotation of a call in an old trace.
struct OldCall {
  CallShape shape;
  std::int64_t tid = -1, begin_ns = 0, end_ns = 0, id = -1;
};

class KinetoReader {
 public:
  KinetoReader(const std::string& name, std::size_t most_spans) : name_(name), timeline_(most_spans) {}

  TraceRank read(const NextBytes& next) {
    KinetoTrace trace = read_kineto_events(next, [this](KinetoEvent& event) { take(event); });
    if (!has_records_) add_named();
    if (rank_.calls.empty() && !trace.trouble.empty()) throw_bad_config(fmt::format("{}: it {}", name_, trace.trouble));
    if (!trace.has_events) throw_bad_config(name_ + ": no trace of PyTorch's profiler: it has no list of traceEvents");
    if (!trace.trouble.empty()) remark("the trace {}: what follows byte {} is not known", trace.trouble, trace.nbytes);
    rank_.source.kind = "Kineto trace";
    rank_.source.nbytes = trace.nbytes;
    rank_.source.calls = rank_.calls.size();
    describe(trace);
    // As they were made: threads write theirs one after another.
    std::ranges::stable_sort(rank_.calls, {}, &TraceCall::begin_ns);
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
    if (event.time_ns < 0 || event.time_ns > kMostTimeNs) return void(++backwards_);
    if (event.category == KinetoCategory::op) take_op(event);
    if (event.category == KinetoCategory::annotation) take_annotation(event);
    if (event.category == KinetoCategory::kernel) take_kernel(event);
    if (event.category == KinetoCategory::copy) add_interval(SpanKind::copying, event);
  }

  void add_interval(SpanKind activity, const KinetoEvent& event) {
    timeline_.add(activity, event.begin_ns, event.time_ns, event.external_id);
    if (!timeline_.is_full()) return;
    set_windows();  // whose markers came before their kernels: Kineto writes the CPU's events first
    timeline_.fold(windows_);
  }

  void take_kernel(const KinetoEvent& event) {
    constexpr std::size_t kMostNames = 1 << 16;
    if (kernels_.size() == kMostNames) kernels_.clear();
    const auto [known, is_new] = kernels_.try_emplace(event.name);
    SpanKind& kind = known->second;
    if (is_new && builtin_line_rules().has("communication-kernels", event.name))
      kind = SpanKind::communicating;
    else if (is_new && builtin_line_rules().has("copying-kernels", event.name))
      kind = SpanKind::copying;
    rank_.has_communication |= kind == SpanKind::communicating;
    rank_.has_compute |= kind == SpanKind::computing;
    if (event.device >= 0 && devices_.size() < 64) devices_.insert(event.device);
    add_interval(kind, event);
  }

  void take_op(KinetoEvent& event) {
    if (event.name == "record_param_comms") return take_record(event);
    if (event.name.starts_with("c10d::") && event.name.ends_with("_base_")) return take_enclosing(event);
    if (event.name.starts_with(kLoader)) return take_input(event);
    if (!event.name.starts_with("symm_mem::") || !mentions(event.name, "all_reduce")) return;
    const auto tensor = std::ranges::find_if(event.elements, [](std::int64_t n) { return n >= 0; });
    const TraceType type = type_of_first(event);
    const auto nbytes = bytes_of(tensor == event.elements.end() ? -1 : *tensor, type.size);
    add({.call = CommKind::all_reduce, .dtype = type.name, .in_bytes = nbytes, .out_bytes = nbytes, .via = "symm_mem"},
        {}, event.begin_ns, event.external_id);
  }

  static TraceType type_of_first(const KinetoEvent& event) {
    return type_of(event.types.empty() ? "" : event.types.front());
  }

  void add(const CallShape& shape, TraceGroup group, std::int64_t begin_ns, std::int64_t id) {
    TraceCall& call = rank_.add_call(shape, rank_.group(std::move(group)));
    call.begin_ns = begin_ns;
    call.id = id;
  }

  template <class... Values>
  void remark(fmt::format_string<Values...> text, Values&&... values) {
    rank_.remarks.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  void take_input(const KinetoEvent& event) {
    rank_.has_input = true;
    timeline_.add(SpanKind::input, event.begin_ns, event.time_ns);
  }

  /// A call, with its arguments since PyTorch 2.2.
  void take_record(KinetoEvent& event) {
    // A trace before 2.2 does not name it, and "wait" has one input less than a call.
    constexpr std::size_t kInputsOfWait = 6;
    std::string& name = event.collective;
    if (name.empty() && event.elements.size() == kInputsOfWait) name = "wait";
    if (name.empty()) return;
    const CommKind kind = kind_of(name);
    if (kind == CommKind::barrier || name == "wait" || name == "init") {
      ++rank_.left_out[name];
      return;
    }
    has_records_ = true;
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
    if (kind == CommKind::unknown) ++rank_.left_out[fmt::format("of an unknown kind ({})", printable(name))];
    bool cut = false;
    TraceGroup group{printable(event.group), printable(event.description), small(event.group_size),
                     ranks_in(event.ranks, cut)};
    if (cut || (group.size >= 0 && group.ranks.size() != static_cast<std::size_t>(group.size))) group.ranks.clear();
    add(shape, std::move(group), event.begin_ns, event.external_id);
  }

  static int small(std::int64_t number) {
    constexpr std::int64_t kMost = 1 << 24;
    return number >= 0 && number < kMost ? static_cast<int>(number) : -1;
  }

  void take_annotation(KinetoEvent& event) {
    const std::string_view name = event.name;
    if (name.starts_with(kProfilerStep) || name.starts_with(kVllmStep)) {
      std::vector<StepWindow>& markers = name.starts_with(kProfilerStep) ? markers_ : context_markers_;
      if (!timeline_.is_too_late(event.begin_ns))
        markers.push_back({event.begin_ns, event.begin_ns + event.time_ns, printable(name)});
    } else if (name.starts_with(kLoader)) {
      take_input(event);
    } else if (!annotated_call(name).empty()) {
      take_named(event);
    }
  }

  /// A call of an older PyTorch: its input, and its kind in the name. PyTorch's all_to_all is by alltoall_base, which
  /// takes sizes per rank that are not recorded.
  void take_named(const KinetoEvent& event) {
    CommKind kind = kind_of(annotated_call(event.name));
    if (kind == CommKind::alltoall) kind = CommKind::alltoallv;
    if (kind == CommKind::barrier) return void(++old_left_out_["barrier"]);
    if (kind == CommKind::unknown)
      return void(++old_left_out_[fmt::format("of an unknown kind ({})", printable(event.name))]);
    if (has_records_) return;
    std::int64_t elements = -1;
    for (const std::int64_t tensor : event.elements) {
      if (tensor >= 0) elements = (elements < 0 ? 0 : elements) + std::min(tensor, std::int64_t{1} << 50);
    }
    const TraceType type = type_of_first(event);
    CallShape shape{.call = kind, .dtype = type.name, .in_bytes = bytes_of(elements, type.size), .via = "c10d"};
    const auto [in, out] = parts_of(kind);
    if (in == out && kind != CommKind::alltoallv) shape.out_bytes = shape.in_bytes;
    named_.push_back({std::move(shape), event.tid, event.begin_ns, event.begin_ns + event.time_ns, event.external_id});
  }

  /// c10d::alltoall_base_ and the like: inputs are [out], [in], ...
  void take_enclosing(const KinetoEvent& event) {
    if (has_records_ || event.elements.empty() || event.elements.front() < 0) return;
    around_[{event.tid, event.begin_ns}] = {event.begin_ns + event.time_ns,
                                            bytes_of(event.elements.front(), type_of_first(event).size)};
  }

  /// Calls of an old trace, with the output that the operation around each has: a file has them in either order.
  void add_named() {
    rank_.left_out.merge(old_left_out_);
    for (OldCall& call : named_) {
      auto around = around_.upper_bound({call.tid, call.begin_ns});
      if (!call.shape.out_bytes && around != around_.begin() && (--around)->first.first == call.tid &&
          call.end_ns <= around->second.first) {
        call.shape.out_bytes = around->second.second;
        around_.erase(around);
      }
      add(call.shape, {.size = group_size(call.shape)}, call.begin_ns, call.id);
    }
  }

  /// The ratio of the output and the input.
  static int group_size(const CallShape& shape) {
    if ((shape.call != CommKind::all_gather && shape.call != CommKind::reduce_scatter) || !shape.size()) return -1;
    const std::uint64_t part = std::min(*shape.in_bytes, *shape.out_bytes), whole = *shape.size();
    return part == 0 || whole % part != 0 ? -1 : small(static_cast<std::int64_t>(whole / part));
  }

  void describe(KinetoTrace& trace) {
    const auto number = [](const std::string& text) { return small(number_of<std::int64_t>(text).value_or(-1)); };
    rank_.rank = number(trace.job["rank"]);
    rank_.nranks = number(trace.job["world_size"]);
    rank_.source.version = printable(trace.job["nccl_version"]);
    std::map<std::string, KinetoTrace::Facts*> listed;
    for (KinetoTrace::Facts& facts : trace.groups) listed[printable(facts["pg_name"])] = &facts;
    for (TraceGroup& group : rank_.groups) {
      const auto found = listed.find(group.name);
      if (group.name.empty() || found == listed.end()) continue;
      bool cut = false;
      std::vector<int> ranks = ranks_in((*found->second)["ranks"], cut);
      if (group.ranks.empty() && !cut && std::ssize(ranks) == group.size) group.ranks = std::move(ranks);
      if (group.description.empty()) group.description = printable((*found->second)["pg_desc"]);
    }
  }

  /// Markers in order, without overlaps. Of several numberings, one within the other, the outer counts.
  void set_windows() {
    if (counted_->empty()) counted_ = markers_.empty() ? &context_markers_ : &markers_;
    windows_ = *counted_;
    std::ranges::sort(windows_, {}, [](const StepWindow& w) { return std::pair(w.begin_ns, -w.end_ns); });
    std::int64_t until_ns = INT64_MIN;
    const auto nested = std::erase_if(windows_, [&](const StepWindow& w) {
      return w.end_ns <= std::exchange(until_ns, std::max(until_ns, w.end_ns));
    });
    if (nested > 0) rank_.left_out["markers of a step within another"] = nested;
    for (std::size_t i = 0; i + 1 < windows_.size(); ++i)
      windows_[i].end_ns = std::min(windows_[i].end_ns, windows_[i + 1].begin_ns);
  }

  void find_windows() {
    set_windows();
    if (windows_.empty()) return find_windows_by_repetition();
    rank_.source.steps = counted_ == &markers_ ? "annotations ProfilerStep#N" : "annotations execute_context_*";
    for (const StepWindow& window : windows_) rank_.steps.emplace_back().name = window.name;
    for (TraceCall& call : rank_.calls) {
      const auto next = std::ranges::upper_bound(windows_, call.begin_ns, {}, &StepWindow::begin_ns);
      if (next == windows_.begin() || call.begin_ns >= std::prev(next)->end_ns) continue;
      rank_.put_into_step(call, static_cast<std::size_t>(next - windows_.begin() - 1));
    }
  }

  /// Without markers a step begins with the first call of a repetition.
  void find_windows_by_repetition() {
    const StepWindow all = timeline_.extent();
    if (timeline_.folded())
      remark("no step is marked, and the trace is too long to look for steps in it: times are of the whole trace");
    else if (!rank_.calls.empty())
      find_steps(rank_);
    for (const TraceCall& call : rank_.calls) {
      if (call.step < std::ssize(windows_)) continue;
      if (!windows_.empty()) windows_.back().end_ns = call.begin_ns;
      windows_.push_back({call.begin_ns, call.begin_ns, rank_.steps[windows_.size()].name});
    }
    if (rank_.steps.size() > 1) {
      const StepWindow& before = windows_[windows_.size() - 2];
      windows_.back().end_ns += before.end_ns - before.begin_ns;
    } else if (all.begin_ns < all.end_ns) {
      windows_ = {{all.begin_ns, all.end_ns, "whole trace"}};
      WorkloadStep& step = rank_.steps.emplace_back();
      step.name = windows_[0].name;
      step.calls = rank_.calls.size();
      for (const TraceCall& call : rank_.calls) step.nbytes += call.nbytes;
    }
  }

  /// Gives kernels to calls by the number that both have. Not by order: streams overtake each other, and a trace begins
  /// with kernels of earlier calls.
  void add_times() {
    std::unordered_map<std::int64_t, TraceCall*> call_of;
    for (TraceCall& call : rank_.calls) {
      if (call.id >= 0) call_of.try_emplace(call.id, &call);
    }
    std::uint64_t left = 0;
    std::int64_t left_ns = 0;
    for (const CommKernel& kernel : timeline_.kernels()) {
      const auto found = call_of.find(kernel.id);
      if (found == call_of.end()) {
        ++left;
        left_ns += kernel.time_ns;
        continue;
      }
      TraceCall& call = *found->second;
      call.time_ns = std::min(std::max<std::int64_t>(call.time_ns, 0) + kernel.time_ns, kMostTimeNs);
      call.exposed_ns = std::min(call.exposed_ns + kernel.exposed_ns, call.time_ns);
    }
    if (left == 0) return;
    remark("{} of communication ({:.3g} ms) belong to no recorded call: {}", counted(left, "kernel"),
           1e-6 * static_cast<double>(left_ns),
           has_records_ ? "calls made before the trace begins, replays of CUDA graphs, or libraries that do not pass "
                          "through c10d"
                        : "before 2.2 PyTorch records no number that both have, so calls have no times");
  }

  void fill_steps() {
    for (std::size_t i = 0; i < rank_.steps.size() && i < windows_.size(); ++i) {
      WorkloadStep& step = rank_.steps[i];
      const StateTimes& state = rank_.source.steps.empty() ? timeline_.whole() : timeline_.states()[i];
      const std::int64_t time_ns = windows_[i].end_ns - windows_[i].begin_ns;
      step.time_s = seconds_of(time_ns);
      step.communicating_s = seconds_of(state.overlapped + state.exposed);
      step.on_gpu = rank_.has_compute;
      if (!step.on_gpu) continue;  // what computes meanwhile is not in the trace
      step.computing_s = seconds_of(state.computing);
      step.overlapped_s = seconds_of(state.overlapped);
      step.exposed_s = seconds_of(state.exposed);
      step.copying_s = seconds_of(state.copying);
      step.idle_s = seconds_of(time_ns - state.busy());
      if (rank_.has_input) step.input_s = seconds_of(std::min(state.input_idle, time_ns - state.busy()));
    }
    if (!rank_.source.steps.empty() || !timeline_.folded()) rank_.lanes = timeline_.lanes();
  }

  void tell() {
    if (backwards_ > 0) remark("{} end before they begin, or last for days: left out", counted(backwards_, "event"));
    if (const std::uint64_t late = timeline_.too_late(); late > 0)
      remark("{} came long after others of their time: left out of the steps' times", counted(late, "interval"));
    if (devices_.size() > 1)
      remark("kernels of {} GPUs in one trace: the steps' times are of all of them together", devices_.size());
    if (windows_.empty()) return;
    const StepWindow all = timeline_.extent(), last = windows_.back();
    constexpr double kMuch = 0.05;
    const double after_s = seconds_of(all.end_ns - std::min(all.end_ns, last.end_ns));
    if (all.begin_ns < all.end_ns && after_s > kMuch * seconds_of(last.end_ns - last.begin_ns))
      remark("GPU work goes on for {:.3g} ms after the last step ends: it is in no step", 1e3 * after_s);
  }

  const std::string& name_;
  TraceRank rank_;
  std::vector<OldCall> named_;
  std::map<std::string, std::uint64_t> old_left_out_;  ///< of such calls
  /// The end and the output of operations around such calls, by thread and beginning.
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::optional<std::uint64_t>>> around_;
  std::vector<StepWindow> markers_, context_markers_, windows_;
  const std::vector<StepWindow>* counted_ = &markers_;  ///< or context_markers_
  Timeline timeline_;
  std::unordered_map<std::string, SpanKind> kernels_;  ///< by name
  std::set<std::int64_t> devices_;
  std::uint64_t backwards_ = 0;
  bool has_records_ = false;  ///< else PyTorch is older than 2.2, and its annotations are the calls
};

}  // namespace

TraceRank read_kineto(const NextBytes& next, const std::string& name, std::size_t most_spans) {
  return KinetoReader(name, most_spans).read(next);
}

}  // namespace busbar
