// The bugs these would catch: a rule where nothing was proven, one that reaches beyond what was measured, a boundary
// off by one size, bytes that the reader of the file counts otherwise, and a "best" setting picked from noise.

#include "common/base/error.h"
#include "comparison_fixture.h"
#include "driver/compare/compare.h"
#include "driver/compare/variants.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

using Ompi = std::vector<std::vector<std::uint64_t>>;

/// (from, algorithm, segment) of each rule.
Ompi numbers(const std::vector<OmpiRule>& rules) {
  Ompi result;
  for (const OmpiRule& r : rules) {
    result.push_back({r.from_bytes, static_cast<std::uint64_t>(r.algorithm), r.segment_bytes});
  }
  return result;
}

std::vector<Variant> nccl_variants() {
  return {{"default", {}},
          {"Ring/LL", {{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "LL"}}},
          {"Tree/LL128", {{"NCCL_ALGO", "Tree"}, {"NCCL_PROTO", "LL128"}}}};
}

void ran(Comparison& c, std::size_t at, std::size_t variant, const char* algorithm, const char* protocol,
         const char* channels) {
  c.cases[at].variants[variant].ran = {
      .algorithm = algorithm, .protocol = protocol, .channels = channels, .predicted_s = {}};
}

}  // namespace

TEST_CASE("A rule holds from a win to the next measured size, and nowhere else", "[emit][unit]") {
  const Comparison c = fake_comparison(ompi_variants(), {{8, {1.2, 1.5, 2}},          // the default wins
                                                         {1024, {0.8, 1.5, 2}},       // recursive doubling
                                                         {2048, {0.7, 1.5, 2}},       // again: no new rule
                                                         {4096, {0.97, 1.5, 2}},      // a tie
                                                         {8192, {1.5, 0.5, 2}},       // ring
                                                         {65536, {1.5, 0.8, 0.4}}});  // segmented ring
  const std::vector<OmpiRule> rules = ompi_rules({&c, 1});
  CHECK(numbers(rules) == Ompi{{1024, 3, 0}, {4096, 0, 0}, {8192, 4, 0}, {65536, 5, 65536}, {65537, 0, 0}});
  for (const OmpiRule& rule : rules) {
    CHECK(rule.comm_size == 4);
    CHECK(rule.collective == CollectiveId::all_reduce);
  }

  // What Open MPI makes of the file, by the reader that is built after its own.
  const ParsedOmpiRules read = parse_ompi_rules(ompi_rules_text(rules));
  REQUIRE(read.why_ignored.empty());
  const auto algorithm = [&](std::uint64_t bytes) { return find_ompi_rule(read.rules, 2, 4, bytes)->algorithm; };
  CHECK(algorithm(8) == 0);
  CHECK(algorithm(1023) == 0);
  CHECK(algorithm(1024) == 3);
  CHECK(algorithm(4095) == 3);
  CHECK(algorithm(4096) == 0);
  CHECK(algorithm(8192) == 4);
  CHECK(algorithm(65535) == 4);
  CHECK(algorithm(65536) == 5);
  CHECK(algorithm(65537) == 0);
  CHECK(find_ompi_rule(read.rules, 2, 3, 8192)->algorithm == 0);
  CHECK(find_ompi_rule(read.rules, 2, 5, 8192)->algorithm == 0);
}

TEST_CASE("A variant as good as the winner goes on, so that the table stays simple", "[emit][unit]") {
  // At 2048 segmented ring is 1 % faster than ring, less than the band; at 4096 it is 20 % faster.
  const Comparison c =
      fake_comparison(ompi_variants(), {{1024, {2, 0.5, 0.8}}, {2048, {2, 0.505, 0.5}}, {4096, {2, 0.6, 0.5}}});
  CHECK(numbers(ompi_rules({&c, 1})) == Ompi{{1024, 4, 0}, {4096, 5, 65536}, {4097, 0, 0}});
}

TEST_CASE("Types of one size that disagree get no rule", "[emit][unit]") {
  Comparison c = fake_comparison(ompi_variants(), {{1024, {0.5, 2, 2}}, {1024, {2, 0.5, 2}}, {2048, {2, 0.5, 2}}});
  c.cases[1].row_case.dtype = DType::float64;
  CHECK(numbers(ompi_rules({&c, 1})) == Ompi{{2048, 4, 0}, {2049, 0, 0}});
}

