#include "driver/diagnose/log_warnings.h"

#include "driver/diagnose/log_scan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace busbar {
namespace {

bool parse_return_code(LogScan scan, LogFact& fact) {
  ReturnCode code;
  code.where = scan.word();
  const std::size_t colon = code.where.rfind(':');
  int line = 0;
  if (colon == kNotFound || colon == 0 || !whole_number(code.where.substr(colon + 1), line)) return false;
  if (!scan.take("-> ") || !scan.number(code.code)) return false;
  scan.skip_blanks();
  if (scan.take("[")) code.thread = scan.rest.substr(0, scan.rest.find(']'));
  fact = code;
  return true;
}

/// Evidence of a broken or missing peer that some versions print as INFO.
bool is_quiet_warning(std::string_view text) {
  if (text.starts_with("NET/IB")) {
    return text.find("speed change detected") != kNotFound || text.find("Got async event") != kNotFound ||
           text.find("Got completion ") != kNotFound;
  }
  constexpr std::array<std::string_view, 5> kConnecting{"Call to connect", "socketPollConnect", "socketStartConnect",
                                                        "socketTryAccept", "Connect to"};
  const bool connecting =
      std::any_of(kConnecting.begin(), kConnecting.end(), [&](auto begin) { return text.starts_with(begin); });
  return connecting && (text.find("refused") != kNotFound || text.find("retrying") != kNotFound ||
                        text.find("timed out") != kNotFound || text.find("No route") != kNotFound);
}

}  // namespace

bool parse_trouble(std::string_view text, LogFact& fact) {
  if (parse_return_code(LogScan{text}, fact)) return true;
  if (!is_quiet_warning(text)) return false;
  fact = Warning{.file = {}, .function = {}, .text = text};
  return true;
}

}  // namespace busbar
