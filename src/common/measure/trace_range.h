#pragma once

#include <string>

namespace busbar {

/// A named range of this thread on the timeline of NVIDIA's tools (NVTX, domain "busbar"), for as long as the object
/// lives. Costs a test and a branch where no tool is attached, nothing in a build without NVTX.
class TraceRange {
 public:
#if BUSBAR_HAVE_NVTX
  explicit TraceRange(const char* name) {
    if (is_watched()) push(name);
  }
  explicit TraceRange(const std::string& name) : TraceRange(name.c_str()) {}
  ~TraceRange() {
    if (is_watched()) pop();
  }
#else
  explicit TraceRange(const char*) {}
  explicit TraceRange(const std::string&) {}
  ~TraceRange() {}
#endif
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

  /// Whether a tool reads the ranges: it attaches when the process starts or not at all.
#if BUSBAR_HAVE_NVTX
  static bool is_watched() {
    static const bool watched = has_domain();
    return watched;
  }
#else
  static bool is_watched() { return false; }
#endif

 private:
#if BUSBAR_HAVE_NVTX
  static bool has_domain();
  static void push(const char* name);
  static void pop();
#endif
};

}  // namespace busbar
