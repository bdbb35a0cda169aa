// Would catch: a value taken for a plain word, an option swallowed by a subcommand, a slip that is silently passed on.

#include "driver/command/subcommand.h"

#include "common/base/error.h"
#include "common/processes/child.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

struct Seen {
  std::vector<std::string> set;
  CommandLine line;
};

Seen split(std::vector<const char*> words) {
  Seen seen;
  const std::vector<OwnOption> own{
      {"vary", "NAME=V", "what to vary", [&](std::string_view t) { seen.set.push_back("vary " + std::string(t)); }},
      {"refine", "", "a switch", [&](std::string_view t) { seen.set.push_back("refine " + std::string(t)); }},
      {"json", "[=FILE]", "optional", [&](std::string_view t) { seen.set.push_back("json " + std::string(t)); }},
      {"delta", "X%", "a number", [&](std::string_view) { throw Error(ExitCode::bad_config, "not a number"); }},
  };
  words.insert(words.begin(), "busbar");
  seen.line = scan_arguments(static_cast<int>(words.size()), words.data(), own);
  return seen;
}

std::string complaint(const std::vector<const char*>& words) {
  try {
    split(words);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::bad_config);
    return e.what();
  }
  return "no error";
}

using Words = std::vector<std::string>;

/// The benchmarks' options and their values.
Words shared(const Seen& seen) {
  Words found;
  for (const Setting& s : seen.line.settings) found.push_back(std::string(s.option->long_name) + " " + s.text);
  return found;
}

}  // namespace

TEST_CASE("plain words, own options and the benchmarks' options are told apart", "[tools][subcommand]") {
  const Seen seen = split(
      {"all_reduce", "-b", "8", "--vary", "A=1,2", "-e8M", "--maxbytes", "16", "--refine", "broadcast", "--vary=B=3"});
  CHECK(seen.line.words == Words{"all_reduce", "broadcast"});
  CHECK(shared(seen) == Words{"minbytes 8", "maxbytes 8M", "maxbytes 16"});
  CHECK(seen.set == Words{"vary A=1,2", "refine 1", "vary B=3"});
  CHECK_FALSE(seen.line.asks_help());
}

TEST_CASE("a value that looks like a word stays with its option", "[tools][subcommand]") {
  CHECK(split({"--backend", "mpi", "x"}).line.words == Words{"x"});
  CHECK(shared(split({"--back", "mpi", "x"})) == Words{"backend mpi"});
  CHECK(split({"--topology", "x"}).line.words == Words{"x"});  // takes no value
  CHECK(split({"--vary", "-5"}).set == Words{"vary -5"});
}

TEST_CASE("an own letter goes before the benchmarks'", "[tools][subcommand]") {
  Words set;
  const auto note = [&](std::string_view t) { set.emplace_back(t); };
  const std::vector<OwnOption> own{{"output", "FILE", "", note, 'o'}, {"verbose", "", "", note, 'v'}};
  const std::vector<const char*> words{"busbar", "-vofile", "-o", "-", "-c0"};
  const CommandLine line = scan_arguments(static_cast<int>(words.size()), words.data(), own);
  CHECK(set == Words{"1", "file", "-"});
  REQUIRE(line.settings.size() == 1);
  CHECK(line.settings[0].option->long_name == "check");
}

TEST_CASE("the first word may begin a command, whose options are its own", "[tools][subcommand]") {
  const auto command = [](const std::vector<const char*>& words) {
    return scan_arguments(static_cast<int>(words.size()), words.data(), {}, PlainWords::begin_a_command).words;
  };
  const Words all{"mpirun", "-n", "4", "x_perf", "-b", "8", "--", "--help"};
  CHECK(command({"busbar", "-J", "r.json", "mpirun", "-n", "4", "x_perf", "-b", "8", "--", "--help"}) == all);
  CHECK(command({"busbar", "-J", "r.json", "--", "mpirun", "-n", "4", "x_perf", "-b", "8", "--", "--help"}) == all);
}

