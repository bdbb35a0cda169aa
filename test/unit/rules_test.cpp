// Would catch: a table of configs/rules that a slip of its editor breaks, or of which half is read, without a word, a
// remedy or remark that diagnose or doctor names and nobody wrote, and a watchdog that blames the hardware for an XID
// which diagnose does not.

#include "common/machine/kernel_log.h"
#include "driver/doctor/checks.h"
#include "driver/rules/remedies.h"
#include "driver/rules/setting_rules.h"
#include "golden.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("A slip in a table of rules is refused with its line", "[rules]") {
  const auto refuses = [](const auto& read, const std::string& text, const char* words) {
    INFO(text);
    CHECK_THROWS_WITH(read(text, "t.yaml"), StartsWith("t.yaml:3: ") && Contains(words));
  };
  const std::string nccl = "schema: 1\nnccl:\n  A: ", xids = "schema: 1\nxids:\n  ";
  refuses(read_setting_rules, nccl + "{form: 2.3.5}", "did you mean from?");
  refuses(read_setting_rules, nccl + "{from: 2.3, to: 2.4.8}", "'2.3' is no version");
  refuses(read_setting_rules, nccl + "{from: 2.4.8}", "one of them is missing");
  refuses(read_setting_rules, nccl + "{agree: true}", "needed there");
  refuses(read_setting_rules, nccl + "{range: {least: 0, most: many, why: x}}", "most: ");
  refuses(read_setting_rules, nccl + "{range: {least: 1, most: 0, why: x}}", "least below most");
  refuses(read_setting_rules, nccl + "{slow: {what: x}}", "when is needed");
  refuses(read_setting_rules, nccl + "{choices: [a], levels: [b]}", "another kind");
  refuses(read_setting_rules, "nccl: {B: {documented: true},\n\n  A: {documented: true}}", "order of ASCII");
  refuses(read_xids, xids + "8: {meaning: x, remedy: reset-gpu}", "needs meaning, remedy and action");
  refuses(read_xids, xids + "8: {remedy: c}", "unknown remedy");
  refuses(read_xids, xids + "8: {action: rest}", "did you mean reset?");
  refuses(read_xids,
          "schema: 1\nxids: {8: {meaning: x, remedy: reset-gpu, action: stated},\n  08: {meaning: x, remedy: "
          "reset-gpu, action: "
          "stated}}",
          "twice");
}

TEST_CASE("The watchdog knows the XIDs of programs that the table has", "[rules]") {
  for (int number = 1; number < 300; ++number) CHECK(is_hardware_xid(number) != xid_meaning(number).by_program);
}

namespace {

using Names = std::set<std::string>;
const std::filesystem::path kRoot = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

Names found(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  Names all;
  for (std::sregex_iterator one(text.begin(), text.end(), regex), end; one != end; ++one) all.insert((*one)[1]);
  return all;
}

std::string code_of(const char* room) {
  std::string code;
  for (const auto& file : std::filesystem::directory_iterator(kRoot / "src/driver" / room))
    code += read_text(file.path());
  return code;
}

}  // namespace

TEST_CASE("Every remedy and remark that the program names is written, and every one that is written is named",
          "[rules]") {
  const std::string code = code_of("diagnose");
  // Whatever is in quotes in remedy(...), and, of kEndings, after the name of a signal.
  Names named = found(code, R"re("SIG[A-Z]+", "([a-z-]+)")re");
  const std::regex inside(R"re(remedy(?:_of)?\(([^()]*)\))re");
  for (std::sregex_iterator call(code.begin(), code.end(), inside), end; call != end; ++call)
    named.merge(found((*call)[1], R"re("([a-z-]+)")re"));
  CHECK(named.size() > 40);
  for (const auto& file : std::filesystem::recursive_directory_iterator(kRoot / "configs/rules")) {
    if (file.path().filename() == "remedies.yaml" || !file.is_regular_file()) continue;
    named.merge(found(read_text(file.path()), R"re(remedy: ([a-z0-9-]+))re"));
  }
  // Of doctor all that is in quotes and looks like a name, but for these.
  named.merge(found(code_of("doctor"), R"re("([a-z0-9]+(?:-[a-z0-9]+)+)")re"));
  for (const char* other : {"arm-smmu", "kvm-clock", "pass-through"}) CHECK(named.erase(other) == 1);
  Names written;
  for (const auto& [name, text] : remedies()) written.insert(name);
  for (const auto& [name, texts] : all_remark_texts()) CHECK(written.insert(name).second);
  CHECK(named == written);
}

TEST_CASE("The facts of a remark have their places in its texts", "[rules]") {
  for (const auto& [name, texts] : all_remark_texts()) {
    INFO(name);
    const Remark said = remark(Outcome::warn, name, "A", 2, "C");
    CHECK(said.reason.size() > 0);
    CHECK(said.remedy.size() > 0);
    CHECK((said.reason + said.remedy).find_first_of("{}") == std::string::npos);
  }
}
