#pragma once

#include "common/record/accept_result.h"

#include <string>
#include <string_view>

namespace busbar {

/// A result for a ticket, GitHub's Markdown: the verdict, what is to blame, what ran, then tables of what did not pass
/// and of what was measured. Long tables end with how many lines were left out: a ticket takes some 60000 characters.
/// `tool`: "accept", "locate" or "doctor".
std::string markdown_text(const AcceptResult& result, std::string_view tool);

/// Foreign text within a line or a table's field: what Markdown or HTML would take for markup is escaped, a line break
/// becomes a blank.
std::string markdown_field(std::string_view text);

}  // namespace busbar
