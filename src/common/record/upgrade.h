#pragma once

#include "common/record/json_values.h"

#include <string_view>

namespace busbar {

/// A document of schema 1 as one of kDocumentSchema: the envelope in front, microseconds as seconds. What is missing or
/// of another type is left for the reader to complain about. One function per kind of document.
Json upgraded(Json json, std::string_view document);

}  // namespace busbar
