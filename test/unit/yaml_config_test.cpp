// The bugs these would catch: a misspelt key that is silently ignored, an error without its line, a file that wins over
// the command line, and bytes that bring yaml-cpp's own exceptions (or a stack overflow) to the user.

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/yaml_node.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

Config config_of(std::string_view text) {
  Config config;
  apply_yaml(config, text, "a.yaml");
  return config;
}

std::string complaint(std::string_view text) {
  try {
    config_of(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

Configured both(std::string_view text, const std::vector<const char*>& words) {
  std::vector<const char*> argv{"all_reduce_perf"};
  argv.insert(argv.end(), words.begin(), words.end());
  const CommandLine line = scan_arguments(static_cast<int>(argv.size()), argv.data());
  return configure(line, ConfigFile{"a.yaml", std::string(text)}, [](const char*) -> const char* { return nullptr; });
}

}  // namespace

TEST_CASE("keys are the long names, values as on the command line", "[base][yaml]") {
  const Config config = config_of(
      "schema: 1\n"
      "minbytes: 8      # a comment\n"
      "maxbytes: 64M\n"
      "stepfactor: 2\n"
      "iters: 5\n"
      "root: all\n"
      "report_timestamps: true\n"
      "dry_run: 1\n"
      "ranks-per-gpu: 2\n"
      "output_file: \"r.json\"\n");
  CHECK(config.minbytes == 8);
  CHECK(config.maxbytes == 67108864);
  CHECK(config.stepfactor == 2);
  CHECK(config.iters == 5);
  CHECK(config.all_roots);
  CHECK(config.report_timestamps);
  CHECK(config.dry_run);
  CHECK(config.ranks_per_gpu == 2);
  CHECK(config.output_file == "r.json");
}

TEST_CASE("lists stand where commas do", "[base][yaml]") {
  const Config config = config_of("sizes: [8, 1K, 4M]\ndatatype: [float, half]\nop:\n  - sum\n  - max\n");
  CHECK(config.sizes == std::vector<std::uint64_t>{8, 1024, 4194304});
  CHECK(config.dtypes == std::vector<DType>{DType::float32, DType::half});
  CHECK(config.ops == std::vector<Op>{Op::sum, Op::max});
  CHECK(config_of("op: all").ops.size() == 6);
}

TEST_CASE("names come back in the file's order", "[base][yaml]") {
  Config config;
  const auto settings = apply_yaml(config, "iters: 5\nschema: 1\nminbytes: 8\n", "a.yaml");
  CHECK(mapped(settings, &Setting::text) == std::vector<std::string>{"5", "8"});
}

TEST_CASE("an empty file sets nothing", "[base][yaml]") {
  CHECK(config_of("") == Config{});
  CHECK(config_of("# only a comment\n") == Config{});
  CHECK(config_of("---\n...\n") == Config{});
}

TEST_CASE("errors name file, line and the valid keys", "[base][yaml]") {
  CHECK_THAT(complaint("schema: 1\n\nminbyte: 8\n"),
             StartsWith("a.yaml:3: unknown key 'minbyte' (did you mean minbytes?); valid keys: schema nthreads ngpus"));
  CHECK(complaint("iters: 5\ncheck: often\n") == "a.yaml:2: check: 'often' is not a whole number of at least 0");
  CHECK(complaint("iters: 5\n\niters: 6\n") == "a.yaml:3: key 'iters' is given twice");
  CHECK(complaint("dry-run: 1\ndry_run: 0\n") == "a.yaml:2: key 'dry_run' is given twice");
  CHECK(complaint("iters: [5, 6]\n") == "a.yaml:1: iters: the value is a list, not a single value");
  CHECK(complaint("iters:\n  a: 5\n") == "a.yaml:1: iters: the value is a map, not a single value");
  CHECK(complaint("minbytes: 8\niters:\n") == "a.yaml:2: iters: the value is empty, not a single value");
  CHECK_THAT(complaint("sizes: [8, [9]]\n"), StartsWith("a.yaml:1: sizes: the value is a list"));
  CHECK_THAT(complaint("sizes: []\n"), StartsWith("a.yaml:1: sizes: '' is not a size"));
  CHECK(complaint("schema: 2\n") == "a.yaml:1: schema '2' is not known: this version reads schema 1");
  CHECK_THAT(complaint("sizes: 8\nminbytes: 8\n"), StartsWith("a.yaml:1: --sizes is the whole list"));
}

TEST_CASE("actions and the file's own name are not keys", "[base][yaml]") {
  for (const char* key : {"help", "version", "config"}) {
    CHECK_THAT(complaint(std::string(key) + ": 1\n"), Contains("unknown key"));
  }
}

TEST_CASE("what is not a map of options is rejected with its line", "[base][yaml]") {
  CHECK_THAT(complaint("just words\n"), StartsWith("a.yaml:1: not a map"));
  CHECK_THAT(complaint("\n- 8\n- 9\n"), StartsWith("a.yaml:2: not a map"));
  CHECK_THAT(complaint("iters: 5\n? [a, b]\n: 6\n"), StartsWith("a.yaml:2: a key is not a plain word"));
  CHECK_THAT(complaint("iters: 5\nsizes: [8, 9\n"), StartsWith("a.yaml:") && Contains("not valid YAML"));
  CHECK_THAT(complaint("iters: 5\n\tcheck: 6\n"), StartsWith("a.yaml:2: not valid YAML"));
  CHECK_THAT(complaint("iters: *nowhere\n"), StartsWith("a.yaml:1: not valid YAML"));
  CHECK_THAT(complaint("iters: 5\n---\niters: 6\n"), StartsWith("a.yaml:2: a second document"));
}

TEST_CASE("hostile bytes end in an error, not a crash", "[base][yaml]") {
  CHECK_THAT(complaint(std::string(100000, '[')), Contains("too deeply nested"));
  CHECK_THAT(complaint("iters: " + std::string(100000, '{')), Contains("too deeply nested"));
  CHECK_THAT(complaint(std::string((1 << 20) + 1, 'a')), Contains("larger than 1 MiB"));
  std::string indented;
  for (int depth = 0; depth < 2000; ++depth) indented += "- ";
  CHECK(complaint(indented) != "no error");
  CHECK(complaint("iters: 5\n\4") == "a.yaml:2: byte 0x04 does not belong in a text file");
  CHECK(complaint(std::string_view("i\0", 2)) == "a.yaml:1: byte 0x00 does not belong in a text file");
  CHECK(complaint("\xff\xfe") == "a.yaml:1: byte 0xff does not belong in a text file");
  CHECK(complaint("a: &x [*x]\n") != "no error");
  CHECK(complaint("iters: 5\n!,") != "no error");  // YAML::LoadAll would not end
  CHECK(complaint("]") != "no error");
}

TEST_CASE("the command line wins over the file", "[base][yaml]") {
  const Configured result = both("iters: 5\ncheck: 3\n", {"-n", "7"});
  CHECK(result.config.iters == 7);
  CHECK(result.config.check == 3);
  CHECK(mapped(result.settings, &Setting::text) == std::vector<std::string>{"5", "3", "7"});
}

TEST_CASE("what MPI must know when it starts cannot wait for a file", "[base][yaml]") {
  CHECK_THROWS_WITH(both("mpi-threads: multiple\n", {}),
                    Contains("mpi-threads: MPI is started before a file is read; give --mpi-threads on the command"));
  CHECK(both("mpi-threads: multiple\n", {"--mpi-threads", "funneled"}).config.mpi_threads == MpiThreads::funneled);
}

TEST_CASE("a range on the command line replaces the file's list of sizes, and the reverse", "[base][yaml]") {
  const Config range = both("sizes: [8, 16]\n", {"-e", "64M"}).config;
  CHECK(range.sizes.empty());
  CHECK(range.minbytes == 33554432);
  CHECK(range.maxbytes == 67108864);
  const Config list = both("minbytes: 8\nmaxbytes: 1G\nstepfactor: 2\n", {"--sizes", "1K,2K"}).config;
  CHECK(list.sizes == std::vector<std::uint64_t>{1024, 2048});
  CHECK(list.maxbytes == 2048);
  CHECK(both("sizes: [8, 16]\n", {"-n", "3"}).config.sizes.size() == 2);
}

TEST_CASE("the whole is validated after the file", "[base][yaml]") {
  CHECK_THROWS_WITH(both("minbytes: 64M\n", {}), Contains("add -e 64M"));
  CHECK(both("minbytes: 64M\n", {"-e", "1G"}).config.minbytes == 67108864);
}

TEST_CASE("a subcommand reads keys of its own beside the options", "[base][yaml]") {
  std::vector<std::string> seen;
  const auto note = [&](std::string_view item, const std::vector<std::string>& values) {
    std::string text = std::string(item) + "=";
    for (const std::string& value : values) text += value + ";";
    seen.push_back(text);
  };
  const auto note_item = [&](const YamlValue& item) { note(item.key, item.texts()); };
  const std::vector<YamlKey> own{{"delta", [&](const YamlValue& value) { note("", {value.text()}); }},
                                 {"collectives", [&](const YamlValue& value) { note("", value.texts()); }},
                                 {"vary", [&](const YamlValue& value) { value.each(note_item); }}};
  const auto error_of = [&](const std::string& text) {
    try {
      Config config;
      apply_yaml(config, text, "a.yaml", own);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  Config config;
  CHECK(apply_yaml(config, "iters: 3\ndelta: 2%\ncollectives: [a, b]\nvary:\n  X: [1, 2]\n  Y: 3\n", "a.yaml", own)
            .size() == 1);
  CHECK(seen == std::vector<std::string>{"=2%;", "=a;b;", "X=1;2;", "Y=3;"});
  CHECK(error_of("iters: 5\nvary: 3\n") == "a.yaml:2: vary: the value is not a map of keys and values");
  CHECK(error_of("vary: {X: [[1]]}\n") == "a.yaml:1: X: the value is a list, not a single value");
  CHECK(error_of("delta: [1]\n") == "a.yaml:1: delta: the value is a list, not a single value");
  CHECK_THAT(error_of("delt: 1\n"), Contains("did you mean delta?"));
  // Without the subcommand they are unknown.
  CHECK_THAT(complaint("vary: {X: 1}\n"), Contains("unknown key 'vary'"));
}

TEST_CASE("aliases are read, but not without end", "[base][yaml]") {
  CHECK(config_of("minbytes: &a 16\nmaxbytes: *a\n").maxbytes == 16);
  std::string bomb = "a0: &b0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &b{0} [*b{1}, *b{1}, *b{1}, *b{1}, *b{1}, *b{1}, *b{1}, *b{1}]\n", i, i - 1);
  }
  CHECK_THAT(complaint(bomb), StartsWith("a.yaml:") && Contains("repeat more than the whole file holds"));
  CHECK_THAT(complaint("minbytes: &a [*a]\n"), StartsWith("a.yaml:1: "));
}
