#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "driver/accept/platform.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>

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

std::string read_collective_name(const YamlPlace& place, const Mark& mark, const Node& node) {
  const std::string name = yaml_scalar(place, mark, node, "collective");
  if (find_collective(name) != nullptr) return name;
  std::vector<std::string> names;
  for (CollectiveId id : kAllCollectives) names.emplace_back(collective(id).name);
  place.fail_unknown(mark, "collective", name, names);
}

std::string read_network(const YamlPlace& place, const Mark& mark, const Node& node) {
  static const std::vector<std::string> kNetworks{"ib", "roce", "efa", "tcpxo", "mnnvl", "ethernet"};
  const std::string name = yaml_scalar(place, mark, node, "network");
  if (std::find(kNetworks.begin(), kNetworks.end(), name) == kNetworks.end()) {
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
      e.collective = read_collective_name(place, at, value);
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
  // A number that nobody can be asked about is no expectation.
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
      c.collective = read_collective_name(place, at, value);
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

}  // namespace busbar
