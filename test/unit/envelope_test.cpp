// Would catch: a document that a script cannot tell, a file of an older version that is refused or read with times a
// million times too long, a file of a later version that is read as if it were understood.

#include "common/record/envelope.h"

#include "common/base/error.h"
#include "common/record/accept_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace busbar;
using Catch::Contains;

namespace {

Json read(const std::string& text, std::string_view document) { return read_document(text, "FILE", document); }

std::string complaint(const std::string& text, std::string_view document) {
  try {
    read(text, document);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every document begins alike", "[record][envelope]") {
  const Json json = envelope_json({"doctor", "2026-07-04 10:00:00", {"n0", "n1"}, {"busbar", "doctor"}});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"document", "schema", "version", "time", "where", "command"});
  CHECK(json["schema"] == 2);
  CHECK(json["where"] == std::vector<std::string>{"n0", "n1"});
}

TEST_CASE("documents of the first schema are told by what each tool called itself", "[record][envelope]") {
  CHECK(document_of(Json::parse(R"({"kind": "accept", "schema": 1})")) == "accept");
  CHECK(document_of(Json::parse(R"({"kind": "merge", "schema_version": 1, "suite": "busbar"})")) == "merge");
  CHECK(document_of(Json::parse(R"({"kind": "hang", "schema": 1})")) == "hang");
  CHECK(document_of(Json::parse(R"({"tool": "compare", "schema_version": 1})")) == "compare");
  CHECK(document_of(Json::parse(R"({"tool": "locate", "schema_version": 1})")) == "locate");
  CHECK(document_of(Json::parse(R"({"program": "busbar doctor", "schema_version": 1})")) == "doctor");
  CHECK(document_of(Json::parse(R"({"program": "busbar fingerprint", "schema_version": 1})")) == "fingerprint");
  CHECK(document_of(Json::parse(R"({"schema": 1, "verdict": "OK", "communicators": []})")) == "diagnosis");
  CHECK(document_of(Json::parse(R"({"busbar": {}, "results": []})")).empty());
  CHECK(document_of(Json::parse("[]")).empty());
}

TEST_CASE("an older comparison gets its envelope, and seconds", "[record][envelope]") {
  const Json json = read(R"({"schema_version": 1, "suite": "busbar", "tool": "compare", "version": "0.0.9",
    "start_time": "2026-07-04 10:00:00", "args": ["busbar", "compare"], "hosts": ["n0"], "nranks": 2,
    "same_settings_ns": 30, "comparisons": [{"variants": [{"hockney": {"latency_us": 2.5}}],
      "sizes": [{"variants": [{"median_us": 12.5, "rounds_us": [10, 15]}, {"median_us": null}]}]}]})",
                         "compare");
  CHECK(json["document"] == "compare");
  CHECK(json["schema"] == 2);
  CHECK(json["version"] == "0.0.9");
  CHECK(json["time"] == "2026-07-04 10:00:00");
  CHECK(json["where"] == std::vector<std::string>{"n0"});
  CHECK(json["command"] == std::vector<std::string>{"busbar", "compare"});
  for (const char* old : {"schema_version", "suite", "tool", "start_time", "args", "hosts"})
    CHECK_FALSE(json.contains(old));
  CHECK(json["nranks"] == 2);
  CHECK(json["same_settings_s"] == 30e-9);
  const Json& comparison = json["comparisons"][0];
  CHECK(comparison["variants"][0]["hockney"]["latency_s"] == 2.5e-6);
  CHECK(comparison["sizes"][0]["variants"][0]["median_s"] == 12.5e-6);
  CHECK(comparison["sizes"][0]["variants"][0]["rounds_s"] == std::vector<double>{10e-6, 15e-6});
  CHECK(comparison["sizes"][0]["variants"][1]["median_s"].is_null());
}

TEST_CASE("older documents without time and hosts of their own get them from what they hold", "[record][envelope]") {
  const Json doctor = read(R"({"schema_version": 1, "program": "busbar doctor", "version": "0.1.0", "verdict": "OK",
    "nodes": [{"host": "n1", "time": "2026-07-04 10:00:02"}, {"host": "n0", "time": "2026-07-04 10:00:01"}]})",
                           "doctor");
  CHECK(doctor["where"] == std::vector<std::string>{"n1", "n0"});
  CHECK(doctor["time"] == "2026-07-04 10:00:01");
  CHECK(doctor["nodes"].size() == 2);
  const Json merge =
      read(R"({"schema_version": 1, "kind": "merge", "launches": [{"hosts": ["a", "b"], "start_time": "2"},
    {"hosts": ["b"], "start_time": "1"}], "cells": [{"interval_us": [1, 2]}]})",
           "merge");
  CHECK(merge["where"] == std::vector<std::string>{"a", "b"});
  CHECK(merge["time"] == "1");
  CHECK(merge["cells"][0]["interval_s"] == std::vector<double>{1e-6, 2e-6});
  const Json hang = read(R"({"schema": 1, "kind": "hang", "hosts": ["n3"],
    "observed": {"hosts": [{"host": "n2"}, {"host": "n3"}]}})",
                         "hang");
  CHECK(hang["where"] == std::vector<std::string>{"n2", "n3"});
  CHECK(hang["hosts"] == std::vector<std::string>{"n3"});  // to blame
}

TEST_CASE("an older acceptance is read as a new one, and known to be older", "[record][envelope][accept]") {
  AcceptResult before;
  before.start_time = "2026-07-04 10:00:00";
  before.command = {"busbar", "accept"};
  before.hosts = {{"n0", {0}, "host memory"}};
  const AcceptResult now = read_accept_json(accept_json(before), "FILE");
  CHECK(now.schema == 2);
  CHECK(now.start_time == before.start_time);
  // As version 0.1.0 wrote it.
  Json old = Json::parse(accept_json(before));
  for (const char* key : {"document", "schema", "time", "where"}) old.erase(key);
  old["kind"] = "accept";
  old["schema"] = 1;
  old["start_time"] = before.start_time;
  const AcceptResult then = read_accept_json(old.dump(), "FILE");
  CHECK(then.schema == 1);
  CHECK(accept_json(then) == accept_json(now));
}

TEST_CASE("other files and later versions are refused by name", "[record][envelope]") {
  CHECK_THAT(complaint("nonsense", "hang"), Contains("FILE") && Contains("not JSON"));
  CHECK_THAT(complaint("[]", "hang"), Contains("FILE: this is not a document of busbar"));
  CHECK_THAT(complaint(R"({"tool": "locate"})", "compare"),
             Contains("this is `locate`, not what busbar writes as `compare`"));
  CHECK_THAT(complaint(R"({"document": "hang", "schema": 3})", "hang"),
             Contains("schema 3, this version reads schemas up to 2"));
  CHECK_THAT(complaint(R"({"document": "hang", "schema": "x"})", "hang"), Contains("schema 0"));
  CHECK_THAT(complaint(R"({"program": "busbar doctor", "schema_version": 99})", "doctor"), Contains("schema 99"));
}
