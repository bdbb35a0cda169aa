#include "common/base/injection.h"

#include "common/base/error.h"
#include "common/base/suggest.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace busbar {
namespace {

using Kind = Injection::Kind;

constexpr std::array kKinds{Kind::skip,  Kind::late, Kind::count, Kind::dtype,   Kind::op,    Kind::stop,   Kind::kill,
                            Kind::crash, Kind::flip, Kind::drop,  Kind::doubled, Kind::shift, Kind::overrun};

[[noreturn]] void reject(const std::string& text) { throw Error(ExitCode::bad_config, text); }

/// "; did you mean skip?", or the choices where none is near.
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
  std::vector<std::string> choices;
  for (const Kind kind : kKinds) {
    choices.push_back(kind == Kind::late ? "late:SECONDS" : std::string(name(kind)));
    if (word != name(kind)) continue;
    injection.kind = kind;
    if (kind != Kind::late && colon != std::string_view::npos) {
      reject(fmt::format("{} is too much: only late takes a time (late:5s)", in_quotes(text)));
    }
    if (kind == Kind::late) {
      if (colon == std::string_view::npos) reject("late needs a time: late:5s");
      injection.late_s = parse_duration(text.substr(colon + 1));
    }
    return;
  }
  std::vector<std::string> words;
  for (const Kind kind : kKinds) words.emplace_back(name(kind));
  const bool near = !nearest_choice(word, words).empty();
  reject(fmt::format("{} is not a kind{}", in_quotes(word), advice(word, near ? words : choices)));
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::skip:
      return "skip";
    case Kind::late:
      return "late";
    case Kind::count:
      return "count";
    case Kind::dtype:
      return "dtype";
    case Kind::op:
      return "op";
    case Kind::stop:
      return "stop";
    case Kind::kill:
      return "kill";
    case Kind::crash:
      return "crash";
    case Kind::flip:
      return "flip";
    case Kind::drop:
      return "drop";
    case Kind::doubled:
      return "double";
    case Kind::shift:
      return "shift";
    case Kind::overrun:
      return "overrun";
  }
  return "?";
}

Injection parse_injection(std::string_view text) {
  const std::vector<std::string> keys{"rank", "op", "kind"};
  Injection injection;
  std::set<std::string, std::less<>> given;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos)
      reject(fmt::format("{} is not KEY=VALUE: rank=3,op=42,kind=skip", in_quotes(item)));
    const std::string_view value = item.substr(equals + 1);
    if (!given.emplace(key).second) reject(fmt::format("{} is given twice", key));
    if (key == "rank") {
      injection.rank = parse_int(value, 0);
    } else if (key == "op") {
      injection.operation = operation_number(value);
    } else if (key == "kind") {
      set_kind(injection, value);
    } else {
      reject(fmt::format("{} is not a key{}", in_quotes(key), advice(key, keys)));
    }
  }
  for (const std::string& key : keys) {
    if (!given.contains(key)) reject(fmt::format("{}= is missing: rank=3,op=42,kind=skip", key));
  }
  return injection;
}

std::string describe(const Injection& injection) {
  const auto does = [&]() -> std::string {
    switch (injection.kind) {
      case Kind::skip:
        return "skip {}";
      case Kind::late:
        return fmt::format("come {:g} s late to {{}}", injection.late_s);
      case Kind::count:
        return "call {} with one element fewer";
      case Kind::dtype:
        return "call {} with another type";
      case Kind::op:
        return "call {} with another reduction";
      case Kind::stop:
        return "stop itself before {}";
      case Kind::kill:
        return "kill itself before {}";
      case Kind::crash:
        return "crash before {}";
      case Kind::flip:
        return "flip a bit in the result of {}";
      case Kind::drop:
        return "leave its contribution out of {}";
      case Kind::doubled:
        return "count its contribution to {} twice";
      case Kind::shift:
        return "shift the result of {} by one element";
      case Kind::overrun:
        return "write beyond the result of {}";
    }
    return "?";
  }();
  return fmt::format("rank {} is to ", injection.rank) +
         fmt::format(fmt::runtime(does), fmt::format("its operation {}", injection.operation));
}

bool changes_call(Kind kind) { return kind == Kind::count || kind == Kind::dtype || kind == Kind::op; }

bool changes_data(Kind kind) {
  return kind == Kind::flip || kind == Kind::drop || kind == Kind::doubled || kind == Kind::shift ||
         kind == Kind::overrun;
}

}  // namespace busbar
