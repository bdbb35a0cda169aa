#include "driver/diagnose/log_decoration.h"

#include "driver/diagnose/log_scan.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace busbar {

static std::string_view next_token(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
  const std::string_view token = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return token;
}

static bool is_time(std::string_view token) {
  const auto digits = std::count_if(token.begin(), token.end(), is_digit);
  const auto marks = std::count_if(token.begin(), token.end(), [](char c) { return c == ':' || c == '-' || c == '/'; });
  return digits >= 4 && marks >= 2;
}

static int number(std::string_view digits) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? value : -1;
}

static int token_rank(std::string_view token) {
  if (token.ends_with("<stdout>:") || token.ends_with("<stderr>:")) token.remove_suffix(9);
  const bool colon = token.ends_with(':');
  if (colon) token.remove_suffix(1);
  if (token.size() > 2 && token.front() == '[' && token.back() == ']') {
    token = token.substr(1, token.size() - 2);
    if (const std::size_t comma = token.find(','); comma != std::string_view::npos) token.remove_prefix(comma + 1);
  } else if (!colon) {
    return -1;  // any number in a log
  }
  if (token.starts_with("rank")) token.remove_prefix(4);
  return number(token);
}

int decoration_rank(std::string_view decoration) {
  while (true) {
    const std::string_view token = next_token(decoration);
    if (token.empty()) return -1;
    if (const int rank = token_rank(token); rank >= 0) return rank;
  }
}

std::string decoration_label(std::string_view decoration) {
  std::string label;
  while (true) {
    const std::string_view token = next_token(decoration);
    if (token.empty() || label.size() > 200) return label;
    if (is_time(token) || token == "stdout" || token == "stderr" || token == "F" || token == "P") continue;
    if (!label.empty()) label += ' ';
    label += token.substr(0, 100);
  }
}

int file_name_rank(std::string_view name) {
  std::string low(name);
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::size_t at = low.rfind("rank");
  std::size_t skip = 4;
  if (at == std::string::npos) {
    at = low.rfind(".r");
    skip = 2;
  }
  if (at == std::string::npos) return -1;
  at += skip;
  if (skip == 4 && at < low.size() && (low[at] == '_' || low[at] == '-' || low[at] == '.' || low[at] == '=')) ++at;
  std::size_t end = at;
  while (end < low.size() && is_digit(low[end])) ++end;
  return end == at ? -1 : number(std::string_view(low).substr(at, end - at));
}

}  // namespace busbar
