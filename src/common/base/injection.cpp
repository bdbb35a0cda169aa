#include "common/base/injection.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <vector>

namespace busbar {
namespace {

using Kind = Injection::Kind;

/// What the rank does to its operation.
constexpr EnumWords<13> kDoes{"skip {}",
                              "come {} s late to {}",
                              "call {} with one element fewer",
                              "call {} with another type",
                              "call {} with another reduction",
                              "stop itself before {}",
                              "kill itself before {}",
                              "crash before {}",
                              "flip a bit in the result of {}",
                              "leave its contribution out of {}",
                              "count its contribution to {} twice",
                              "shift the result of {} by one element",
                              "write beyond the result of {}"};
static_assert(name(Kind::overrun) == "overrun");

/// "; did you mean skip?", or the choices if none is near.
std::string advice(std::string_view word, const std::vector<std::string>& choices) {
  const std::string nearest = nearest_choice(word, choices);
  if (!nearest.empty()) return fmt::format("; did you mean {}?", nearest);
  return fmt::format("; choose from: {}", fmt::join(choices, " "));
}

std::uint64_t operation_number(std::string_view text) {
  return static_cast<std::uint64_t>(parse_int(text, 1, std::numeric_limits<int>::max()));
}

void set_kind(Injection& injection, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const std::optional<Kind> kind = from_word<Kind>(word);
  if (!kind) {
    constexpr auto kWords = words_of(Kind{});
    const std::vector<std::string> words(kWords.begin(), kWords.end());
    std::vector<std::string> choices = words;
    std::ranges::replace(choices, "late", "late:SECONDS");
    const bool near = !nearest_choice(word, words).empty();
    throw_bad_config(fmt::format("{} is not a kind{}", in_quotes(word), advice(word, near ? words : choices)));
  }
  injection.kind = *kind;
  if (kind != Kind::late && colon != std::string_view::npos)
    throw_bad_config(fmt::format("{} is too much: only late takes a time (late:5s)", in_quotes(text)));
  if (kind != Kind::late) return;
  if (colon == std::string_view::npos) throw_bad_config("late needs a time: late:5s");
  injection.late_s = parse_duration(text.substr(colon + 1));
}

}  // namespace

Injection parse_injection(std::string_view text) {
  const std::vector<std::string> keys{"rank", "op", "kind"};
  Injection injection;
  std::set<std::string, std::less<>> given;
  for (const std::string_view item : split_list(text)) {
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos)
      throw_bad_config(fmt::format("{} is not KEY=VALUE: rank=3,op=42,kind=skip", in_quotes(item)));
    const std::string_view value = item.substr(equals + 1);
    if (!given.emplace(key).second) throw_bad_config(fmt::format("{} is given twice", key));
    if (key == "rank") {
      injection.rank = parse_int(value, 0);
    } else if (key == "op") {
      injection.operation = operation_number(value);
    } else if (key == "kind") {
      set_kind(injection, value);
    } else {
      throw_bad_config(fmt::format("{} is not a key{}", in_quotes(key), advice(key, keys)));
    }
  }
  for (const std::string& key : keys)
    if (!given.contains(key)) throw_bad_config(fmt::format("{}= is missing: rank=3,op=42,kind=skip", key));
  return injection;
}

std::string describe(const Injection& injection) {
  std::string does(word(kDoes, injection.kind));
  if (injection.kind == Kind::late) does.replace(does.find("{}"), 2, fmt::format("{:g}", injection.late_s));
  return fmt::format("rank {} will ", injection.rank) +
         fmt::format(fmt::runtime(does), fmt::format("its operation {}", injection.operation));
}

bool changes_call(Kind kind) { return kind == Kind::count || kind == Kind::dtype || kind == Kind::op; }

bool changes_data(Kind kind) { return kind >= Kind::flip; }

}  // namespace busbar
