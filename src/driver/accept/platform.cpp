#include "driver/accept/platform.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/split_text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "driver/accept/plan_cell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace busbar {
namespace {

using Mark = YAML::Mark;
using Node = YAML::Node;

double read_gbs(const YamlPlace& place, const Mark& mark, const Node& node, const std::string& key) {
  double value = 0;
  const std::string text = yaml_scalar(place, mark, node, key);
  yaml_set(place, mark, key, [&] { value = parse_double(text, 0); });
  if (!(value > 0)) place.fail(mark, fmt::format("{}: must be above 0", key));
  return value;
}

int read_count(const YamlPlace& place, const Mark& mark, const std::string& text, const std::string& key) {
  int value = 0;
  yaml_set(place, mark, key, [&] { value = parse_int(text, 1, 1 << 20); });
  return value;
}

std::string read_network(const YamlPlace& place, const Mark& mark, const Node& node) {
  static const std::vector<std::string> kNetworks{"ib", "roce", "efa", "tcpxo", "mnnvl", "ethernet"};
  const std::string name = yaml_scalar(place, mark, node, "network");
  if (!contains(kNetworks, name)) {
    place.fail_unknown(mark, "network", name, kNetworks);
  }
  return name;
}

FigureKind read_kind(const YamlPlace& place, const Mark& mark, const Node& node) {
  const std::string text = yaml_scalar(place, mark, node, "kind");
  const auto kind = from_word<FigureKind>(kFigureWords, text);
  if (!kind) place.fail_unknown(mark, "kind", text, {kFigureWords.begin(), kFigureWords.end()});
  return *kind;
}

/// "8G", or [8G, 16G] for all sizes from the first to the last.
void read_sizes(const YamlPlace& place, const Mark& mark, const Node& node, PlatformEntry& entry) {
  const std::vector<std::string> sizes = yaml_scalars(place, mark, node, "sizes");
  if (sizes.empty() || sizes.size() > 2) place.fail(mark, "sizes: one size, or the first and the last");
  yaml_set(place, mark, "sizes", [&] {
    entry.nbytes_min = parse_bytes(sizes.front());
    entry.nbytes_max = parse_bytes(sizes.back());
  });
  if (entry.nbytes_min > entry.nbytes_max) place.fail(mark, "sizes: the first is above the last");
}

PlatformEntry read_entry(const YamlPlace& place, const Mark& mark, const Node& node) {
  PlatformEntry e;
  bool has_kind = false;
  for_each_key(place, mark, node, "expect", [&](const std::string& key, const Mark& at, const Node& value) {
    if (key == "collective") {
      e.collective = read_collective(place, at, value)->name;
    } else if (key == "nodes") {
      e.nodes_min = e.nodes_max = read_count(place, at, yaml_scalar(place, at, value, key), key);
    } else if (key == "ranks") {
      e.nranks = read_count(place, at, yaml_scalar(place, at, value, key), key);
    } else if (key == "network") {
      e.network = read_network(place, at, value);
    } else if (key == "sizes") {
      read_sizes(place, at, value, e);
    } else if (key == "algorithm") {
      e.algorithm = yaml_scalar(place, at, value, key);
    } else if (key == "busbw") {
      e.busbw = read_gbs(place, at, value, key);
    } else if (key == "kind") {
      e.kind = read_kind(place, at, value);
      has_kind = true;
    } else if (key == "source") {
      e.source = yaml_scalar(place, at, value, key);
    } else {
      place.fail_unknown(at, "key", key,
                         {"collective", "nodes", "ranks", "network", "sizes", "algorithm", "busbw", "kind", "source"});
    }
  });
  // A number that nobody can be asked about is not an expectation.
  if (e.source.empty()) place.fail(mark, "a number without source");
  if (!has_kind) place.fail(mark, "a number without kind: measured or threshold");
  if (e.collective.empty() || e.nbytes_max == 0 || e.busbw <= 0) {
    place.fail(mark, "collective, sizes and busbw are needed");
  }
  return e;
}

PlatformCeiling read_ceiling(const YamlPlace& place, const Mark& mark, const Node& node) {
  PlatformCeiling c;
  for_each_key(place, mark, node, "ceilings", [&](const std::string& key, const Mark& at, const Node& value) {
    if (key == "network") {
      c.network = read_network(place, at, value);
    } else if (key == "collective") {
      c.collective = read_collective(place, at, value)->name;
    } else if (key == "algorithm") {
      c.algorithm = yaml_scalar(place, at, value, key);
    } else if (key == "busbw") {
      c.busbw = read_gbs(place, at, value, key);
    } else if (key == "source") {
      c.source = yaml_scalar(place, at, value, key);
    } else {
      place.fail_unknown(at, "key", key, {"network", "collective", "algorithm", "busbw", "source"});
    }
  });
  if (c.source.empty()) place.fail(mark, "a number without source");
  if (c.algorithm.empty() || c.busbw <= 0) place.fail(mark, "algorithm and busbw are needed");
  return c;
}

template <class Item>
std::vector<Item> read_list(const YamlPlace& place, const Mark& mark, const Node& node, const char* key,
                            Item (*read)(const YamlPlace&, const Mark&, const Node&)) {
  if (!node.IsSequence()) place.fail(mark, fmt::format("{}: write a list", key));
  std::vector<Item> items;
  for (const Node& item : node) items.push_back(read(place, item.Mark(), item));
  return items;
}

void read_root(const YamlPlace& place, const Node& root, Platform& p) {
  for_each_key(place, root.Mark(), root, "the file", [&](const std::string& key, const Mark& at, const Node& value) {
    if (key == "schema") {
      check_yaml_schema(place, at, value);
    } else if (key == "gpu") {
      p.gpu = yaml_scalar(place, at, value, key);
    } else if (canonical_key(key) == "gpu-not") {
      p.gpu_not = yaml_scalars(place, at, value, key);
    } else if (canonical_key(key) == "gpus-per-node") {
      p.gpus_per_node = read_count(place, at, yaml_scalar(place, at, value, key), key);
    } else if (key == "ceilings") {
      p.ceilings = read_list(place, at, value, "ceilings", read_ceiling);
    } else if (key == "expect") {
      p.entries = read_list(place, at, value, "expect", read_entry);
    } else {
      place.fail_unknown(at, "key", key, {"schema", "gpu", "gpu-not", "gpus-per-node", "ceilings", "expect"});
    }
  });
  if (p.gpu.empty()) place.fail(root.Mark(), "gpu: a word of the device's name is needed");
  if (p.gpus_per_node == 0) place.fail(root.Mark(), "gpus-per-node is needed");
}

}  // namespace

