#pragma once

#include "common/base/enum_words.h"
#include "common/base/outcome.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What may be slow: hosts, or ranks if all are on one host.
enum class UnitKind : std::uint8_t { host, rank };
constexpr EnumWords<2> words_of(UnitKind) { return {"host", "rank"}; }

/// Something to blame, with the counts that prove it.
struct Culprit {
  enum class What : std::uint8_t {
    unit,        ///< a node (or a rank)
    link,        ///< between the two units
    one_of_two,  ///< one of these; the data cannot tell which
    contention,  ///< slow only while others run: the fabric between, not the units
  };
  enum class Side : std::uint8_t { unknown, both, transmit, receive };
  What what = What::unit;
  std::vector<int> units;
  Side side = Side::unknown;
  int rail = -1;  ///< the only slow one; -1: not known, or several
  bool intermittent = false;
  int slow_partners = 0;  ///< of `partners`
  int partners = 0;
  int failed_confirmations = 0;  ///< of `confirmations`
  int confirmations = 0;
  double ratio = 0;             ///< of the median: mean over the slow measurements
  double ratio_error = 0;       ///< their standard deviation
  double alone_ratio = 0;       ///< of the median, while nothing else ran; 0: not tried
  std::vector<int> slow_rails;  ///< the slow ones of the rails tried
  double over_time = 0;         ///< if only its dips show it: its share of what others reach over time; else 0
  int looks = 0;                ///< the number of checks, minutes apart; 0: none
  int looks_slow = 0;           ///< of these, up to the first in which it was not slow
  Outcome outcome = Outcome::fail;
};

// The spelling in JSON.
constexpr EnumWords<4> words_of(Culprit::What) { return {"unit", "link", "one_of_two", "contention"}; }
constexpr EnumWords<4> words_of(Culprit::Side) { return {"unknown", "both", "transmit", "receive"}; }
static_assert(name(Culprit::What::contention) == "contention");
static_assert(name(Culprit::Side::receive) == "receive");

/// The result of a search.
struct LocateVerdict {
  Outcome outcome = Outcome::pass;  ///< pass, warn, fail, inconclusive; skip: nothing to compare (one or two units)
  std::vector<Culprit> culprits;    ///< worst first
  std::string reason;               ///< for inconclusive and skip; with culprits: why there may be more
  int rounds = 0;                   ///< all rounds
  int calibration_rounds = 0;       ///< of these, for the noise
  int alone_rounds = 0;             ///< of these, to tell contention from a fault
  int later_rounds = 0;             ///< of these, in checks a minute later
  double noise = 0;                 ///< coefficient of variation of the calibration
  double threshold = 0;             ///< share of the median below which a measurement is slow
  double median_bandwidth = 0;      ///< [B/s] over pairs of good units: the base of ratios
  double slow_share = 0;            ///< of the measurements between good units: p, the rate of false alarms
  double expected_false = 0;        ///< units blamed by chance, N p^k P(most of m): acceptance.md 4.3
};

/// One pair in the matrix: the median over its measurements.
struct PairCell {
  int a = 0;
  int b = 0;
  double bandwidth = 0;  ///< [B/s]
  int measurements = 0;
  bool one_way = false;  ///< from a to b
};

/// The culprit and the reason, with the counts: "node31: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3
/// confirmations, transmit side". `names`: of the units; one without is "unit 5".
std::string describe(const Culprit& culprit, std::span<const std::string> names);

/// ", slow in 1 of 3 looks: ..."; empty if there was only one.
std::string looks_words(int looks, int slow);

/// The names of its units.
std::vector<std::string> unit_names(const Culprit& culprit, std::span<const std::string> names);

/// The first part of that: "node31", "node3 - node7", "node3 or node7".
std::string who(const Culprit& culprit, std::span<const std::string> names);

/// The verdict in a line: "FAIL: node31: ..." with the worst culprit and the number of others, "PASS: 64 units within
/// 0.90 of the median (8 rounds, noise 1.2 %)", or the reason.
std::string headline(const LocateVerdict& verdict, std::span<const std::string> names);

/// The line without "FAIL: ", for use next to the outcome.
std::string_view without_outcome(std::string_view headline, Outcome outcome);

}  // namespace busbar
