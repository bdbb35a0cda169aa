// Would catch: a group of processes that mixes up its messages with another group's, or one operation's with the next
// one's; a tree or an exchange that is wrong for some number of processes, root or length; and two processes that wait
// for each other because both send more than their connection holds.

#include "backend_fixture.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace busbar;
using namespace busbar::test;

namespace {

/// What process `rank` contributes to a step: the same wherever it is computed.
double number_of_step(int rank, int step) { return static_cast<double>((rank * 7919 + step * 104729) % 1000 - 500); }

std::string text_of_step(int rank, int step, std::size_t most) {
  const std::size_t length = static_cast<std::size_t>(rank * 31 + step * 17) % (most + 1);
  return std::string(length, static_cast<char>('a' + (rank + step) % 26));
}

/// A group, and which processes of the world are in it, in order.
struct Group {
  Comm comm;
  std::vector<int> members;
};

int me(const Group& g) { return g.members[static_cast<std::size_t>(g.comm.rank())]; }

bool reduces_right(const Group& g, int step, Reduction how) {
  std::vector<double> values{number_of_step(me(g), step), number_of_step(me(g), step + 1)};
  std::vector<std::int64_t> whole{static_cast<std::int64_t>(values[0])};
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i) {
    std::vector<double> all;
    for (const int member : g.members) all.push_back(number_of_step(member, step + i));
    expected.push_back(how == Reduction::sum   ? std::accumulate(all.begin(), all.end(), 0.0)
                       : how == Reduction::min ? *std::ranges::min_element(all)
                                               : *std::ranges::max_element(all));
  }
  switch (how) {
    case Reduction::sum:
      g.comm.sum(values);
      g.comm.sum(whole);
      break;
    case Reduction::min:
      g.comm.min(values);
      g.comm.min(whole);
      break;
    case Reduction::max:
      g.comm.max(values);
      g.comm.max(whole);
      break;
  }
  return values == expected && static_cast<double>(whole[0]) == expected[0];
}

bool broadcasts_right(const Group& g, int step, int root) {
  constexpr std::size_t kMost = 300'000;
  const std::string expected = text_of_step(g.members[static_cast<std::size_t>(root)], step * 997, kMost);
  return g.comm.broadcast(g.comm.rank() == root ? expected : "x", root) == expected;
}

bool gathers_right(const Group& g, int step) {
  const std::vector<std::string> texts = g.comm.gather(text_of_step(me(g), step, 1000));
  if (g.comm.rank() != 0) return texts.empty();
  if (texts.size() != g.members.size()) return false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] != text_of_step(g.members[i], step, 1000)) return false;
  }
  return true;
}

/// Blocks of that length: with 1 MiB, more than a connection holds is under way in both directions.
bool exchanges_right(const Group& g, int step, std::size_t length) {
  const int p = g.comm.size();
  const auto byte = [&](int from, int to) { return static_cast<std::byte>((from * 16 + to + step) & 0xFF); };
  std::vector<std::byte> blocks;
  for (int to = 0; to < p; ++to) blocks.insert(blocks.end(), length, byte(g.comm.rank(), to));
  const std::vector<std::byte> mine = g.comm.all_to_all(blocks);
  if (mine.size() != blocks.size()) return false;
  for (int from = 0; from < p; ++from) {
    for (std::size_t i = 0; i < length; ++i) {
      if (mine[static_cast<std::size_t>(from) * length + i] != byte(from, g.comm.rank())) return false;
    }
  }
  return true;
}

/// A number from one process to any other, and one back.
bool passes_right(const Group& g, int step, int from, int to) {
  if (from == to) return true;
  if (g.comm.rank() == from) {
    g.comm.send(to, number_of_step(from, step));
    return g.comm.receive(to) == number_of_step(to, step);
  }
  if (g.comm.rank() != to) return true;
  const bool right = g.comm.receive(from) == number_of_step(from, step);
  g.comm.send(from, number_of_step(to, step));
  return right;
}

bool takes_step(const Group& g, int step, std::mt19937& random) {
  const int p = g.comm.size();
  const auto any = [&] { return static_cast<int>(random() % static_cast<unsigned>(p)); };
  switch (random() % 6) {
    case 0:
      g.comm.barrier();
      return true;
    case 1:
      return reduces_right(g, step, static_cast<Reduction>(random() % 3));
    case 2:
      return broadcasts_right(g, step, any());
    case 3:
      return gathers_right(g, step);
    case 4:
      return exchanges_right(g, step, random() % 2000);
    default: {
      const int from = any(), to = any();
      return passes_right(g, step, from, to);
    }
  }
}

Group part_of(const Group& g, int color_of_step, int ncolors) {
  const auto color = [&](int member) { return (member * 13 + color_of_step) % ncolors; };
  Group part{g.comm.split(color(me(g))), {}};
  for (const int member : g.members) {
    if (color(member) == color(me(g))) part.members.push_back(member);
  }
  return part;
}

}  // namespace

TEST_CASE("Any order of operations on groups and their parts gives what each of them says", "[comm][seven]") {
  Group all{world(), {}};
  for (int rank = 0; rank < all.comm.size(); ++rank) all.members.push_back(rank);
  int wrong = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const Group part = part_of(all, static_cast<int>(random() % 100), 1 + static_cast<int>(random() % 3));
    wrong += part.comm.size() != static_cast<int>(part.members.size());
    const Group smaller = part_of(part, static_cast<int>(seed), 2);
    const auto barrier = part.comm.small_barrier();
    for (int step = 0; step < 40; ++step) {
      // The parts take other steps than each other, and processes run ahead.
      const unsigned which = random() % 3;
      const unsigned next = random();
      if (which == 0) {
        std::mt19937 same(next);
        wrong += takes_step(all, step, same) ? 0 : 1;
        continue;
      }
      const Group& g = which == 1 ? part : smaller;
      std::mt19937 own(next + static_cast<unsigned>(g.members.front()));
      wrong += takes_step(g, step, own) ? 0 : 1;
      if (step % 7 == 0) barrier->wait();
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("More than a connection holds can be under way in both directions", "[comm][seven]") {
  Group all{world(), {}};
  for (int rank = 0; rank < all.comm.size(); ++rank) all.members.push_back(rank);
  CHECK(exchanges_right(all, 1, std::size_t{4} << 20));
  for (int root = 0; root < all.comm.size(); ++root) {
    const std::string text(std::size_t{5} << 20, static_cast<char>('a' + root));
    CHECK(all.comm.broadcast(all.comm.rank() == root ? text : "", root) == text);
  }
}
