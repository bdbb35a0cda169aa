#pragma once

#include "driver/fingerprint/fingerprint_run.h"

#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// One case as it was found.
struct FingerprintResult {
  FingerprintCase fingerprint_case;
  std::string setting;  ///< "in force", "rules file (says ring)", "forced ring"
  SentMatrix sent;
  std::optional<SentMatrix> without_rules;  ///< where a rules file was given
  std::vector<KnownFingerprint> known;
  int nranks = 0;
  std::string library;
};

/// "{rabenseifner}", "{linear, nonoverlapping}: alike here", or that none fits.
std::string describe_consistent(const Collective& collective, const std::vector<OmpiChoice>& choices);

/// For people: the setting, what it sends and is consistent with, then every algorithm.
std::string fingerprint_text(const FingerprintResult& result);

/// All results as one JSON document.
std::string fingerprint_json(const std::vector<FingerprintResult>& results);

}  // namespace busbar
