#pragma once

#include <string>

namespace busbar {

/// A named range of this thread on the timeline of NVIDIA's tools (NVTX, domain "busbar"), for as long as the object
/// lives. Costs a few nanoseconds where no tool is attached, nothing in a build without NVTX.
class TraceRange {
 public:
#if BUSBAR_HAVE_NVTX
  explicit TraceRange(const char* name);
  explicit TraceRange(const std::string& name) : TraceRange(name.c_str()) {}
  ~TraceRange();
#else
  explicit TraceRange(const char*) {}
  explicit TraceRange(const std::string&) {}
  ~TraceRange() {}
#endif
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace busbar
