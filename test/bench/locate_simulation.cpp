// How often does the search name exactly what is faulty, and how often what is healthy? The real Search on simulated
// clusters: the tables of docs/evidence/locate_rates.md.
//
//     locate_simulation [rates|kinds|spells|cost]... [--trials N] [--units N]...

#include "common/record/culprit.h"
#include "driver/locate/search.h"
#include "simulated_cluster.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace busbar;
using What = Culprit::What;

/// What is wrong in a cluster: what each culprit should be.
struct Truth {
  std::set<std::vector<int>> culprits;  ///< units, in order
  What what = What::unit;
};

struct Tally {
  int trials = 0;
  int exact = 0;
  int inconclusive = 0;
  int failed = 0;  ///< searches in which a healthy unit FAILs
  int found = 0;   ///< in which all that is faulty does
  long faulty = 0;
  long missed = 0;
  long healthy = 0;
  long blamed = 0;  ///< healthy units
  long rounds = 0;  ///< all
  int tests = 0;    ///< the most, without those of calibration and alone
  int most = 0;     ///< the most of all
};

void count(Tally& tally, const LocateVerdict& verdict, const Truth& truth, int n) {
  std::set<std::vector<int>> named;
  std::set<int> units;
  bool kind = true;
  for (const Culprit& culprit : verdict.culprits) {
    std::vector<int> its = culprit.units;
    std::sort(its.begin(), its.end());
    named.insert(its);
    units.insert(its.begin(), its.end());
    kind = kind && culprit.what == truth.what;
  }
  std::set<int> guilty;
  for (const std::vector<int>& culprit : truth.culprits) guilty.insert(culprit.begin(), culprit.end());
  ++tally.trials;
  std::set<std::vector<int>> failing;
  bool innocent = false;
  for (const Culprit& culprit : verdict.culprits) {
    if (culprit.outcome != Outcome::fail) continue;
    failing.insert(culprit.units);
    innocent = innocent || truth.culprits.count(culprit.units) == 0;
  }
  tally.failed += innocent;
  tally.found += std::ranges::includes(failing, truth.culprits);
  tally.exact += kind && named == truth.culprits;
  tally.inconclusive += verdict.outcome == Outcome::inconclusive;
  tally.faulty += static_cast<long>(truth.culprits.size());
  tally.healthy += n - static_cast<long>(guilty.size());
  for (const std::vector<int>& culprit : truth.culprits) tally.missed += named.count(culprit) == 0;
  for (const int unit : units) tally.blamed += guilty.count(unit) == 0;
  const int rounds = verdict.rounds - verdict.later_rounds;
  tally.rounds += rounds;
  tally.tests = std::max(tally.tests, rounds - verdict.calibration_rounds - verdict.alone_rounds);
  tally.most = std::max(tally.most, rounds);
}

using Plant = std::function<Truth(SimulatedCluster&)>;

Tally simulate(int n, int trials, double dips, const SearchOptions& wanted, const Plant& plant) {
  Tally tally;
  for (int i = 0; i < trials; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) * 7919 + static_cast<std::uint64_t>(n);
    SimulatedCluster cluster(n, 2 * seed + 1);
    cluster.dip_share = dips;
    const Truth truth = plant(cluster);
    SearchOptions options = wanted;
    options.seed = seed;
    count(tally, searched(cluster, options).finding(), truth, n);
  }
  return tally;
}

double share(long part, long whole) { return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole); }

void print(const std::string& what, const Tally& t) {
  fmt::print("{:44} {:6} {:7.4f} {:7.4f} {:9.6f} {:8.4f} {:7} {:7} {:6.1f}\n", what, t.trials, share(t.exact, t.trials),
             share(t.missed, t.faulty), share(t.blamed, t.healthy), share(t.inconclusive, t.trials), t.tests, t.most,
             share(t.rounds, t.trials));
  std::fflush(stdout);
}

void print_header(const char* title) {
  fmt::print("\n{:44} {:>6} {:>7} {:>7} {:>9} {:>8} {:>7} {:>7} {:>6}\n", title, "trials", "exact", "missed", "false",
             "inconcl.", "rounds", "in all", "mean");
}

std::set<int> some_units(SimulatedCluster& cluster, int count) {
  std::set<int> units;
  while (static_cast<int>(units.size()) < count) {
    units.insert(static_cast<int>(cluster.random.below(static_cast<std::uint64_t>(cluster.n))));
  }
  return units;
}

Plant slow_units(int count, double factor) {
  return [=](SimulatedCluster& cluster) {
    Truth truth;
    for (const int unit : some_units(cluster, count)) {
      cluster.slow_unit(unit, factor);
      truth.culprits.insert({unit});
    }
    return truth;
  };
}

