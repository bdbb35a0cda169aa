#include "driver/workload/timeline.h"

#include <algorithm>
#include <span>
#include <utility>

namespace busbar {

void Timeline::add(SpanKind activity, std::int64_t begin_ns, std::int64_t time_ns, std::int64_t id) {
  if (time_ns <= 0) return;
  const std::int64_t end_ns = begin_ns + time_ns;
  const std::size_t kernel = kernels_.size();
  if (activity == SpanKind::communicating) kernels_.push_back({id, time_ns});
  if (activity != SpanKind::input)
    extent_ = {std::min(extent_.begin_ns, begin_ns), std::max(extent_.end_ns, end_ns), {}};
  if (begin_ns < folded_until_ns_) {
    ++too_late_;
    begin_ns = folded_until_ns_;
    if (end_ns <= begin_ns) return;
  }
  edges_.push_back({begin_ns, true, activity, kernel});
  edges_.push_back({end_ns, false, activity, kernel});
}

void Timeline::fold(const std::vector<StepWindow>& windows) {
  // Kernels are written about in the order in which they ended: no later one begins before the earliest of many.
  const auto lately = std::span(edges_).subspan(edges_.size() - edges_.size() / 4);
  const std::int64_t until_ns = std::ranges::min(lately, {}, &Edge::at_ns).at_ns;
  if (until_ns > folded_until_ns_) sweep(windows, until_ns);
  most_spans_ = std::max(most_spans_, edges_.size());  // a step that is larger
}

void Timeline::finish(const std::vector<StepWindow>& windows) {
  sweep(windows, INT64_MAX);
  for (CommKernel& kernel : kernels_) kernel.exposed_ns = std::min(kernel.exposed_ns, kernel.time_ns);
  if (!drawn_) return;
  lanes_.step = windows[*drawn_].name;
  lanes_.time_s = seconds_of(windows[*drawn_].end_ns - windows[*drawn_].begin_ns);
}

void Timeline::sweep(const std::vector<StepWindow>& windows, std::int64_t until_ns) {
  states_.resize(windows.size());
  if (!drawn_ && !windows.empty()) drawn_ = windows.size() / 2;
  std::ranges::sort(edges_, {}, [](const Edge& edge) { return std::pair(edge.at_ns, edge.begins); });
  const auto later = std::ranges::lower_bound(edges_, until_ns, {}, &Edge::at_ns);
  for (auto edge = edges_.begin(); edge != later; ++edge) {
    accrue(windows, std::exchange(swept_ns_, edge->at_ns), edge->at_ns);
    active_[static_cast<std::size_t>(edge->activity)] += edge->begins ? 1 : -1;
    if (edge->activity == SpanKind::communicating)
      kernels_[edge->kernel].exposed_ns += edge->begins ? -whole_.exposed : whole_.exposed;
  }
  edges_.erase(edges_.begin(), later);
  folded_until_ns_ = until_ns;
}

void Timeline::accrue(const std::vector<StepWindow>& windows, std::int64_t from_ns, std::int64_t to_ns) {
  const auto is = [&](SpanKind activity) { return active_[static_cast<std::size_t>(activity)] > 0; };
  const bool computing = is(SpanKind::computing), communicating = is(SpanKind::communicating);
  const bool copying = is(SpanKind::copying), busy = computing || communicating || copying;
  if (!busy && !is(SpanKind::input)) return;
  const auto add = [&](StateTimes& state, std::int64_t time) {
    if (computing) state.computing += time;
    if (communicating) (computing ? state.overlapped : state.exposed) += time;
    if (copying && !computing && !communicating) state.copying += time;
    if (!busy) state.input_idle += time;
  };
  add(whole_, to_ns - from_ns);
  while (window_ < windows.size() && windows[window_].end_ns <= from_ns) ++window_;
  for (std::size_t w = window_; w < windows.size() && windows[w].begin_ns < to_ns; ++w) {
    const std::int64_t from = std::max(from_ns, windows[w].begin_ns), to = std::min(to_ns, windows[w].end_ns);
    if (to <= from) continue;
    add(states_[w], to - from);
    if (w == drawn_) draw(windows[w], from, to);
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
