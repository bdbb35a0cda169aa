#pragma once

#include "common/record/accept_result.h"

#include <string>

namespace busbar {

/// The verdict for people, at most 120 columns: who is to blame and what to do first, then what failed, what could not
/// be told, what warns, what was measured, how many criteria each stage has, and why some were skipped. Rows that say
/// the same of several hosts are one; the JSON has all.
std::string accept_text(const AcceptResult& result);

}  // namespace busbar
