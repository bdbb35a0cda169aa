#include "common/base/lists.h"
#include "driver/diagnose/call_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMaxPairs = 1000;
constexpr std::size_t kTail = 64;    // calls of a rank on two communicators that are compared
constexpr std::size_t kNearEnd = 8;  // an inversion further from the end did no harm
constexpr std::size_t kMaxCycles = 8;

/// A call of one communicator: (communicator, key).
using Place = std::pair<std::size_t, std::int64_t>;

using MadeCall = std::pair<std::uint32_t, Place>;  ///< its number among all of its process, and which it is

/// For every rank, its streams by communicator.
using StreamsOfActors = std::map<std::uint32_t, std::map<std::size_t, const PlacedCalls*>>;

StreamsOfActors streams_of_sources(const std::vector<AlignedComm>& comms) {
  StreamsOfActors streams;
  for (std::size_t comm = 0; comm < comms.size(); ++comm) {
    const CallAlignment& alignment = comms[comm].alignment;
    if (alignment.how == CallAlignment::How::none || !alignment.certain) continue;
    for (const PlacedCalls& placed : alignment.streams) streams[placed.member->source][comm] = &placed;
  }
  return streams;
}

/// The last call of a rank on each of its communicators, the latest first.
std::vector<MadeCall> last_calls(const std::map<std::size_t, const PlacedCalls*>& by_comm) {
  std::vector<MadeCall> calls;
  for (const auto& [comm, placed] : by_comm) {
    if (placed->calls->size() == 0) continue;
    const std::int64_t key = placed->end() - 1;
    calls.emplace_back(placed->find(key)->when, Place(comm, key));
  }
  std::ranges::stable_sort(calls, std::greater<>(), &MadeCall::first);
  return calls;
}

/// Ranks by the call that they wait in, and the calls in which the ranks that they wait for wait.
struct WaitGraph {
  std::map<Place, std::vector<std::uint32_t>> waiting;
  std::map<Place, std::set<Place>> edges;
};

WaitGraph wait_graph(const StreamsOfActors& streams, const std::vector<AlignedComm>& comms) {
  WaitGraph graph;
  std::map<std::uint32_t, Place> last;  // of each rank, over all communicators
  for (const auto& [source, by_comm] : streams) {
    const std::vector<MadeCall> calls = last_calls(by_comm);
    if (!calls.empty()) graph.waiting[last[source] = calls.front().second].push_back(source);
  }
  for (const auto& [place, sources] : graph.waiting) {
    for (const PlacedCalls& placed : comms[place.first].alignment.streams) {
      // Others wait for a rank that has not made this call yet, wherever it is now.
      if (placed.end() > place.second) continue;
      const auto other = last.find(placed.member->source);
      if (other != last.end() && other->second.first != place.first) graph.edges[place].insert(other->second);
    }
  }
  return graph;
}

/// Each once. Depth: at most the places where ranks wait; recursion: at most the communicators that matter.
template <class Node>
std::vector<std::vector<Node>> cycles_in(const std::map<Node, std::set<Node>>& edges) {
  std::vector<std::vector<Node>> found;
  std::vector<Node> path;
  std::set<Node> done;
  const auto search = [&](const Node& node, const auto& self) -> void {
    const auto on_path = std::ranges::find(path, node);
    if (on_path != path.end() && found.size() < kMaxCycles) found.emplace_back(on_path, path.end());
    if (on_path != path.end() || path.size() >= 64 || !done.insert(node).second) return;
    path.push_back(node);
    if (const auto targets = edges.find(node); targets != edges.end()) {
      for (const Node& next : targets->second) self(next, self);
    }
    path.pop_back();
  };
  for (const auto& [start, targets] : edges) search(start, search);
  return found;
}

/// Ranks that send in a circle, or receive in one: none makes the call that another waits for before its own ends.
void find_transfer_cycles(const RankMap& rank_map, const AlignedComm& comm, std::vector<DeadlockCycle>& cycles) {
  using Transfer = TorchDump::Transfer;
  std::map<int, std::uint32_t> source_of;
  std::set<Transfer> open;
  for (const CommMember& member : comm.members) {
    const std::vector<Transfer>& its = member.instance->open;
    if (!its.empty()) source_of[its.front().here] = member.source;
    open.insert(its.begin(), its.end());
  }
  std::map<int, std::set<int>> edges[2];  // of receives, of sends
  for (const Transfer& one : open) {
    const bool met = open.contains({one.there, one.here, !one.sends});
    if (!met && source_of.contains(one.there)) edges[one.sends ? 1 : 0][one.here].insert(one.there);
  }
  for (const bool sends : {false, true}) {
    for (const std::vector<int>& ranks : cycles_in(edges[sends ? 1 : 0])) {
      const auto sources = mapped(ranks, [&](int rank) { return source_of.at(rank); });
      cycles.push_back({fmt::format("{} wait in a circle, each to {} the next, in {}", list_sources(rank_map, sources),
                                    sends ? "send to" : "receive from", comm.name),
                        sources, false, true});
    }
  }
}