TEST_CASE("Types with tables of their own share their rules", "[emit][unit]") {
  const std::vector<Comparison> tables{fake_comparison(ompi_variants(), {{1024, {0.5, 2, 2}}, {2048, {0.5, 2, 2}}}),
                                       fake_comparison(ompi_variants(), {{1024, {0.5, 2, 2}}, {2048, {2, 0.5, 2}}})};
  CHECK(numbers(ompi_rules(tables)) == Ompi{{1024, 3, 0}, {2048, 0, 0}});
}

TEST_CASE("Without a confident gain there is no rule", "[emit][unit]") {
  Comparison c = fake_comparison(ompi_variants(), {{8, {0.97, 1.1, 0}}, {16, {1.5, 1.5, 0}}});
  CHECK(ompi_rules({&c, 1}).empty());
  // Fastest by far, but with wrong data.
  c = fake_comparison(ompi_variants(), {{8, {0.5, 1.1, 0}}});
  c.cases[0].variants[1].wrong = 3;
  CHECK(ompi_rules({&c, 1}).empty());
}

TEST_CASE("Open MPI counts a size as its own decision function does", "[emit][unit]") {
  // gather on 4 ranks: the rule's bytes are all blocks together; a benchmark's size of 4096 is that of them all too.
  Comparison c = fake_comparison({{"default", {}}, {"binomial", {{"ompi.algorithm", "binomial"}}}}, {{4096, {0.5}}});
  c.collective = &collective(CollectiveId::alltoall);
  c.variants[1] = {"pairwise", {{"ompi.algorithm", "pairwise"}}};
  c.cases[0].row_case.problem.count = 256;  // to each rank: 4 x 256 x 4 bytes
  CHECK(numbers(ompi_rules({&c, 1})) == Ompi{{4096, 2, 0}, {4097, 0, 0}});
}

TEST_CASE("A tuner's table has what really ran, with inclusive bounds", "[emit][unit]") {
  Comparison c = fake_comparison(
      nccl_variants(), {{1024, {0.5, 2}}, {2048, {0.5, 2}}, {4096, {0.5, 2}}, {8192, {1.2, 1.2}}, {16384, {2, 0.5}}});
  c.backend = "nccl";
  c.nnodes = 2;
  ran(c, 0, 1, "RING", "LL", "4");
  ran(c, 1, 1, "RING", "LL", "4");
  ran(c, 2, 1, "RING", "LL", "8");
  ran(c, 4, 2, "TREE", "LL128", "16");
  const TunerTable table = tuner_rules({&c, 1});
  CHECK(table.left_out.empty());
  REQUIRE(table.rules.size() == 3);
  CHECK(table.rules[0] == TunerRule{.collective = TunerCollective::all_reduce,
                                    .min_bytes = 1024,
                                    .max_bytes = 4095,
                                    .algorithm = TunerAlgorithm::ring,
                                    .protocol = TunerProtocol::ll,
                                    .channels = 4,
                                    .nnodes = 2,
                                    .nranks = 4});
  CHECK(table.rules[1].min_bytes == 4096);
  CHECK(table.rules[1].max_bytes == 8191);
  CHECK(table.rules[1].channels == 8);
  CHECK(table.rules[2].min_bytes == 16384);
  CHECK(table.rules[2].max_bytes == 16384);
  CHECK(table.rules[2].algorithm == TunerAlgorithm::tree);
  CHECK(parse_tuner_csv(tuner_csv(table.rules), "t.csv").size() == 3);
}

TEST_CASE("A win that a tuner cannot repeat is left out, and said", "[emit][unit]") {
  Comparison c = fake_comparison(nccl_variants(), {{1024, {0.5, 2}}, {2048, {0.5, 2}}});
  ran(c, 0, 1, "RING", "LL", "-");
  const TunerTable table = tuner_rules({&c, 1});
  CHECK(table.rules.empty());
  REQUIRE(table.left_out.size() == 2);
  CHECK(table.left_out[0] == "all_reduce at 1 KiB to below 2 KiB, Ring/LL: the number of channels is not known: -");
  CHECK(table.left_out[1] == "all_reduce at 2 KiB, Ring/LL: what ran is not known well enough: unknown/-");
}

