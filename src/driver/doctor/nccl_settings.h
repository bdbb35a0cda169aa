#pragma once

#include "common/machine/probe.h"
#include "driver/doctor/checks.h"
#include "driver/rules/setting_rules.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// NCCL's settings in the environment and in its files. ----------------------------------------------------------------

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

/// One of the files, if it exists.
struct ConfFile {
  std::string path;
  std::vector<ConfLine> lines;
};

/// The files in the order in which NCCL reads them: NCCL_CONF_FILE or else ~/.nccl.conf, then /etc/nccl.conf.
std::vector<ConfFile> nccl_conf_files(const Probe& probe);

/// All NCCL_* of the environment and of the files; what is set first stays.
std::map<std::string, NcclSetting> nccl_settings(const Probe& probe, const std::vector<ConfFile>& files);

// Remarks on a setting. ----------------------------------------------------------------------------------------------

/// The remark on a set variable whose name begins with NCCL_: a slip, PyTorch's, removed, deprecated, internal.
/// `version` is that of the NCCL in use, 0 if it is not known. Pure.
Remark judge_nccl_name(std::string_view name, int version);

/// How many processes the job has, as its launcher sets in the environment; nothing: not set.
struct JobShape {
  std::optional<int> on_host;
  std::optional<int> in_all;
  bool one_per_host() const { return on_host == 1; }
  bool one_host() const { return on_host && in_all && *on_host == *in_all; }
};
JobShape job_shape(const std::map<std::string, std::string>& environment);

/// Why the value of an NCCL_* variable is wrong or risky: ranges of the fields that it goes to, lists of words with the
/// nearest one, numbers that NCCL does not read as they are meant. `version` as for judge_nccl_name. Pure.
Remark judge_nccl_value(std::string_view name, std::string_view value, int version, const JobShape& job);

/// What a value takes away from NCCL's speed or safety; passes if it is nothing. CUDA's variables too. Pure.
Remark judge_slow_setting(std::string_view name, std::string_view value);

/// Of `names`, those that a list of NCCL's takes (list_takes). Pure.
std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names);

}  // namespace busbar
