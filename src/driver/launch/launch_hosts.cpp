#include "driver/launch/launch_hosts.h"

#include "common/base/error.h"
#include "common/base/read_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>

namespace busbar {
namespace {

// Open MPI's, and MPICH's and Intel MPI's -f and -hosts.
constexpr std::array<std::string_view, 6> kFileOptions{"--hostfile",   "-hostfile",          "--machinefile",
                                                       "-machinefile", "--default-hostfile", "-f"};
constexpr std::array<std::string_view, 4> kHostOptions{"--host", "-host", "-H", "-hosts"};

/// Where an option's value stands in the words.
struct Place {
  std::size_t word = 0;
  std::size_t offset = 0;  ///< behind "--hostfile="
};

template <std::size_t N>
std::optional<Place> find_value(const std::vector<std::string>& words, const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "{cmd}") break;
    for (const std::string_view name : names) {
      if (words[i] == name && i + 1 < words.size()) return Place{i + 1, 0};
      if (words[i].starts_with(name) && words[i].size() > name.size() && words[i][name.size()] == '=') {
        return Place{i, name.size() + 1};
      }
    }
  }
  return std::nullopt;
}

std::string value_at(const std::vector<std::string>& words, const Place& place) {
  return words[place.word].substr(place.offset);
}

int number_or(std::string_view text, int otherwise) {
  int value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : otherwise;
}

/// "node3 slots=2", "node3:2": the host of a line of a host file; nothing for a comment.
std::optional<LaunchHost> host_of_line(const std::string& line) {
  std::istringstream fields(line.substr(0, line.find('#')));
  std::string word;
  if (!(fields >> word)) return std::nullopt;
  LaunchHost host;
  const std::size_t colon = word.find(':');
  host.name = word.substr(0, colon);
  if (colon != std::string::npos) host.slots = number_or(std::string_view(word).substr(colon + 1), 1);
  while (fields >> word) {
    if (word.starts_with("slots=")) host.slots = number_or(std::string_view(word).substr(6), 1);
  }
  return host;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

bool is_srun(const std::vector<std::string>& words) {
  return !words.empty() && std::filesystem::path(words.front()).filename() == "srun";
}

/// Names are told as people write them: node3 and node3.cluster.org are one host.
bool names_same(std::string_view a, std::string_view b) { return a.substr(0, a.find('.')) == b.substr(0, b.find('.')); }

bool is_excluded(const std::string& host, const std::set<std::string>& excluded) {
  return std::any_of(excluded.begin(), excluded.end(), [&](const std::string& e) { return names_same(host, e); });
}

}  // namespace

std::vector<LaunchHost> launch_hosts(const std::vector<std::string>& words) {
  std::vector<LaunchHost> hosts;
  const auto add = [&](const LaunchHost& host) {
    const auto same =
        std::find_if(hosts.begin(), hosts.end(), [&](const LaunchHost& h) { return h.name == host.name; });
    if (same != hosts.end()) {
      same->slots += host.slots;
    } else {
      hosts.push_back(host);
    }
  };
  if (const auto file = find_value(words, kFileOptions)) {
    std::istringstream lines(read_file(value_at(words, *file), "the launch command's host file"));
    for (std::string line; std::getline(lines, line);) {
      if (const auto host = host_of_line(line)) add(*host);
    }
  } else if (const auto list = find_value(words, kHostOptions)) {
    for (const std::string& item : split_list(value_at(words, *list))) {
      if (const auto host = host_of_line(item)) add(*host);
    }
  }
  return hosts;
}

bool can_exclude(const std::vector<std::string>& words) {
  return is_srun(words) || find_value(words, kFileOptions) || find_value(words, kHostOptions);
}

ReducedLaunch without_hosts(const std::vector<std::string>& words, const std::set<std::string>& excluded,
                            const std::string& hostfile) {
  ReducedLaunch reduced{words, {}};
  if (excluded.empty()) return reduced;
  if (const auto file = find_value(words, kFileOptions)) {
    std::istringstream lines(read_file(value_at(words, *file), "the launch command's host file"));
    for (std::string line; std::getline(lines, line);) {
      const auto host = host_of_line(line);
      if (host && !is_excluded(host->name, excluded)) reduced.hostfile_text += line + "\n";
    }
    std::string& word = reduced.words[file->word];
    word = word.substr(0, file->offset) + hostfile;
  } else if (const auto list = find_value(words, kHostOptions)) {
    std::vector<std::string> left;
    for (std::string& item : split_list(value_at(words, *list))) {
      const auto host = host_of_line(item);
      if (host && !is_excluded(host->name, excluded)) left.push_back(std::move(item));
    }
    std::string& word = reduced.words[list->word];
    word = fmt::format("{}{}", word.substr(0, list->offset), fmt::join(left, ","));
  } else if (is_srun(words)) {
    reduced.words.insert(reduced.words.begin() + 1, fmt::format("--exclude={}", fmt::join(excluded, ",")));
  }
  return reduced;
}

}  // namespace busbar
