// Would catch: a document that a script cannot tell, a file of another version that is read as if it were understood.

#include "common/base/error.h"
#include "json_of.h"

#include <catch2/catch.hpp>

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
  CHECK(json["schema"] == 3);
  CHECK(json["where"] == std::vector<std::string>{"n0", "n1"});
}

TEST_CASE("other schemas are refused in a sentence that names what wrote them and what to do", "[record][envelope]") {
  CHECK(complaint(R"({"document": "hang", "schema": 2, "version": "0.1.0"})", "hang") ==
        "FILE: busbar 0.1.0 wrote it, in schema 2, and this busbar reads only schema 3: run again");
  CHECK(complaint(R"({"document": "hang", "schema": 4, "version": "1.0.0"})", "hang") ==
        "FILE: busbar 1.0.0 wrote it, in schema 4, and this busbar reads only schema 3: use a newer busbar");
  // As each tool of schema 1 began its documents.
  for (const char* oldest : {R"({"kind": "accept", "schema": 1})", R"({"tool": "compare", "schema_version": 1})"}) {
    CHECK(complaint(oldest, "compare") ==
          "FILE: busbar of another version wrote it, in schema 1, and this busbar reads only schema 3: run again");
  }
  CHECK_THAT(complaint(R"({"document": "hang", "schema": "x"})", "hang"), Contains("an unknown schema"));
  CHECK_THAT(complaint(R"({"document": "hang"})", "hang"), Contains("an unknown schema"));
}

TEST_CASE("other files are refused by name", "[record][envelope]") {
  CHECK_THAT(complaint("nonsense", "hang"), Contains("FILE") && Contains("not JSON"));
  CHECK_THAT(complaint("[]", "hang"), Contains("FILE: this is not a document of busbar"));
  CHECK_THAT(complaint(R"({"document": "locate", "schema": 3})", "compare"),
             Contains("this is `locate`, not what busbar writes as `compare`"));
  CHECK(document_of(json_of(R"({"busbar": {}, "results": []})"), "FILE").empty());
}
