#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/yaml_node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>
#include <utility>

namespace busbar {
namespace {

// Marks count from 0; the parser has none for an empty document.
int line_of(const YAML::Mark& mark) { return mark.line < 0 ? 1 : mark.line + 1; }

[[noreturn]] void fail_at(const std::string& file, int line, const std::string& what) {
  throw_bad_config(fmt::format("{}:{}: {}", file, line, what));
}

/// Rejects bytes that YAML does not allow, for a better message than the parser's, and deep flow nesting, for which
/// yaml-cpp recurses.
void check_text(const std::string& file, std::string_view text) {
  std::size_t depth = 0;
  int line = 1;
  for (unsigned char c : text) {
    const bool control = (c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127;
    const bool never_utf8 = c == 0xc0 || c == 0xc1 || c > 0xf4;
    if (control || never_utf8) fail_at(file, line, fmt::format("byte 0x{:02x} does not belong in a text file", c));
    if (c == '\n') ++line;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth -= depth > 0 ? 1 : 0;
    if (depth > kDeepestInput) fail_at(file, line, "too deeply nested for a configuration");
  }
}

std::size_t values_in(const YamlTree& tree) {
  std::size_t count = 1;
  for (const YamlTree& item : tree.items) count += values_in(item);
  return count;
}

/// Builds the first document, and records where a second one begins.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, std::size_t most_values) : file_(file), left_(most_values) {}

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = line_of(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(anchor, {YamlTree::Kind::null, line_of(mark), {}, {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& text) override {
    add(anchor, {YamlTree::Kind::scalar, line_of(mark), text, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end()) fail_at(file_, line_of(mark), "an alias inside the value that it names");
    const std::size_t size = values_in(named->second);
    if (size > left_) fail_at(file_, line_of(mark), "its aliases repeat more than the whole file holds");
    left_ -= size;
    place(named->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.emplace_back(anchor, YamlTree{YamlTree::Kind::list, line_of(mark), {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.emplace_back(anchor, YamlTree{YamlTree::Kind::map, line_of(mark), {}, {}});
  }
  void OnMapEnd() override { close(); }

  int start() const { return start_; }
  YamlTree take() { return std::move(root_); }

 private:
  void add(YAML::anchor_t anchor, YamlTree value) {
    if (anchor != YAML::NullAnchor) anchors_.insert_or_assign(anchor, value);
    place(std::move(value));
  }
  void place(YamlTree value) { (open_.empty() ? root_ : open_.back().second.items.emplace_back()) = std::move(value); }
  void close() {
    auto [anchor, value] = std::move(open_.back());
    open_.pop_back();
    add(anchor, std::move(value));
  }

  const std::string& file_;
  std::size_t left_;
  int start_ = 1;
  YamlTree root_;
  std::vector<std::pair<YAML::anchor_t, YamlTree>> open_;
  std::map<YAML::anchor_t, YamlTree> anchors_;
};

}  // namespace

YamlTree parse_yaml(const std::string& file, std::string_view text, bool own) {
  if (text.size() > kMostYamlBytes) fail_at(file, 1, "larger than 1 MiB: this is not a configuration");
  check_text(file, text);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(file, text.size());
    if (!parser.HandleNextDocument(builder) || own) return builder.take();
    YamlTree tree = builder.take();
    // Not a loop: a stray "," outside a list is never consumed, and yaml-cpp 0.7 then finds documents for ever.
    if (!parser.HandleNextDocument(builder)) return tree;
    fail_at(file, builder.start(), "a second document begins here: one file holds one configuration");
  } catch (const YAML::Exception& error) {
    fail_at(file, line_of(error.mark), fmt::format("not valid YAML: {}", printable(error.msg)));
  }
}

}  // namespace busbar
