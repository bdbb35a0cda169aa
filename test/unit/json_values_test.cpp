// The bug this would catch: a reader of foreign JSON that goes around parse_json. `busbar report` ended by SIGSEGV on
// an accept result whose plan held a list nested 200,000 deep; a file that does not end filled the memory.

#include "common/record/json_values.h"

#include "accept_fixture.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/yaml_node.h"
#include "common/evidence/hang_evidence.h"
#include "common/output/json_report.h"
#include "common/record/accept_result.h"
#include "common/record/history_run.h"
#include "common/record/node_report.h"
#include "common/record/read_run.h"
#include "common/watch/ras_answer.h"
#include "driver/doctor/join_nodes.h"
#include "driver/report/report_parts.h"
#include "hang_fixture.h"
#include "json_of.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

Json busbar::json_of(const std::string& text) { return Json::parse(text); }

namespace {

constexpr int kDeep = 200000;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string nested_lists(int depth) { return repeated("[", depth) + repeated("]", depth); }
std::string nested_objects(int depth) { return repeated("{\"a\":", depth) + "1" + repeated("}", depth); }
std::string nested_both(int depth) { return repeated("{\"a\":[", depth / 2) + repeated("]}", depth / 2); }

std::string complaint(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

std::string parsing(const std::string& text) {
  return complaint([&] { parse_json(text, "a.json"); });
}

/// A kind of document, with what reads it.
struct Reader {
  const char* name;
  std::string good;
  std::function<void(const std::string&)> read;
};

std::vector<Reader> readers() {
  const auto report = [](const std::string& text) { read_report_files({{"a.json", text}}); };
  const std::vector<NodeReport> nodes{{.host = "node0", .ranks = {0}, .time = "", .rows = {}, .counters = {}}};
  AcceptResult accept = accept_result("{latency: 2ms}");
  accept.doctor = nodes;
  const std::string result = accept_json(accept);
  const std::string doctor = doctor_json(nodes, join_nodes(nodes));
  JsonReport run(sample_run(), sample_plan());
  run.add(sample_row());
  const HangEvidence hang = stuck_job(2, 1);
  return {{"run", run.document(), [](const std::string& text) { read_run(text, "a.json"); }},
          {"report of a run", run.document(), report},
          {"accept", result, [](const std::string& text) { read_accept_json(text, "a.json"); }},
          {"report of accept", result, report},
          {"doctor", doctor, [](const std::string& text) { read_doctor_json(text, "a.json"); }},
          {"report of doctor", doctor, report},
          {"history", history_run_json(HistoryRun{}),
           [](const std::string& text) { read_history_run_json(text, "a.json"); }},
          {"hang", hang_json(hang, judge(hang)), [](const std::string& text) { read_hang_json(text, "a.json"); }},
          {"report of compare", R"({"document": "compare", "schema": 3, "comparisons": []})", report},
          {"report of locate", R"({"document": "locate", "schema": 3, "locate": {}})", report},
          {"report of merge", R"({"document": "merge", "schema": 3, "cells": []})", report}};
}

/// `text` with a member "deep" in each of its objects in turn.
std::vector<std::string> with_member(const std::string& text, const std::string& value) {
  std::vector<std::string> texts;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text[i] == '{') {
      const bool empty = text[text.find_first_not_of(" \n", i + 1)] == '}';
      texts.push_back(text.substr(0, i + 1) + "\"deep\":" + value + (empty ? "" : ",") + text.substr(i + 1));
    }
  }
  return texts;
}

}  // namespace

TEST_CASE("Every reader refuses what is nested 200,000 deep, in any object of its document", "[parse_json][unit]") {
  for (const std::string& deep : {nested_lists(kDeep), nested_objects(kDeep), nested_both(kDeep)}) {
    for (const Reader& reader : readers()) {
      for (const std::string& text : with_member(reader.good, deep)) {
        INFO(reader.name << ": " << text.substr(0, 80));
        CHECK_THAT(complaint([&] { reader.read(text); }), Contains("nested too deep"));
      }
      CHECK_THAT(complaint([&] { reader.read(deep); }), Contains("nested too deep"));
    }
  }
}

