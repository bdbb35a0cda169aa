#include "common/machine/recorded_files.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

namespace busbar {
namespace {

bool is_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && (folder == "/" || path[folder.size()] == '/');
}

/// Takes the first word off; the rest follows one space, unchanged.
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

template <class Number>
Number number(std::string_view word) {
  const std::optional<Number> value = number_of<Number>(word);
  if (!value) throw_bad_config(fmt::format("{} is not a number", in_quotes(word)));
  return *value;
}

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    ++i;
    unsigned byte = 0;
    const char* const hex = text.data() + i + 1;
    if (text[i] == 'x' && i + 2 < text.size() && std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    }
  }
  return plain;
}

std::string absolute(std::string_view path) {
  if (!path.starts_with('/')) throw_bad_config(fmt::format("{} is not an absolute path", in_quotes(path)));
  return std::string(path);
}

/// The entry's own place: follows links in the folders above it, not in its own name.
std::string place(const RecordedFiles& files, std::string_view path) {
  const std::string text = absolute(path);
  const std::size_t slash = text.rfind('/');
  const auto folder = files.follow(text.substr(0, slash));
  if (!folder) throw_bad_config(fmt::format("the links of {} go in circles", in_quotes(path)));
  return (*folder == "/" ? "" : *folder) + text.substr(slash);
}

/// Whether the line is about a file; if so, records it.
bool add_file_line(std::string_view key, std::string_view rest, RecordedFiles& files) {
  constexpr std::array<std::string_view, 6> kKeys = {"file", "link", "folder", "gone", "status", "denied"};
  if (!contains(kKeys, key)) return false;
  const std::string path = place(files, take_word(rest));
  if (key == "gone") {
    files.remove(path);
    return true;
  }
  RecordedFile& file = files.files[path];
  if (key == "file") file.text = unescaped(rest);
  if (key == "link") file.link = rest;
  if (key == "denied") file.denied = true;
  if (key == "status") {
    Probe::Status& status = file.status.emplace();
    status.uid = number<unsigned>(take_word(rest));
    status.nbytes = number<std::uint64_t>(take_word(rest));
    status.modified_s = number<double>(take_word(rest));
  }
  return true;
}

void add_line(std::string_view line, Probe& probe, RecordedFiles& files) {
  std::string_view rest = line;
  const std::string_view key = take_word(rest);
  if (add_file_line(key, rest, files)) return;
  if (key == "env") {
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos) throw_bad_config("env wants NAME=VALUE");
    probe.environment[std::string(rest.substr(0, equals))] = unescaped(rest.substr(equals + 1));
  } else if (key == "limit") {
    const std::string name(take_word(rest));
    probe.limits[name] = rest == "unlimited" ? Probe::Limit() : number<std::uint64_t>(rest);
  } else if (key == "mount") {
    Probe::Mount& mount = probe.mounts[std::string(take_word(rest))];
    mount.nbytes = number<std::uint64_t>(take_word(rest));
    mount.free_bytes = number<std::uint64_t>(rest);
  } else if (key == "cpus") {
    const std::set<int> cpus = parse_cpu_list(rest);
    if (cpus.empty()) throw_bad_config(fmt::format("{} is not a list of CPUs", in_quotes(rest)));
    probe.cpus.assign(cpus.begin(), cpus.end());
  } else if (key == "uid") {
    probe.uid = number<unsigned>(rest);
  } else if (key == "host") {
    probe.host = rest;
  } else if (key == "kernel") {
    probe.kernel = rest;
  } else if (key == "now") {
    probe.now_s = number<double>(rest);
  } else if (key == "note") {
    const std::string name(take_word(rest));
    probe.notes[name] = rest;
  } else if (key == "kmsg") {
    if (!probe.kernel_log) probe.kernel_log.emplace();
    if (!rest.empty()) probe.kernel_log->push_back(unescaped(rest));
  } else {
    throw_bad_config(
        fmt::format("{} is none of file, link, folder, gone, status, denied, env, limit, mount, cpus, uid, "
                    "host, kernel, now, note, kmsg",
                    in_quotes(key)));
  }
}

}  // namespace

const RecordedFile& RecordedFiles::at(const std::string& path) const {
  static const RecordedFile kNothing;
  const auto found = files.find(path);
  return found == files.end() ? kNothing : found->second;
}

std::vector<std::string> RecordedFiles::list(const std::string& path) const {
  std::set<std::string> names;
  const std::size_t begin = path == "/" ? 1 : path.size() + 1;
  for (auto it = files.lower_bound(path); it != files.end() && it->first.starts_with(path); ++it)
    if (is_below(it->first, path)) names.insert(it->first.substr(begin, it->first.find('/', begin) - begin));
  return {names.begin(), names.end()};
}

void RecordedFiles::remove(const std::string& path) {
  std::erase_if(files, [&](const auto& file) { return file.first == path || is_below(file.first, path); });
}

std::optional<std::string> RecordedFiles::follow(const std::string& path) const {
  return follow_links(path, [&](const std::string& link) { return at(link).link; });
}

Probe probe_recorded(std::string_view text, const std::string& name) {
  Probe probe;
  auto files = std::make_shared<RecordedFiles>();
  std::size_t line_number = 0;
  for (std::string_view line : split_text(text, '\n')) {
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    try {
      add_line(line, probe, *files);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{}, line {}: {}", name, line_number, e.what()));
    }
  }
  probe.recorded = std::move(files);
  return probe;
}

}  // namespace busbar
