#include "driver/doctor/library_search.h"

#include "common/base/split_text.h"
#include "common/machine/machine_facts.h"

#include <algorithm>

namespace busbar {
namespace {

void add_folder(std::vector<std::string>& folders, std::string_view folder) {
  while (folder.ends_with(' ') || folder.ends_with('\r') || folder.ends_with('/')) folder.remove_suffix(1);
  if (!folder.starts_with('/')) return;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.emplace_back(folder);
}

void add_lines(const Probe& probe, std::vector<std::string>& folders, const std::string& file) {
  const std::string text = probe.read(file).value_or("");
  for (const std::string_view line : lines_of_text(text)) add_folder(folders, line);
}

}  // namespace

std::vector<std::string> library_folders(const Probe& probe) {
  std::vector<std::string> folders;
  if (const auto path = probe.environment.find("LD_LIBRARY_PATH"); path != probe.environment.end()) {
    for (const std::string_view part : split_text(path->second, ':')) add_folder(folders, part);
  }
  // Every distribution's ld.so.conf includes this folder.
  for (const std::string& name : probe.list("/etc/ld.so.conf.d"))
    add_lines(probe, folders, "/etc/ld.so.conf.d/" + name);
  add_lines(probe, folders, "/etc/ld.so.conf");
  for (const char* folder :
       {"/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    add_folder(folders, folder);
  }
  return folders;
}

std::set<std::string> mapped_files(std::string_view maps, std::string_view library) {
  std::set<std::string> files;
  for (const std::string_view line : lines_of_text(maps)) {
    const std::size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view path = line.substr(slash);
    if (path.substr(path.rfind('/') + 1).starts_with(library)) files.emplace(path);
  }
  return files;
}

std::string find_library(const Probe& probe, const std::vector<std::string>& folders, const std::string& name) {
  if (name.find('/') != std::string::npos) return probe.exists(name) ? name : "";
  for (const std::string& folder : folders) {
    if (probe.exists(folder + "/" + name)) return folder + "/" + name;
  }
  return {};
}

}  // namespace busbar
