// Would catch: a rules file that Open MPI drops without a word or reads otherwise than we do (octal numbers, digits in
// comments, the first communicator entry reaching down, the last one reaching up), so that a run believes in an
// algorithm that never runs.

#include "common/backends/mpi/mpi_algorithms.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <random>

using namespace busbar;

namespace {

const OmpiMessageRule* find(const ParsedOmpiRules& parsed, CollectiveId id, int comm_size, std::uint64_t bytes) {
  return find_ompi_rule(parsed.rules, ompi_collective(id)->rule_id, comm_size, bytes);
}

int algorithm(const ParsedOmpiRules& parsed, CollectiveId id, int comm_size, std::uint64_t bytes) {
  const OmpiMessageRule* rule = find(parsed, id, comm_size, bytes);
  return rule == nullptr ? -1 : rule->algorithm;
}

}  // namespace

TEST_CASE("A rules file says what was asked for and nothing about other communicators", "[ompi_rules][mpi]") {
  const std::vector<OmpiRule> rules{{CollectiveId::all_reduce, 4, 8192, 4, 0},
                                    {CollectiveId::broadcast, 4, 0, 2, 8192},
                                    {CollectiveId::all_reduce, 4, 1048576, 5, 65536}};
  const ParsedOmpiRules parsed = parse_ompi_rules(ompi_rules_text(rules));
  REQUIRE(parsed.why_ignored.empty());
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 4, 8191) == 0);
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 4, 8192) == 4);
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 4, 1048575) == 4);
  const OmpiMessageRule* segmented = find(parsed, CollectiveId::all_reduce, 4, 1u << 30);
  REQUIRE(segmented != nullptr);
  CHECK(segmented->algorithm == 5);
  CHECK(segmented->segment_bytes == 65536);
  for (const int other : {1, 2, 3, 5, 64, 100000}) {
    CHECK(algorithm(parsed, CollectiveId::all_reduce, other, 1u << 20) == 0);
    CHECK(algorithm(parsed, CollectiveId::broadcast, other, 0) == 0);
  }
  const OmpiMessageRule* chain = find(parsed, CollectiveId::broadcast, 4, 1);
  REQUIRE(chain != nullptr);
  CHECK(chain->fan == 4);  // as the forced variable has it; 0 would be a chain of one: another tree
  CHECK(chain->segment_bytes == 8192);
  CHECK(find(parsed, CollectiveId::reduce, 4, 1) == nullptr);
}

TEST_CASE("Neighbouring communicator sizes keep their own rules", "[ompi_rules][mpi]") {
  const std::vector<OmpiRule> rules{{CollectiveId::gather, 3, 0, 2, 0},
                                    {CollectiveId::gather, 2, 0, 1, 0},
                                    {CollectiveId::gather, 8, 0, 3, 0},
                                    {CollectiveId::scatter, 1, 0, 1, 0}};
  const ParsedOmpiRules parsed = parse_ompi_rules(ompi_rules_text(rules));
  REQUIRE(parsed.why_ignored.empty());
  const std::vector<int> expected{0, 1, 2, 0, 0, 0, 0, 3, 0};
  for (int size = 1; size <= 9; ++size) {
    CHECK(algorithm(parsed, CollectiveId::gather, size, 100) == expected[static_cast<std::size_t>(size - 1)]);
  }
  CHECK(algorithm(parsed, CollectiveId::scatter, 1, 0) == 1);
  CHECK(algorithm(parsed, CollectiveId::scatter, 2, 0) == 0);
}

TEST_CASE("The file is the classic form, in plain decimal numbers", "[ompi_rules][mpi]") {
  const std::vector<OmpiRule> rules{{CollectiveId::all_reduce, 4, 0, 3, 0}, {CollectiveId::all_reduce, 4, 8192, 4, 0}};
  const std::string text = ompi_rules_text(rules);
  CHECK(text.starts_with("# Open MPI rules file, written by busbar "));
  std::string bare;
  bool comment = false;
  for (const char c : text) {
    comment = c == '#' || (comment && c != '\n');
    if (!comment && !(c == '\n' && (bare.empty() || bare.back() == '\n'))) bare += c;
    if (c == '\n') {
      while (bare.size() > 1 && bare[bare.size() - 2] == ' ') bare.erase(bare.size() - 2, 1);
    }
  }
  CHECK(bare == "1\n2\n3\n0\n1\n0 0 0 0\n4\n2\n0 3 0 0\n8192 4 0 0\n5\n1\n0 0 0 0\n");
}

