#pragma once

#include "common/machine/probe.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A line of a file of NCCL's settings.
struct ConfLine {
  int line = 0;  ///< from 1
  std::string name;
  std::string value;
};

/// What NCCL takes from such a file: NAME=VALUE up to the end of the line, nothing trimmed, '#' only in the first
/// column; other lines are skipped (NCCL, src/misc/param.cc). Pure.
std::vector<ConfLine> parse_nccl_conf(std::string_view text);

/// One variable as NCCL sees it.
struct NcclSetting {
  std::string value;
  std::string origin;  ///< the file that set it; empty: the environment
};

/// One of the files, where it exists.
struct ConfFile {
  std::string path;
  std::vector<ConfLine> lines;
};

/// The files in the order in which NCCL reads them: NCCL_CONF_FILE or else ~/.nccl.conf, then /etc/nccl.conf.
std::vector<ConfFile> nccl_conf_files(const Probe& probe);

/// All NCCL_* of the environment and of the files; what is set first stays.
std::map<std::string, NcclSetting> nccl_settings(const Probe& probe, const std::vector<ConfFile>& files);

}  // namespace busbar