TEST_CASE("The best single setting is the one of least regret at its worst size", "[emit][unit]") {
  // Intervals are +-0.01. At most, at 8 B and 64 KiB: default 1/0.79 - 1 = 26.6 % and 1/0.39 - 1 = 156.4 %; recursive
  // doubling 2.01/0.39 - 1; ring 1.21/0.79 - 1 = 53.2 % and 0.51/0.39 - 1 = 30.8 %. Segmented ring cannot run at 8 B.
  const Comparison c = fake_comparison(ompi_variants(), {{8, {0.8, 1.2, 0}}, {65536, {2, 0.5, 0.4}}});
  const BestSetting best = best_setting({&c, 1});
  CHECK(best.changes_anything);
  CHECK(best.text ==
        "# The single best setting that `busbar compare` found.\n"
        "# all_reduce on 4 ranks, 8 B to 64 KiB:\n"
        "#   ring: at most 53.2 % slower than the best, at 8 B\n"
        "#   the library's own choice: at most 156.4 % slower than the best, at 64 KiB\n"
        "#   left out, not usable or without a ratio at some size: segmented_ring/64K\n"
        "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n"
        "export OMPI_MCA_coll_tuned_allreduce_algorithm=4\n");
}

TEST_CASE("What is undecided may cost what its interval says", "[emit][unit]") {
  // 6 % faster at 1 KiB, and at 1 MiB anything from 3 % faster to 140 % slower: that was emitted as equal.
  const std::vector<Variant> variants{{"default", {}}, {"ring", {{"ompi.algorithm", "ring"}}}};
  Comparison c = fake_comparison(variants, {{1024, {0.94}}, {1 << 20, {1.0}}});
  VariantCell& open = c.cases[1].variants[1];
  open.ratio = Ratio{1.6, {0.97, 2.4}};
  open.difference = Difference::undecided;
  CHECK_FALSE(best_setting({&c, 1}).changes_anything);
  CHECK_THAT(best_setting({&c, 1}).text, Catch::Contains("at most 7.5 % slower than the best, at 1 KiB"));  // 1/0.93
  open.ratio = Ratio{1, {0.97, 1.03}};
  CHECK(best_setting({&c, 1}).changes_anything);
  open.ratio.reset();
  CHECK_FALSE(best_setting({&c, 1}).changes_anything);
  CHECK_THAT(best_setting({&c, 1}).text, Catch::Contains("without a ratio at some size: ring\n"));
}

TEST_CASE("Noise chooses no setting", "[emit][unit]") {
  const Comparison c = fake_comparison(ompi_variants(), {{8, {0.96, 0.97, 1.2}}, {16, {0.96, 1.01, 1.3}}});
  const BestSetting best = best_setting({&c, 1});
  CHECK_FALSE(best.changes_anything);
  CHECK_THAT(best.text, Catch::Contains("#   no setting is surely better than the library's own choice: at most 5.3 % "
                                        "slower than the best, at 8 B; nothing"));
  CHECK_THAT(best.text, !Catch::Contains("export"));
}

TEST_CASE("NCCL's lists of several collectives become one variable", "[emit][unit]") {
  std::vector<Comparison> both(2, fake_comparison(nccl_variants(), {{1024, {0.5, 2}}}));
  both[1].collective = &collective(CollectiveId::broadcast);
  const BestSetting best = best_setting(both);
  CHECK_THAT(best.text, Catch::Contains("export NCCL_ALGO='allreduce:ring;broadcast:ring'\n"));
  CHECK_THAT(best.text, Catch::Contains("export NCCL_PROTO='allreduce:ll;broadcast:ll'\n"));
}

TEST_CASE("A setting for all collectives is chosen over all of them", "[emit][unit]") {
  const std::vector<Variant> variants{{"default", {}}, {"4M", {{"NCCL_BUFFSIZE", "4M"}}}};
  // 20 % better in one, 60 % worse in the other.
  const std::vector<Comparison> both{fake_comparison(variants, {{1024, {0.8}}}),
                                     fake_comparison(variants, {{1024, {1.6}}})};
  CHECK_FALSE(best_setting(both).changes_anything);
  CHECK(best_setting({both.data(), 1}).changes_anything);
  CHECK_THAT(best_setting({both.data(), 1}).text, Catch::EndsWith("\nexport NCCL_BUFFSIZE=4194304\n"));
}