TEST_CASE("help is seen anywhere, and nothing else is lost by it", "[tools][subcommand]") {
  CHECK(split({"x", "--help"}).line.asks_help());
  CHECK(split({"-h"}).line.asks_help());
  CHECK(split({"x", "--help"}).line.words == Words{"x"});
}

TEST_CASE("errors name the option and the nearest one", "[tools][subcommand]") {
  CHECK(complaint({"--delta", "many"}) == "--delta: not a number");
  CHECK_THAT(complaint({"--vary"}), StartsWith("--vary needs an argument"));
  CHECK_THAT(complaint({"--refine=1"}), StartsWith("--refine takes no argument"));
  CHECK_THAT(complaint({"--vry", "A=1"}), StartsWith("unknown option '--vry'; did you mean --vary?"));
  CHECK_THAT(complaint({"--minbyets", "8"}), Contains("did you mean --minbytes?"));
}

TEST_CASE("an argument that may be left out stands behind '=' only", "[tools][subcommand]") {
  const Seen seen = split({"--json", "file", "--json=out"});
  CHECK(seen.set == Words{"json ", "json out"});
  CHECK(seen.line.words == Words{"file"});
}

TEST_CASE("the help lists own options at the benchmarks' column", "[tools][subcommand]") {
  const std::vector<OwnOption> own{{"vary", "NAME=V", "what to vary", {}},
                                   {"a-very-long-name-of-an-option", "ARGUMENT", "below", {}}};
  const std::string words = "a sentence that is too long for the hundred columns of a help, broken";
  CHECK(own_options_help(std::vector<OwnOption>{{"x", "", words, {}}}) ==
        "      --x                             a sentence that is too long for the hundred columns of a help,\n"
        "                                      broken\n");
  CHECK(own_options_help(std::vector<OwnOption>{{"json", "[=FILE]", "optional", {}}}) ==
        "      --json[=FILE]                   optional\n");
  CHECK(own_options_help(own) ==
        "      --vary NAME=V                   what to vary\n"
        "      --a-very-long-name-of-an-option ARGUMENT\n"
        "                                      below\n");
}

TEST_CASE("a subcommand's options are keys of a file too", "[tools][subcommand]") {
  Words set;
  const auto note = [&](std::string_view t) { set.push_back("[" + std::string(t) + "]"); };
  const std::vector<OwnOption> own{
      {"soak", "TIME", "takes a value", note}, {"full", "", "a switch", note}, {"rail", "[=N]", "optional", note}};
  const std::vector<YamlKey> keys = own_file_keys(own);
  REQUIRE(keys.size() == 3);
  CHECK(keys[2].name == "rail");
  const auto after = [&](std::size_t key, const char* text) {
    set.clear();
    Config config;
    apply_yaml(config, fmt::format("{}: {}\n", keys[key].name, text), "a.yaml", keys);
    return set;
  };
  CHECK(after(0, "15min") == Words{"[15min]"});
  CHECK(after(0, "true") == Words{"[true]"});  // the option's own complaint
  CHECK(after(1, "true") == Words{"[1]"});
  CHECK(after(1, "0").empty());
  CHECK_THROWS_AS(after(1, "perhaps"), Error);
  CHECK(after(2, "true") == Words{"[]"});  // --rail
  CHECK(after(2, "false").empty());
  CHECK(after(2, "1") == Words{"[1]"});  // --rail=1, not --rail
}

TEST_CASE("programs of one build are found beside each other, by the names that it gave them", "[tools][subcommand]") {
  CHECK(program_beside("/a/busbar", "busbar-look") == "/a/busbar-look");
  CHECK(program_beside("/a/busbar_v2", "busbar-look") == "/a/busbar-look_v2");
  CHECK(program_beside("/a/busbar_v2", "all_reduce_perf") == "/a/all_reduce_perf_v2");
  CHECK(program_beside("/a/test_unit", "busbar-look") == "/a/busbar-look");
}