/// "AllReduce #5 of communicator 2".
std::string call_at(const JobBook& book, const std::vector<AlignedComm>& comms, const PlacedCalls& placed,
                    const Place& place) {
  const auto& [comm, key] = place;
  return fmt::format("{} {} of {}", book.words.text(placed.find(key)->op), call_number(comms[comm].alignment, key),
                     comms[comm].name);
}

/// The last calls of a rank on two communicators, in its order.
std::vector<Place> interleaved(const PlacedCalls& a, std::size_t comm_a, const PlacedCalls& b, std::size_t comm_b) {
  std::vector<MadeCall> calls;
  for (const auto& [placed, comm] : {std::pair(&a, comm_a), std::pair(&b, comm_b)}) {
    const std::int64_t from = std::max(placed->begin(), placed->end() - static_cast<std::int64_t>(kTail));
    for (std::int64_t key = from; key < placed->end(); ++key) {
      if (const Call* const call = placed->find(key)) calls.emplace_back(call->when, Place(comm, key));
    }
  }
  std::ranges::sort(calls);
  return mapped(calls, &MadeCall::second);
}

/// Pairs of communicators that some rank called last and last but one.
std::set<std::pair<std::size_t, std::size_t>> last_pairs(const StreamsOfActors& streams) {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (const auto& [source, by_comm] : streams) {
    const std::vector<MadeCall> calls = last_calls(by_comm);
    if (calls.size() < 2 || pairs.size() >= kMaxPairs) continue;
    pairs.insert(std::minmax(calls[0].second.first, calls[1].second.first));
  }
  return pairs;
}

/// The place where two ranks' orders first differ, if both made all of these calls and it is near the end.
bool inverted_at_end(const std::vector<Place>& one, const std::vector<Place>& other) {
  if (!std::ranges::is_permutation(one, other)) return false;
  const auto [differs, there] = std::mismatch(one.begin(), one.end(), other.begin());
  return differs != one.end() && static_cast<std::size_t>(one.end() - differs) <= kNearEnd;
}

void find_inversions(const JobBook& book, const RankMap& rank_map, const std::vector<AlignedComm>& comms,
                     const StreamsOfActors& streams, std::vector<DeadlockCycle>& cycles) {
  for (const auto& [comm_a, comm_b] : last_pairs(streams)) {
    // order -> the ranks that have it
    std::map<std::vector<Place>, std::vector<std::uint32_t>> orders;
    for (const PlacedCalls& a : comms[comm_a].alignment.streams) {
      const std::uint32_t source = a.member->source;
      const auto b = streams.at(source).find(comm_b);
      if (streams.at(source).at(comm_a) != &a || b == streams.at(source).end()) continue;
      if (a.calls->size() == 0 || b->second->calls->size() == 0) continue;
      orders[interleaved(a, comm_a, *b->second, comm_b)].push_back(source);
    }
    if (orders.size() < 2 || cycles.size() >= kMaxCycles) continue;
    const auto usual = std::ranges::max_element(orders, {}, [](const auto& one) { return one.second.size(); });
    for (const auto& [order, sources] : orders) {
      if (order == usual->first || !inverted_at_end(usual->first, order)) continue;
      const auto [first, second] = std::mismatch(usual->first.begin(), usual->first.end(), order.begin());
      const auto text_of = [&, who = sources.front()](const Place& place) {
        return call_at(book, comms, *streams.at(who).at(place.first), place);
      };
      cycles.push_back({fmt::format("{} called {} before {}; {} in the opposite order", list_sources(rank_map, sources),
                                    text_of(*second), text_of(*first), list_sources(rank_map, usual->second)),
                        sources, true});
      break;
    }
  }
}

}  // namespace

std::vector<DeadlockCycle> find_cycles(const JobBook& book, const RankMap& rank_map,
                                       const std::vector<AlignedComm>& comms) {
  std::vector<DeadlockCycle> cycles;
  const StreamsOfActors streams = streams_of_sources(comms);
  const WaitGraph graph = wait_graph(streams, comms);
  for (const std::vector<Place>& places : cycles_in(graph.edges)) {
    DeadlockCycle cycle;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::vector<std::uint32_t>& sources = graph.waiting.at(places[i]);
      const PlacedCalls& placed = *streams.at(sources.front()).at(places[i].first);
      cycle.text += fmt::format("{}{} wait{} in {}", i == 0 ? "" : ", for ", list_sources(rank_map, sources),
                                sources.size() == 1 ? "s" : "", call_at(book, comms, placed, places[i]));
      if (cycle.sources.empty() || sources.size() < cycle.sources.size()) cycle.sources = sources;
    }
    cycle.text += ", for the first again";
    cycles.push_back(std::move(cycle));
  }
  for (const AlignedComm& comm : comms) find_transfer_cycles(rank_map, comm, cycles);
  if (cycles.empty()) find_inversions(book, rank_map, comms, streams, cycles);
  return cycles;
}

}  // namespace busbar