Platform read_platform(std::string_view text, const std::string& file_name) {
  Platform platform;
  const std::size_t slash = file_name.rfind('/');
  const std::string base = slash == std::string::npos ? file_name : file_name.substr(slash + 1);
  platform.name = base.substr(0, base.rfind('.'));
  const YamlPlace place(file_name);
  with_yaml(place, text, [&](const YAML::Node& root) { read_root(place, root, platform); });
  return platform;
}

std::vector<Platform> shipped_platforms() {
  std::vector<Platform> platforms;
  for (const EmbeddedFile& file : embedded_platforms()) {
    platforms.push_back(read_platform(file.text, std::string(file.name)));
  }
  return platforms;
}

namespace {

/// "NVIDIA A100-SXM4-80GB" as nvidia, a100, sxm4, 80gb: GB200 is not a B200.
std::set<std::string> words(std::string_view text) {
  std::set<std::string> found;
  std::string word;
  for (char c : lower_case(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      found.insert(word);
      word.clear();
    }
  }
  return found;
}

/// Without " x 8".
std::string device_name(const std::string& device) {
  const std::size_t at = device.rfind(" x ");
  return at == std::string::npos ? device : device.substr(0, at);
}

bool is_platform(const Platform& platform, const std::string& device) {
  const std::set<std::string> all = words(device);
  if (all.count(lower_case(platform.gpu)) == 0) return false;
  return std::ranges::none_of(platform.gpu_not,
                              [&](const std::string& word) { return all.count(lower_case(word)) != 0; });
}

bool same_word(const std::string& a, const std::string& b) { return lower_case(a) == lower_case(b); }

bool is_known(const std::string& algorithm) {
  return !algorithm.empty() && !same_word(algorithm, "default") && !same_word(algorithm, "unknown");
}

/// Whether the entry speaks of this cell, whatever algorithm ran.
bool speaks_of(const PlatformEntry& e, const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  const int nranks = e.nranks != 0 ? e.nranks : cell.nhosts * platform.gpus_per_node;
  return e.collective == cell.collective && cell.nbytes >= e.nbytes_min && cell.nbytes <= e.nbytes_max &&
         cell.nhosts >= e.nodes_min && cell.nhosts <= e.nodes_max && cell.nranks == nranks &&
         (cell.nhosts == 1 || e.network.empty() || e.network == network);
}

std::string why_nothing(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  return fmt::format("{} has no number for {} at {} bytes on {} node{} with {} ranks{}", platform.name, cell.collective,
                     cell.nbytes, cell.nhosts, cell.nhosts == 1 ? "" : "s", cell.nranks,
                     cell.nhosts == 1 ? "" : fmt::format(" over {}", network.empty() ? "an unknown network" : network));
}

/// What was measured says more than what a vendor still accepts.
bool says_more(const PlatformEntry* a, const PlatformEntry* b) {
  if (b == nullptr) return true;
  if (a->kind != b->kind) return a->kind == FigureKind::measured;
  return a->busbw > b->busbw;
}

}  // namespace

