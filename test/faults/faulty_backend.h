#pragma once

#include "common/backends/backend.h"

#include <memory>
#include <string>
#include <string_view>

namespace busbar {

/// What goes wrong, on which rank, in which call (counted from 0 over everything that is enqueued), and again after
/// every so many calls.
struct Fault {
  enum class Kind {
    flip,     ///< one bit of the result
    drop,     ///< the rank sends nothing: the op's neutral element, or bytes that nobody sent
    doubled,  ///< the rank's contribution counts twice (sum, prod)
    shift,    ///< the result lies one element too far
    overrun,  ///< 16 bytes after the receive buffer are written
    stale,    ///< the result of the call before
    fail,     ///< the call throws
    stall,    ///< the call never returns
    late,     ///< this call and all later ones leave 300 us late, so that the rank comes late to the next
  };
  Kind kind = Kind::flip;
  int rank = 0;
  int call = 0;
  int every = 0;  ///< 0: once
};

/// "flip:1:3" or "flip:1:3+4": kind, rank, call, every so many calls. Throws std::invalid_argument naming the kinds.
Fault parse_fault(std::string_view text);

/// A backend that works but for one fault: how the suite's own detectors are tested.
std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, const Fault& fault);

}  // namespace busbar
