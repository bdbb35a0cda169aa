#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace busbar {

// What all parts of the JSON report share. Only json_*.cpp include this.

using Json = nlohmann::ordered_json;

/// null for infinity and NaN, which JSON does not have.
Json json_number(double value);

/// Seconds as microseconds, to the picosecond, as nccl-tests prints: the digits behind are noise of the conversion.
Json json_microseconds(double time_s);
Json json_microseconds(const std::vector<double>& times_s);

/// The same to the picosecond in seconds, as documents of ours have times.
Json json_seconds(double time_s);
Json json_seconds(const std::vector<double>& times_s);

/// "true" or "false": nccl-tests writes its flags as strings.
Json json_flag(bool value);

Json json_text_or_null(const std::string& text);

/// On one line. Names and arguments come from outside: bytes that are no UTF-8 are replaced instead of ending the run.
std::string dump_json(const Json& value);

}  // namespace busbar
