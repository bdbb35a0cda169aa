#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/record/json_values.h"
#include "driver/readers/call_records.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace busbar {
namespace {

/// The machine that a pickle is written for: a stack of values, marks on it, and a memory. Values are held once however
/// often the pickle names them, until they are written out.
struct Unpickler {
  struct Value {
    std::string json;                  ///< of a list or dict "[" or "{"
    std::vector<std::uint32_t> items;  ///< of a dict keys and values in turn
  };

  std::string_view rest;
  const std::string& name;
  std::uint64_t most_text;
  std::vector<Value> values = {};
  std::vector<std::uint32_t> stack = {};  ///< of values
  std::vector<std::size_t> marks = {};    ///< sizes of the stack
  std::unordered_map<std::uint64_t, std::uint32_t> memo = {};
  std::string text = {};

  [[noreturn]] void fail(std::string_view what) const {
    throw_bad_config(fmt::format("{}: the pickle {}", name, what));
  }

  void need(bool good) const {
    if (!good) fail("is cut or damaged");
  }

  std::string_view take(std::uint64_t nbytes) {
    need(nbytes <= rest.size());
    const std::string_view taken = rest.substr(0, static_cast<std::size_t>(nbytes));
    rest.remove_prefix(taken.size());
    return taken;
  }

  /// A number of at most 8 bytes, the lowest first.
  std::uint64_t number(std::uint64_t nbytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(nbytes).data(), nbytes);
    return value;
  }

  void push(std::string json, std::vector<std::uint32_t> items = {}) {
    if (values.size() == kMostJsonValues) fail("has too many values");
    stack.push_back(static_cast<std::uint32_t>(values.size()));
    values.push_back({std::move(json), std::move(items)});
  }

  void push_leaf(const Json& leaf) { push(dump_json(leaf)); }

  /// A signed number. One that needs more than 8 bytes is no rank or count.
  void push_long(std::uint64_t nbytes) {
    if (nbytes == 0 || nbytes > 8) return take(nbytes).empty() ? push_leaf(0) : push_leaf(nullptr);
    const auto unused = 64 - 8 * static_cast<int>(nbytes);
    push_leaf(static_cast<std::int64_t>(number(nbytes) << unused) >> unused);
  }

  /// Takes the last mark off; returns how many values the stack holds since then.
  std::size_t above_mark() {
    need(!marks.empty());
    const std::size_t mark = marks.back();
    marks.pop_back();
    return stack.size() - mark;
  }

  /// The last so many values.
  std::vector<std::uint32_t> pop(std::size_t count) {
    need(stack.size() - (marks.empty() ? 0 : marks.back()) >= count);
    std::vector<std::uint32_t> items(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
    stack.resize(stack.size() - count);
    return items;
  }

  std::uint32_t top() { return stack.emplace_back(pop(1).front()); }

  void put(std::uint64_t place) { memo[place] = top(); }

  void get(std::uint64_t place) {
    need(memo.contains(place));
    stack.push_back(memo[place]);
  }

  void add(std::size_t count, std::string_view to_what) {
    const std::vector<std::uint32_t> items = pop(count);
    Value& to = values[top()];
    need(to.json == to_what && (to_what == "[" || count % 2 == 0));
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  /// A value that holds itself ends at the depth or the size limit.
  void write(std::uint32_t index, std::size_t depth) {
    const Value& value = values[index];
    if (depth > kDeepestInput) fail("is nested too deep");
    if (text.size() + value.json.size() > most_text) fail("names large things too often");
    text += value.json;
    const bool dict = value.json == "{";
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const bool is_key = dict && i % 2 == 0;
      if (is_key && !values[value.items[i]].json.starts_with('"')) fail("has a key that is not a string");
      if (i > 0) text += dict && !is_key ? ':' : ',';
      write(value.items[i], depth + 1);
    }
    if (dict || value.json == "[") text += dict ? '}' : ']';
  }

  /// Executes what plain data need, and nothing that would make or call something.
  void run(char code) {
    static const std::map<char, std::string> kRefused{
        {'c', "GLOBAL"}, {'\x93', "STACK_GLOBAL"}, {'R', "REDUCE"}, {'b', "BUILD"}, {'i', "INST"},
        {'o', "OBJ"},    {'\x81', "NEWOBJ"}};
    const auto is = [code](std::string_view codes) { return codes.find(code) != kNotFound; };
    const std::uint64_t n = number(is("\x80KU\x8a\x8cqh") ? 1
                                   : is("M")              ? 2
                                   : is("JTXrj")          ? 4
                                   : is("\x95G\x8d")      ? 8
                                                          : 0);
    if (is("\x80\x95")) return;  // PROTO, FRAME
    if (is("N")) return push("null");
    if (is("\x88")) return push("true");                                                      // NEWTRUE
    if (is("\x89")) return push("false");                                                     // NEWFALSE
    if (is("J")) return push_leaf(static_cast<std::int32_t>(n));                              // BININT
    if (is("KM")) return push_leaf(n);                                                        // BININT1, BININT2
    if (is("\x8a")) return push_long(n);                                                      // LONG1
    if (is("G")) return push_leaf(json_number(std::bit_cast<double>(__builtin_bswap64(n))));  // BINFLOAT
    if (is("UT\x8cX\x8d")) return push_leaf(take(n));           // BINSTRING, BINUNICODE, their SHORT_, BINUNICODE8
    if (is("}")) return push("{");                              // EMPTY_DICT
    if (is("])")) return push("[");                             // EMPTY_LIST, EMPTY_TUPLE
    if (is("(")) return marks.push_back(stack.size());          // MARK
    if (is("ae")) return add(is("a") ? 1 : above_mark(), "[");  // APPEND, APPENDS
    if (is("su")) return add(is("s") ? 2 : above_mark(), "{");  // SETITEM, SETITEMS
    if (is("t")) return push("[", pop(above_mark()));           // TUPLE
    if (is("\x85\x86\x87")) return push("[", pop(static_cast<std::size_t>(code - '\x84')));  // TUPLE1 to TUPLE3
    if (is("\x94")) return put(memo.size());                                                 // MEMOIZE
    if (is("qr")) return put(n);                                                             // BINPUT, LONG_BINPUT
    if (is("hj")) return get(n);                                                             // BINGET, LONG_BINGET
    const auto refused = kRefused.find(code);
    fail(fmt::format("holds {}, which plain data do not need",
                     refused != kRefused.end() ? refused->second
                                               : fmt::format("instruction {:#04x}", static_cast<unsigned char>(code))));
  }
};

}  // namespace

std::string json_of_pickle(std::string_view bytes, const std::string& name) {
  // A frame of a stack that all calls of a program have in common takes 5 bytes in a pickle, and 250 in JSON.
  constexpr std::uint64_t kMostGrowth = 256;
  Unpickler machine{bytes, name, std::min<std::uint64_t>(kMostFileBytes, bytes.size() * kMostGrowth)};
  for (char code = '\0'; (code = machine.take(1).front()) != '.';) machine.run(code);
  machine.write(machine.pop(1).front(), 0);
  return std::move(machine.text);
}

}  // namespace busbar
