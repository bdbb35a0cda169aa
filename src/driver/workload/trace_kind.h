#pragma once

#include <string_view>

namespace busbar {

/// What a file is, by its beginning.
enum class TraceKind : unsigned char { kineto, flight_dump, log, workload, refused, none };

struct RecognizedTrace {
  TraceKind kind = TraceKind::none;
  std::string_view what;     ///< "PyTorch execution trace"
  std::string_view instead;  ///< what to give in its place; empty: nothing to say
};

RecognizedTrace recognize_trace(std::string_view head);

}  // namespace busbar
