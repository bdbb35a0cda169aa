#pragma once

#include "common/base/enum_words.h"
#include "common/watch/hang_evidence.h"

namespace busbar {

// The words of hang-JOBID.json for enumerators, in their order: part of the file's format, so none of them changes.

inline constexpr std::array<std::string_view, 4> kOccasionWords{"limit", "slow_limit", "terminated", "files"};
inline constexpr std::array<std::string_view, 3> kLifeWords{"unknown", "alive", "gone"};
inline constexpr std::array<std::string_view, 4> kTroubleWords{"hardware", "resource", "launcher", "notice"};
inline constexpr std::array<std::string_view, 6> kSilenceWords{"none",     "mute",      "refused",
                                                               "no_route", "no_answer", "unreadable"};
inline constexpr std::array<std::string_view, 5> kProbeWords{"ok", "refused", "no_route", "timed_out", "large_lost"};
inline constexpr std::array<std::string_view, 5> kEndingWords{"none", "good", "failed", "hung", "signalled"};
inline constexpr std::array<std::string_view, 13> kPhaseWords{
    "starting", "mpi_init", "initialization", "allocating",   "preparing", "timed_loop", "checking",
    "agreeing", "output",   "finishing",      "mpi_finalize", "resting",   "ended"};
static_assert(kPhaseWords.size() == static_cast<std::size_t>(Phase::ended) + 1);
static_assert(kEndingWords.size() == static_cast<std::size_t>(Ending::signalled) + 1);
static_assert(kSilenceWords.size() == static_cast<std::size_t>(Silence::unreadable) + 1);
static_assert(kProbeWords.size() == static_cast<std::size_t>(PeerProbe::Result::large_lost) + 1);
static_assert(kTroubleWords.size() == static_cast<std::size_t>(Trouble::Kind::notice) + 1);
static_assert(kLifeWords.size() == static_cast<std::size_t>(ProcessState::Life::gone) + 1);
static_assert(kOccasionWords.size() == static_cast<std::size_t>(HangEvidence::Occasion::files) + 1);

}  // namespace busbar
