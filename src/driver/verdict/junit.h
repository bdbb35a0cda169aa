#pragma once

#include "common/record/accept_result.h"

#include <string>
#include <string_view>

namespace busbar {

/// JUnit XML (the form that Jenkins, GitLab and the Ant task's schema read): a suite per stage with a test per
/// criterion, and last the suite "verdict" with one test, the outcome of the whole. FAIL is a failure, INCONCLUSIVE an
/// error (readers show skipped tests as fine, and what is not known must not pass), SKIP is skipped, WARN passes with
/// its words in system-out. Names hold no measured values, so that a server can follow a test from run to run. A result
/// without an end is an error of the verdict. `tool`: "accept", "locate" or "doctor".
std::string junit_xml(const AcceptResult& result, std::string_view tool);

/// Text as XML content or attribute value in double quotes: markup escaped, control characters and what is not UTF-8
/// replaced by U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace busbar