TEST_CASE("What cannot be said in a rules file is an error", "[ompi_rules][mpi]") {
  const auto refused = [](const OmpiRule& rule) {
    CHECK_THROWS_AS(ompi_rules_text(std::vector<OmpiRule>{rule}), Error);
  };
  refused({CollectiveId::sendrecv, 4, 0, 1, 0});
  refused({CollectiveId::all_reduce, 0, 0, 1, 0});
  refused({CollectiveId::all_reduce, 4, ~std::uint64_t{0}, 1, 0});
  refused({CollectiveId::all_reduce, 4, 0, 1, std::uint64_t{1} << 40});
  refused({CollectiveId::all_reduce, 4, 0, -1, 0});
  const OmpiRule twice{CollectiveId::all_reduce, 4, 0, 1, 0};
  CHECK_THROWS_AS(ompi_rules_text(std::vector<OmpiRule>{twice, twice}), Error);
}

TEST_CASE("Numbers are read as %li reads them", "[ompi_rules][mpi]") {
  // Octal 010 is 8, 0x is hexadecimal, a digit inside a word counts, a comment reaches to the end of its line.
  const ParsedOmpiRules octal = parse_ompi_rules("# 9 9 9\n1 2 1 04 2\n0 3 0 0\n010 4 0 0x10 # 7\n");
  REQUIRE(octal.why_ignored.empty());
  CHECK(algorithm(octal, CollectiveId::all_reduce, 4, 7) == 3);
  CHECK(algorithm(octal, CollectiveId::all_reduce, 4, 8) == 4);
  CHECK(find(octal, CollectiveId::all_reduce, 4, 8)->segment_bytes == 16);
  const ParsedOmpiRules word = parse_ompi_rules("1 allreduce2 1 4 1 0 3 0 0");
  REQUIRE(word.why_ignored.empty());
  CHECK(algorithm(word, CollectiveId::all_reduce, 4, 0) == 3);
}

TEST_CASE("The first communicator entry reaches down, the last one up", "[ompi_rules][mpi]") {
  const ParsedOmpiRules parsed = parse_ompi_rules("1 2 2 64 1 0 3 0 0 128 1 0 4 0 0");
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 4, 0) == 3);
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 127, 0) == 3);
  CHECK(algorithm(parsed, CollectiveId::all_reduce, 4096, 0) == 4);
  CHECK(has_ompi_rule(parsed.rules, 2, 4));
  CHECK_FALSE(has_ompi_rule(parsed.rules, 7, 4));
}

TEST_CASE("A malformed file is ignored as a whole, and why is said", "[ompi_rules][mpi]") {
  const auto why = [](std::string_view text) { return parse_ompi_rules(text).why_ignored; };
  CHECK(why("") == "the file ends before the number of collectives");
  CHECK(why("1 2 1 4 2 0 3 0 0") == "the file ends before a message size");
  CHECK(why("1 2 1 4 1 8 3 0 0") == "the first message rule must begin at 0 bytes");
  CHECK(why("23") == "23 collectives, but Open MPI knows 22");
  CHECK(why("1 22 0") == "collective 22, but the last is 21");
  CHECK(why("1 2 1 4 1 0 -3 0 0") == "an algorithm is negative: -3");
  // The form of Open MPI 5.0.7 and later, which older ones drop: the version becomes the number of collectives.
  CHECK_FALSE(why("rule-file-version-2\n1 2 1 4 1 0 3 0 0 0\n").empty());
  CHECK(why("0").empty());
}

TEST_CASE("What is written is read back, whatever the rules", "[ompi_rules][mpi][fuzz]") {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<OmpiRule> rules;
    for (int i = below(12); i >= 0; --i) {
      const OmpiRule rule{kAllCollectives[static_cast<std::size_t>(below(9))], 1 + below(6),
                          std::uint64_t{1} << below(40), below(9), static_cast<std::uint64_t>(below(3)) * 4096};
      const bool taken = std::any_of(rules.begin(), rules.end(), [&](const OmpiRule& r) {
        return r.collective == rule.collective && r.comm_size == rule.comm_size && r.from_bytes == rule.from_bytes;
      });
      if (!taken) rules.push_back(rule);
    }
    const ParsedOmpiRules parsed = parse_ompi_rules(ompi_rules_text(rules));
    REQUIRE(parsed.why_ignored.empty());
    for (const OmpiRule& rule : rules) {
      const OmpiMessageRule* found = find(parsed, rule.collective, rule.comm_size, rule.from_bytes);
      REQUIRE(found != nullptr);
      CHECK(found->from_bytes == rule.from_bytes);
      CHECK(found->algorithm == rule.algorithm);
      CHECK(static_cast<std::uint64_t>(found->segment_bytes) == rule.segment_bytes);
    }
  }
}

TEST_CASE("Any bytes are read without harm", "[ompi_rules][mpi][fuzz]") {
  std::mt19937 random(2);
  const std::string letters = "0123456789 \n\t#-+xXa\0\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    const ParsedOmpiRules parsed = parse_ompi_rules(text);
    for (int id = 0; id < 22; ++id) find_ompi_rule(parsed.rules, id, 4, 1000);
  }
  CHECK(parse_ompi_rules("1 2 2147483647 1 2147483647 0 1").why_ignored ==
        "the file ends before a fan");  // counts are believed only as far as the file goes
}