RecognisedPlatform recognise_platform(const std::vector<Platform>& platforms,
                                      const std::vector<AcceptResult::Host>& hosts) {
  std::set<std::string> names;
  for (const AcceptResult::Host& host : hosts) names.insert(device_name(host.device));
  if (names.empty()) return {nullptr, "no host is known"};
  if (names.size() > 1) return {nullptr, fmt::format("the hosts have different devices: {}", fmt::join(names, ", "))};
  const std::string& device = *names.begin();
  if (device == "host memory") return {nullptr, "host memory: no platform's numbers apply"};
  for (const Platform& platform : platforms) {
    if (is_platform(platform, device)) return {&platform, {}};
  }
  return {nullptr, fmt::format("no platform's table is about {}", device)};
}

Expected expected_busbw(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  const PlatformEntry* ran = nullptr;
  const PlatformEntry* any = nullptr;
  const PlatformEntry* other = nullptr;
  for (const PlatformEntry& e : platform.entries) {
    if (!speaks_of(e, platform, network, cell)) continue;
    const PlatformEntry*& best = e.algorithm.empty() ? any : same_word(e.algorithm, cell.algorithm) ? ran : other;
    if (says_more(&e, best)) best = &e;
  }
  const PlatformEntry* found = ran != nullptr ? ran : any;
  const auto expectation = [](const PlatformEntry& e) { return Expectation{e.busbw, e.kind, e.source}; };
  Expected expected;
  if (found != nullptr) {
    expected.expectation = expectation(*found);
  } else if (other == nullptr) {
    expected.reason = why_nothing(platform, network, cell);
  } else if (!is_known(cell.algorithm)) {
    expected.reason =
        fmt::format("the algorithm that ran is not known, and {}'s numbers are per algorithm", platform.name);
  } else {
    expected.reason = fmt::format("{}, with {}", why_nothing(platform, network, cell), cell.algorithm);
  }
  if (found != nullptr && other != nullptr && is_known(cell.algorithm) && other->kind == FigureKind::measured &&
      other->busbw > found->busbw) {
    expected.better = expectation(*other);
    expected.better_algorithm = other->algorithm;
  }
  return expected;
}

Ceiling ceiling_busbw(const Platform& platform, const std::string& network, const MeasuredCell& cell) {
  if (!is_known(cell.algorithm)) return {0, {}, "the algorithm that ran is not known, and ceilings are per algorithm"};
  const bool inside = cell.nhosts == 1;
  for (const PlatformCeiling& c : platform.ceilings) {
    const bool here = inside ? c.network.empty() : !c.network.empty() && c.network == network;
    if (here && same_word(c.algorithm, cell.algorithm) && (c.collective.empty() || c.collective == cell.collective)) {
      return {c.busbw, c.source, {}};
    }
  }
  return {
      0,
      {},
      fmt::format("{} has no ceiling for {} with {} {}", platform.name, cell.collective, cell.algorithm,
                  inside ? "inside a node" : fmt::format("over {}", network.empty() ? "an unknown network" : network))};
}

}  // namespace busbar
