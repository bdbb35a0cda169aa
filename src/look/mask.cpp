#include "common/base/text.h"
#include "look/look_parts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace busbar {
namespace {

constexpr std::string_view kMask = "***";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
constexpr std::size_t kLongestName = 64;

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }

/// Parts of names of secrets: at the end of a word of the name ("tokens" and "tokenizer" are none), or anywhere.
constexpr auto kEnds =
    std::to_array<std::string_view>({"token", "pwd", "apikey", "api-key", "_key", "-key", "accountkey", "accesskey",
                                     "authorization", "cookie", "jwt", "signature"});
constexpr auto kParts = std::to_array<std::string_view>({"secret", "passw", "passphrase", "credential", "access_key"});
/// Beginnings of tokens that services give out.
constexpr auto kTokens = std::to_array<std::string_view>({"hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_",
                                                          "glpat-", "AKIA", "ASIA", "AIza", "ya29.", "xoxb-", "xoxp-",
                                                          "xoxa-", "npm_", "dckr_pat_", "nvapi-", "eyJ"});
constexpr std::size_t kShortestToken = 18;

bool has_end(std::string_view lower, std::string_view word) {
  for (std::size_t at = lower.find(word); at != kNotFound; at = lower.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == lower.size() || !is_letter(lower[end])) return true;
  }
  return false;
}

/// A count or a switch: "token: 4096", "use_auth_token=True".
bool is_harmless(std::string_view value) {
  constexpr auto kWords = std::to_array<std::string_view>({"", "true", "false", "none", "null"});
  if (value.size() >= 8) return false;
  return std::ranges::find(kWords, lower_case(value)) != kWords.end() ||
         value.find_first_not_of("0123456789.") == kNotFound;
}

/// A text, read once from name to name, with marks over what must not be shown.
class Masker {
 public:
  explicit Masker(std::string_view text) : text_(text) {}

  std::string result() {
    for (std::size_t at = text_.find("://"); at != kNotFound; at = text_.find("://", at + 3)) {
      const std::size_t end = std::min(text_.find_first_of(" \t\r\n\"'`<>/?#", at + 3), text_.size());
      const std::size_t sign = text_.substr(at + 3, end - at - 3).rfind('@');
      if (sign != kNotFound) hide(at + 3, at + 3 + sign);
    }
    hide_keys();
    for (std::size_t at = text_.find_first_of(kNameLetters), end = 0; at != kNotFound;
         at = text_.find_first_of(kNameLetters, end)) {
      end = std::min(text_.find_first_not_of(kNameLetters, at), text_.size());
      mask_name(at, end);
    }
    return joined();
  }

 private:
  void hide(std::size_t begin, std::size_t end) {
    if (begin < end) hidden_.emplace_back(begin, end);
  }

  /// The lines between the marks of a private key; a text that is cut may begin or end within them.
  void hide_keys() {
    constexpr std::string_view kKey = "PRIVATE KEY-----";
    std::size_t from = 0;
    bool within = false;
    for (std::size_t at = text_.find(kKey); at != kNotFound; at = text_.find(kKey, from)) {
      const std::size_t mark = std::min(text_.rfind("-----", at), at);
      const bool ends = text_.substr(mark).starts_with("-----END");
      if (ends || within) hide(from, mark);
      from = at + kKey.size();
      within = !ends;
    }
    if (within) hide(from, text_.size());
  }

  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\n'; }

  std::size_t skip_blanks(std::size_t i) const { return std::min(text_.find_first_not_of(" \t", i), text_.size()); }

  void mask_name(std::size_t begin, std::size_t end) {
    const std::string_view name = text_.substr(begin, end - begin);
    if (begins_with_any(name, kTokens) && name.size() >= kShortestToken) return hide(begin, end);
    const std::string lower = lower_case(name.substr(0, kLongestName));
    if (lower == "bearer" || lower == "basic") return mask_value(skip_blanks(end), false, 8);
    if (names_secret(name)) mask_value_of(begin, end, lower);
  }

  /// The value of a secret's name, if there is one: after "=", ":", "is", or a space if the name is an option.
  void mask_value_of(std::size_t begin, std::size_t end, const std::string& lower) {
    if (at(end) == '\\') ++end;
    if (is_quote(at(end))) ++end;
    std::size_t i = skip_blanks(end);
    if (at(i) == '=' || at(i) == ':') {
      i = skip_blanks(i + (at(i + 1) == '=' || at(i + 1) == '>' ? 2 : 1));
    } else if (text_.substr(i, 3) == "is ") {
      i = skip_blanks(i + 3);
    } else if (at(begin) != '-' || i == end) {
      return;
    }
    mask_value(i, lower.find("passw") != std::string::npos, 0);
  }

  /// To the closing quote, or to the first letter that values have only within quotes.
  void mask_value(std::size_t i, bool is_password, std::size_t shortest) {
    if (at(i) == '\\' && is_quote(at(i + 1))) ++i;  // quoted within quotes
    const bool quoted = is_quote(at(i));
    const std::string_view stops = quoted        ? std::string_view(text_).substr(i, 1)
                                   : is_password ? std::string_view(" \t\r\n\"'")
                                                 : std::string_view(" \t\r\n,;&\"'`)}]<>|");
    const std::size_t from = quoted ? i + 1 : i;
    // Within a value that is hidden already its end is known: a long line would take quadratic time.
    const bool inside = !hidden_.empty() && from >= hidden_.back().first && from < hidden_.back().second;
    const std::size_t to = inside ? hidden_.back().second : std::min(text_.find_first_of(stops, from), text_.size());
    const std::string_view value = text_.substr(from, to - from);
    if (value.size() < shortest || (!is_password && is_harmless(value))) return;
    hide(from, to);
    const std::string scheme = lower_case(value.substr(0, kLongestName));  // "Authorization: Bearer TOKEN"
    if (scheme == "bearer" || scheme == "basic" || scheme == "token") mask_value(skip_blanks(to), false, 0);
  }

  std::string joined() {
    std::ranges::sort(hidden_);
    std::string shown;
    std::size_t at = 0;
    for (const auto& [begin, end] : hidden_) {
      if (end <= at) continue;
      if (begin >= at) shown.append(text_.substr(at, begin - at)).append(kMask);
      at = end;
    }
    return shown.append(text_.substr(at));
  }

  std::string_view text_;
  std::vector<std::pair<std::size_t, std::size_t>> hidden_;
};

}  // namespace

std::string masked(std::string_view text) { return Masker(text).result(); }

bool names_secret(std::string_view name) {
  // Of a long name its end: the secret's word is before the value.
  const std::string lower = lower_case(name.substr(name.size() - std::min(name.size(), kLongestName)));
  const bool ends = std::ranges::any_of(kEnds, [&](std::string_view word) { return has_end(lower, word); });
  return ends || lower == "sig" || has_any(lower, kParts);
}

std::string masked_command(const std::vector<std::string_view>& words) {
  std::string line;
  bool hides = false;
  for (const std::string_view word : words) {
    line.append(line.empty() ? "" : " ").append(hides ? kMask : word);
    hides = !hides && word.starts_with('-') && word.find_first_of("= ") == kNotFound && names_secret(word);
  }
  return masked(line);
}

}  // namespace busbar