Plant slow_pair(double factor) {
  return [=](SimulatedCluster& cluster) {
    const std::set<int> ends = some_units(cluster, 2);
    cluster.slow_link(*ends.begin(), *ends.rbegin(), factor);
    return Truth{{{*ends.begin(), *ends.rbegin()}}, What::link};
  };
}

Plant nothing() {
  return [](SimulatedCluster&) { return Truth{}; };
}

/// Faulty units of 8 to 4096: the table that the bounds are about.
void rates(int trials, const std::vector<int>& sizes) {
  print_header("units, faulty, factor, dips");
  for (const int n : sizes) {
    const int runs = std::max(20, n <= 64 ? trials : trials * 64 / n);
    for (const double factor : {0.5, 0.7, 0.8}) {
      std::set<int> counts;
      for (const double part : {0.01, 0.03, 0.05}) {
        counts.insert(std::max(1, static_cast<int>(std::lround(part * n))));
      }
      for (const int faulty : counts) {
        for (const double dips : {0.0, 0.02, 0.05}) {
          print(fmt::format("{:5} {:5} {:6.1f} {:5.0f} %", n, faulty, factor, 100 * dips),
                simulate(n, runs, dips, {}, slow_units(faulty, factor)));
        }
      }
    }
    for (const double dips : {0.0, 0.02, 0.05}) {
      print(fmt::format("{:5} {:5} {:>6} {:5.0f} %", n, 0, "", 100 * dips), simulate(n, runs, dips, {}, nothing()));
    }
  }
}

/// Everything else that can be wrong. The searches that take hundreds of rounds get fewer trials.
void kinds(int trials) {
  print_header("what is wrong");
  SearchOptions full;
  full.full = true;
  SearchOptions direction;
  direction.direction = true;
  SearchOptions halving;
  halving.halving = true;
  for (const double dips : {0.0, 0.02, 0.05}) {
    const auto row = [&](const std::string& what, int n, int runs, const SearchOptions& options, const Plant& plant) {
      print(fmt::format("{:32} N {:4}, {:.0f} %", what, n, 100 * dips),
            simulate(n, std::max(20, runs), dips, options, plant));
    };
    for (const int n : {3, 4, 5, 7}) row("one unit at 0.7", n, trials, {}, slow_units(1, 0.7));
    for (const int n : {3, 4, 5, 7}) row("one pair at 0.7", n, trials, {}, slow_pair(0.7));
    for (const int n : {3, 4, 5, 7}) row("nothing", n, trials, {}, nothing());
    for (const int n : {8, 64}) row("--full, one pair at 0.7", n, trials, full, slow_pair(0.7));
    row("--full, one pair at 0.7", 512, trials / 20, full, slow_pair(0.7));
    row("--full, nothing", 64, trials, full, nothing());
    row("--full, 3 units at 0.7", 64, trials, full, slow_units(3, 0.7));
    row("one pair at 0.7, without --full", 64, trials, {}, slow_pair(0.7));
    row("--direction, transmit side at 0.7", 64, trials, direction, [](SimulatedCluster& cluster) {
      const int unit = *some_units(cluster, 1).begin();
      cluster.out[static_cast<std::size_t>(unit)] = 0.7;
      return Truth{{{unit}}};
    });
    row("--direction, nothing", 64, trials, direction, nothing());
    row("--halving, 1 unit at 0.7", 64, trials, halving, slow_units(1, 0.7));
    row("--halving, 3 units at 0.7", 512, trials / 8, halving, slow_units(3, 0.7));
    row("two share an uplink for one", 64, trials, {}, [](SimulatedCluster& cluster) {
      Truth truth;
      truth.what = What::contention;
      for (const int unit : some_units(cluster, 2)) {
        cluster.rack[static_cast<std::size_t>(unit)] = 1;
        truth.culprits.insert({unit});
      }
      cluster.uplink_of_rack[1] = 1;
      return truth;
    });
    row("two racks, half between them", 64, trials, {}, [](SimulatedCluster& cluster) {
      for (std::size_t unit = 0; unit < 32; ++unit) cluster.rack[unit] = 1;
      cluster.between_racks = 0.5;
      return Truth{};
    });
    row("half of the units at 0.7", 64, trials, {}, [](SimulatedCluster& cluster) {
      for (int unit = 0; unit < 32; ++unit) cluster.slow_unit(unit, 0.7);
      return Truth{};
    });
    SearchOptions soak;
    soak.soak_s = 450;
    const auto flapping = [](double part) {
      return [part](SimulatedCluster& cluster) {
        const int unit = *some_units(cluster, 1).begin();
        cluster.comes_and_goes[static_cast<std::size_t>(unit)] = part;
        return Truth{{{unit}}};
      };
    };
    row("half speed 3 times in 10", 64, trials, {}, flapping(0.3));
    row("half speed 7 times in 10", 64, trials, {}, flapping(0.7));
    row("450 soak rounds, 1 time in 10", 64, trials / 10, soak, flapping(0.1));
    row("450 soak rounds, nothing", 64, trials / 10, soak, nothing());
  }
}

