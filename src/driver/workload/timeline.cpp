#include "driver/workload/timeline.h"

#include <algorithm>
#include <tuple>

namespace busbar {

void Timeline::add(SpanKind activity, std::int64_t begin_ns, std::int64_t time_ns, std::int64_t id) {
  if (time_ns <= 0) return;
  Span span{begin_ns, begin_ns + time_ns, 0, activity};
  if (activity == SpanKind::communicating) {
    span.kernel = static_cast<std::uint32_t>(kernels_.size());
    kernels_.push_back({id, time_ns});
  }
  if (activity != SpanKind::input) {
    extent_.begin_ns = std::min(extent_.begin_ns, span.begin_ns);
    extent_.end_ns = std::max(extent_.end_ns, span.end_ns);
  }
  if (span.begin_ns < folded_until_ns_) {
    ++too_late_;
    span.begin_ns = folded_until_ns_;
    if (span.end_ns <= span.begin_ns) return;
  }
  spans_.push_back(span);
}

void Timeline::fold(const std::vector<StepWindow>& windows) {
  // Kernels are written about in the order in which they ended: no later one begins before the earliest of many.
  std::int64_t until_ns = INT64_MAX;
  for (std::size_t i = spans_.size() - spans_.size() / 4; i < spans_.size(); ++i) {
    until_ns = std::min(until_ns, spans_[i].begin_ns);
  }
  if (until_ns > folded_until_ns_) sweep(windows, until_ns);
  if (spans_.size() > most_spans_ / 2) most_spans_ = spans_.size() * 2;  // a step that is larger
}

void Timeline::finish(const std::vector<StepWindow>& windows) {
  sweep(windows, INT64_MAX);
  for (CommKernel& kernel : kernels_) kernel.exposed_ns = std::min(kernel.exposed_ns, kernel.time_ns);
}

void Timeline::sweep(const std::vector<StepWindow>& windows, std::int64_t until_ns) {
  struct Edge {
    std::int64_t at_ns;
    bool opens;
    std::uint32_t span;
  };
  states_.resize(windows.size());
  std::vector<Edge> edges;
  for (std::uint32_t i = 0; i < spans_.size(); ++i) {
    if (spans_[i].begin_ns >= until_ns) continue;
    edges.push_back({spans_[i].begin_ns, true, i});
    edges.push_back({std::min(spans_[i].end_ns, until_ns), false, i});
  }
  std::ranges::sort(
      edges, [](const Edge& a, const Edge& b) { return std::tie(a.at_ns, a.opens) < std::tie(b.at_ns, b.opens); });
  active_ = {};
  active_kernels_.clear();
  window_ = 0;
  std::int64_t before_ns = edges.empty() ? 0 : edges.front().at_ns;
  for (const Edge& edge : edges) {
    if (edge.at_ns > before_ns) accrue(windows, before_ns, edge.at_ns);
    before_ns = edge.at_ns;
    const Span& span = spans_[edge.span];
    auto& count = active_[static_cast<std::size_t>(span.activity)];
    count += edge.opens ? 1 : -1;
    if (span.activity != SpanKind::communicating) continue;
    if (edge.opens) {
      active_kernels_.push_back(span.kernel);
    } else {
      std::erase(active_kernels_, span.kernel);
    }
  }
  std::erase_if(spans_, [&](const Span& span) { return span.end_ns <= until_ns; });
  for (Span& span : spans_) span.begin_ns = std::max(span.begin_ns, std::min(until_ns, span.end_ns));
  folded_until_ns_ = until_ns;
}

void Timeline::accrue(const std::vector<StepWindow>& windows, std::int64_t from_ns, std::int64_t to_ns) {
  const auto is = [&](SpanKind activity) { return active_[static_cast<std::size_t>(activity)] > 0; };
  const bool computing = is(SpanKind::computing), communicating = is(SpanKind::communicating);
  const bool copying = is(SpanKind::copying), busy = computing || communicating || copying;
  if (!busy && !is(SpanKind::input)) return;
  if (communicating && !computing) {
    for (const std::uint32_t kernel : active_kernels_) kernels_[kernel].exposed_ns += to_ns - from_ns;
  }
  while (window_ < windows.size() && windows[window_].end_ns <= from_ns) ++window_;
  for (std::size_t w = window_; w < windows.size() && windows[w].begin_ns < to_ns; ++w) {
    const std::int64_t from = std::max(from_ns, windows[w].begin_ns), to = std::min(to_ns, windows[w].end_ns);
    if (to <= from) continue;
    StateTimes& state = states_[w];
    const std::int64_t time = to - from;
    if (computing) state.computing += time;
    if (communicating) (computing ? state.overlapped : state.exposed) += time;
    if (copying && !computing && !communicating) state.copying += time;
    if (busy) state.busy += time;
    if (!busy) state.input_idle += time;
    if (w == picture_of(windows)) draw(windows[w], from, to);
  }
}

void Timeline::draw(const StepWindow& window, std::int64_t from_ns, std::int64_t to_ns) {
  // Finer than a pixel is joined, so that a picture has few pieces however many kernels a step has.
  constexpr double kPieces = 2000;
  const double time_s = seconds_of(window.end_ns - window.begin_ns);
  const Interval piece{seconds_of(from_ns - window.begin_ns), seconds_of(to_ns - window.begin_ns)};
  const auto extend = [&](std::vector<Interval>& lane) {
    if (!lane.empty() && piece.low - lane.back().high <= time_s / kPieces) {
      lane.back().high = std::max(lane.back().high, piece.high);
    } else {
      lane.push_back(piece);
    }
  };
  const bool computing = active_[0] > 0, communicating = active_[1] > 0;
  if (computing) extend(lanes_.computing);
  if (communicating) extend(lanes_.communicating);
  if (communicating && !computing) extend(lanes_.exposed);
}

}  // namespace busbar