TEST_CASE("What a file cannot hold is refused before anything is measured", "[emit][unit]") {
  const auto names = [](std::vector<std::string> list) { return list; };
  CHECK(why_no_ompi_rules(names({"ompi.algorithm", "ompi.segmentsize"})).empty());
  CHECK_THAT(why_no_ompi_rules(names({"ompi.algorithm", "NCCL_ALGO"})), Catch::Contains("not NCCL_ALGO;"));
  CHECK(why_no_tuner_table(names({"NCCL_ALGO", "nccl.ctas"})).empty());
  CHECK_THAT(why_no_tuner_table(names({"ompi.algorithm"})), Catch::Contains("not ompi.algorithm;"));
  CHECK_THAT(why_no_tuner_table(names({"device"})), Catch::Contains("not device;"));
  CHECK(why_no_environment(names({"ompi.algorithm", "NCCL_ALGO", "nccl.ctas", "nccl.numRmaCtx", "UCX_TLS"})).empty());
  CHECK_THAT(why_no_environment(names({"NCCL_ALGO", "device"})), Catch::Contains("sets device"));
  CHECK_THAT(why_no_environment(names({"nccl.hostCftMode"})), Catch::Contains("sets nccl.hostCftMode"));
  CHECK_THAT(why_no_tuner_table(names({"NCCL_BUFFSIZE"})), Catch::Contains("not NCCL_BUFFSIZE;"));
}

TEST_CASE("The option proposed for the winners is one that takes them", "[emit][unit]") {
  const auto hint = [](std::vector<std::string> names) { return emission_hint(names); };
  CHECK_THAT(hint({"ompi.algorithm", "ompi.segmentsize"}), Catch::Contains("the winners") && Catch::Contains("-rules"));
  CHECK_THAT(hint({"NCCL_ALGO", "NCCL_PROTO"}), Catch::Contains("the winners") && Catch::Contains("--emit-tuner"));
  for (const char* other : {"NCCL_BUFFSIZE", "ompi.coll_libnbc_iallreduce_algorithm", "mpich.algorithm", "UCX_TLS"}) {
    CHECK_THAT(hint({"NCCL_ALGO", other}), Catch::Contains("the best single setting") && Catch::Contains("--emit-env"));
  }
  CHECK(hint({"device"}).empty());
  CHECK(hint({"gloo.algorithm"}).empty());
}

TEST_CASE("A variant's settings become a launch's variables", "[variant_environment][unit]") {
  using Environment = std::vector<std::pair<std::string, std::string>>;
  const auto environment = [](const Environment& settings) { return variant_environment({"x", settings}, kAllReduce); };
  CHECK(environment({{"NCCL_BUFFSIZE", "4M"}, {"NCCL_NTHREADS", "256"}}) ==
        Environment{{"NCCL_BUFFSIZE", "4194304"}, {"NCCL_NTHREADS", "256"}});
  CHECK(environment({{"NCCL_SOCKET_IFNAME", "eth0"}, {"NCCL_IB_HCA", "4mlx"}, {"LABEL", "4M"}}) ==
        Environment{{"NCCL_SOCKET_IFNAME", "eth0"}, {"NCCL_IB_HCA", "4mlx"}, {"LABEL", "4M"}});
  CHECK(environment({{"ompi.btl_vader_eager_limit", "8192"}}) ==
        Environment{{"OMPI_MCA_btl_vader_eager_limit", "8192"}});
  CHECK(environment(ompi_variants()[3].settings) ==
        Environment{{"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"},
                    {"OMPI_MCA_coll_tuned_allreduce_algorithm", "5"},
                    {"OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize", "65536"}});
  CHECK(environment({{"mpich.algorithm", "ring"}}) ==
        Environment{{"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "ring"}, {"MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE", "0"}});
  CHECK(environment({{"NCCL_ALGO", "Tree"}, {"nccl.ctas", "8"}}) ==
        Environment{{"NCCL_ALGO", "allreduce:tree"}, {"NCCL_MIN_CTAS", "8"}, {"NCCL_MAX_CTAS", "8"}});
  CHECK(environment({{"NCCL_ALGO", "allreduce:tree"}}) == Environment{{"NCCL_ALGO", "allreduce:tree"}});
  CHECK_THROWS_AS(environment({{"nccl.nonsense", "8"}}), Error);
  CHECK_THROWS_AS(environment({{"ompi.algorithm", "nonsense"}}), Error);
}