/// Hosts with other work for a while, beside one that is slow or none.
void spells(int trials) {
  fmt::print(
      "\n2 % of the time at 0.7: healthy ones that FAIL, WARN at most, one at 0.7 that FAILs, in % of searches\n");
  for (const int looks : {1, 3}) {
    for (const int n : {8, 64}) {
      for (const double rounds : {3.0, 30.0}) {
        const auto busy = [rounds](const Plant& plant) {
          return [rounds, plant](SimulatedCluster& cluster) {
            cluster.busy_share = 0.02;
            cluster.busy_s = rounds;
            return plant(cluster);
          };
        };
        SearchOptions options;
        options.looks = looks;
        const Tally healthy = simulate(n, trials, 0, options, busy(nothing()));
        const Tally slow = simulate(n, trials, 0, options, busy(slow_units(1, 0.7)));
        fmt::print("{} looks, {:2} units, spells of {:2g} rounds: {:5.1f} {:5.1f} {:5.1f}\n", looks, n, rounds,
                   100 * share(healthy.failed, trials),
                   100 * share(healthy.blamed > 0 ? healthy.trials - healthy.exact : 0, trials),
                   100 * share(slow.found, trials));
        std::fflush(stdout);
      }
    }
  }
}

/// What the search itself costs: time inside it, memory that it holds.
void cost(const std::vector<int>& sizes) {
  fmt::print("\n{:32} {:>7} {:>13} {:>12} {:>12}\n", "search", "rounds", "us per round", "ms longest", "MiB held");
  struct Kind {
    const char* name;
    bool full;
    bool direction;
  };
  for (const int n : sizes) {
    for (const Kind& kind :
         {Kind{"default", false, false}, Kind{"--direction", false, true}, Kind{"--full", true, false}}) {
      SimulatedCluster cluster(n, 1);
      cluster.dip_share = 0.02;
      slow_units(std::max(1, n / 20), 0.7)(cluster);
      SearchOptions options;
      options.full = kind.full;
      options.direction = kind.direction;
      const auto held = [] { return static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd); };
      const double before = held();
      double most = 0;
      double longest_s = 0;
      double all_s = 0;
      const auto timed = [&](const auto& work) {
        const std::clock_t start = std::clock();  // of the processor: others may be busy too
        work();
        const double s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        all_s += s;
        longest_s = std::max(longest_s, s);
      };
      Search search(n, options);
      int rounds = 0;
      for (;; ++rounds) {
        std::optional<LocateRound> round;
        timed([&] { round = search.next(); });
        if (!round) break;
        const std::vector<GroupMeasurement> measured = cluster.measure(*round);
        timed([&] { search.add(measured); });
        if (rounds % 16 == 0 || rounds < 16) most = std::max(most, held() - before);
      }
      timed([&] { (void)search.finding(); });
      fmt::print("N {:4} {:25} {:7} {:13.1f} {:12.2f} {:12.2f}\n", n, kind.name, rounds, 1e6 * all_s / rounds,
                 1e3 * longest_s, most / (1 << 20));
      std::fflush(stdout);
    }
  }
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("the most that this process ever held: {:.0f} MiB\n", static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  int trials = 1000;
  std::vector<int> sizes;
  std::set<std::string_view> parts;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trials" && i + 1 < argc) {
      trials = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--units" && i + 1 < argc) {
      sizes.push_back(std::max(1, std::atoi(argv[++i])));
    } else if (word == "rates" || word == "kinds" || word == "cost" || word == "spells") {
      parts.insert(word);
    } else {
      fmt::print(stderr, "usage: {} [rates|kinds|spells|cost]... [--trials N] [--units N]...\n", argv[0]);
      return 2;
    }
  }
  if (sizes.empty()) sizes = {8, 64, 512, 4096};
  const auto wanted = [&](std::string_view part) { return parts.empty() || parts.count(part) > 0; };
  if (wanted("rates")) rates(trials, sizes);
  if (wanted("kinds")) kinds(trials);
  if (wanted("spells")) spells(trials);
  if (wanted("cost")) cost(sizes);
  return 0;
}