TEST_CASE("Every reader refuses half a document, and one with zero bytes in or behind it", "[parse_json][unit]") {
  for (const Reader& reader : readers()) {
    INFO(reader.name);
    const std::string zero(1, '\0');
    const std::size_t middle = reader.good.size() / 2;
    CHECK_THAT(complaint([&] { reader.read(reader.good.substr(0, middle)); }), Contains("not JSON"));
    CHECK_THAT(complaint([&] { reader.read(reader.good.substr(0, middle) + repeated("[", kDeep)); }),
               Contains("nested too deep") || Contains("not JSON"));
    for (const std::string& text : {reader.good + zero, reader.good.substr(0, middle) + zero, zero + reader.good,
                                    std::string(reader.good.size(), '\0')}) {
      CHECK_THAT(complaint([&] { reader.read(text); }), Contains("not JSON"));
    }
    CHECK_THAT(complaint([&] { reader.read(""); }), Contains("not JSON"));
  }
}

TEST_CASE("Depth, values, members and texts are taken up to the limit and no further", "[parse_json][unit][slow]") {
  const int deepest = static_cast<int>(kDeepestInput);
  CHECK(parsing(nested_lists(deepest)) == "no error");
  CHECK(parsing(nested_lists(deepest + 2)) == "a.json: is nested too deep");
  CHECK(parsing('"' + std::string(kMostJsonText, 'x') + '"') == "no error");
  CHECK(parsing('"' + std::string(kMostJsonText + 1, 'x') + '"') == "a.json: has too long a text");
  CHECK(parsing("{\"" + std::string(kMostJsonText + 1, 'x') + "\":1}") == "a.json: has too long a text");
  const auto members = [](std::size_t n) {
    std::string text = "[{\"a\":{}}";  // those of an object are its own
    std::string object;
    for (std::size_t i = 0; i < n; ++i) object += (i > 0 ? ",\"" : "{\"") + std::to_string(i) + "\":{}";
    return text + "," + object + "}]";
  };
  CHECK(parsing(members(kMostJsonMembers)) == "no error");
  CHECK(parsing(members(kMostJsonMembers + 1)) == "a.json: has an object of too many members");
}

TEST_CASE("A document is the one that the library alone would read", "[parse_json][unit]") {
  for (const char* text :
       {R"({"b": {"d": 1, "c": [1, [], {}, [{"e": null}]]}, "a": [true, -1, 1e3, 18446744073709551615]})",
        R"({"a": 1, "b": 2, "a": {"c": 3}})", R"([{}, {"a": []}, "\u00e4\n", {"a": {"a": {}}}])", "0", R"("x")", "[]",
        "{}"}) {
    CHECK(parse_json(text, "a.json").dump() == json_of(text).dump());
  }
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += fmt::format(R"("{}": {}, )", i % 70, i);  // 30 names come twice
  many += R"("last": {}})";
  CHECK(parse_json(many, "a.json").dump() == json_of(many).dump());
}

TEST_CASE("A complaint stays short, whatever the parser read last", "[parse_json][unit]") {
  CHECK(parsing('"' + std::string(1 << 20, 'x')).size() < 300);
  CHECK(parsing("\"\n" + std::string(1 << 20, '\x01')).size() < 1000);
}

TEST_CASE("NCCL's RAS and YAML end at the same depth", "[parse_json][unit]") {
  CHECK_FALSE(parse_ras_json(nested_lists(kDeep)).known);
  CHECK_FALSE(parse_ras_json(nested_objects(kDeep)).known);
  const std::string nested = R"({"nccl_version": "2.29", "communicators": )" + nested_lists(kDeep) + "}";
  CHECK(parse_ras_json(nested).communicators.size() == 1);  // what stands before the end of reading is taken
  const auto yaml = [](const std::string& text) {
    return complaint([&] {
      Config config;
      apply_yaml(config, text, "a.yaml");
    });
  };
  for (const std::string& text : {nested_lists(kDeep), nested_objects(kDeep), repeated("- ", kDeep),
                                  repeated("? ", kDeep), "iters: " + repeated("- ", kDeep), repeated("[", kDeep)}) {
    CHECK(yaml(text) != "no error");
  }
}
