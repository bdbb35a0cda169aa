// Would catch: a table of configs/rules that a slip of its editor breaks, or of which half is read, without a word, and
// a watchdog that blames the hardware for an XID which diagnose does not.

#include "common/machine/kernel_log.h"
#include "driver/rules/setting_rules.h"
#include "driver/rules/xid_table.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("A slip in a table of rules is refused with its line", "[rules]") {
  const auto refuses = [](const auto& read, const std::string& text, const char* words) {
    INFO(text);
    CHECK_THROWS_WITH(read(text, "t.yaml"), StartsWith("t.yaml:3: ") && Contains(words));
  };
  const std::string nccl = "schema: 1\nnccl:\n  A: ", xids = "remedies: {a: x, b: y}\nxids:\n  ";
  refuses(read_setting_rules, nccl + "{form: 2.3.5}", "did you mean from?");
  refuses(read_setting_rules, nccl + "{from: 2.3, to: 2.4.8}", "'2.3' is no version");
  refuses(read_setting_rules, nccl + "{from: 2.4.8}", "one of them is missing");
  refuses(read_setting_rules, nccl + "{agree: true}", "needed there");
  refuses(read_setting_rules, nccl + "{range: {least: 0, most: many, why: x}}", "most: ");
  refuses(read_setting_rules, nccl + "{range: {least: 1, most: 0, why: x}}", "least below most");
  refuses(read_setting_rules, nccl + "{slow: {what: x}}", "when is needed");
  refuses(read_setting_rules, nccl + "{choices: [a], levels: [b]}", "another kind");
  refuses(read_setting_rules, "nccl: {B: {documented: true},\n\n  A: {documented: true}}", "order of ASCII");
  refuses(read_xids, xids + "8: {meaning: x, remedy: a}", "needs meaning, remedy and action");
  refuses(read_xids, xids + "8: {remedy: c}", "valid are: a b");
  refuses(read_xids, xids + "8: {action: rest}", "did you mean reset?");
  refuses(read_xids,
          "remedies: {a: x}\nxids: {8: {meaning: x, remedy: a, action: told},\n  08: {meaning: x, remedy: a, action: "
          "told}}",
          "twice");
}

TEST_CASE("The watchdog knows the XIDs of programs that the table has", "[rules]") {
  for (int number = 1; number < 300; ++number) CHECK(is_hardware_xid(number) != xid_meaning(number).by_program);
}
