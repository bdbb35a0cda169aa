#include "common/measure/result.h"

namespace busbar {

std::string buffer_words(bool in_place, WrongPart part) {
  switch (part) {
    case WrongPart::timed_data:
      return in_place ? "in-place (timed loop)" : "out-of-place recv (timed loop)";
    case WrongPart::checked_data:
      return in_place ? "in-place (check)" : "out-of-place recv (check)";
    case WrongPart::guard_before_recv:
      return in_place ? "guard before buffer" : "guard before recv";
    case WrongPart::guard_after_recv:
      return in_place ? "guard after buffer" : "guard after recv";
    case WrongPart::guard_before_send:
      return "guard before send";
    case WrongPart::guard_after_send:
      return "guard after send";
  }
  return {};
}

}  // namespace busbar
