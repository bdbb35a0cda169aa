#pragma once

#include "common/base/enum_words.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// What programs do with a communicator, in the order in which comm_perf does it.
enum class LifeStep : std::uint8_t {
  create,
  first_op,  ///< connects, where the library does so at need
  next_op,
  split,   ///< into two halves
  dup,     ///< the same ranks again
  shrink,  ///< without the last rank
  grow,    ///< what was shrunk takes a rank in again
  abort,
  recreate,  ///< what an aborted job waits for
  free,
};

/// As tables, JSON and CSV spell them.
inline constexpr std::array<std::string_view, 10> kLifeStepWords{"create", "first-op", "next-op", "split",     "dup",
                                                                 "shrink", "grow",     "abort",   "re-create", "free"};
constexpr std::string_view name(LifeStep step) { return word(kLifeStepWords, step); }

constexpr bool is_operation(LifeStep step) { return step == LifeStep::first_op || step == LifeStep::next_op; }

/// The life of a further communicator of a backend's ranks. From create, or recreate, to abort, or free, it takes the
/// place of the backend's own, so that operations are the backend's, counted and watched as any. Every process calls
/// all members alike, in the order of the steps; failures must end the job. The backend outlives it.
class CommunicatorLife {
 public:
  virtual ~CommunicatorLife() = default;

  /// Why the library lacks the step, in a sentence. Takes no rank, so that ranks cannot disagree.
  virtual std::optional<std::string> why_not(LifeStep step) const = 0;

  /// What the step needs and is no part of it, such as an id that all ranks must know. Not for operations.
  virtual void prepare(LifeStep /*step*/) {}
  /// The step itself: what is timed.
  virtual void take(LifeStep step) = 0;
  /// Gives back what the step made and no later one needs.
  virtual void clean_up(LifeStep /*step*/) {}
};

}  // namespace busbar
