#pragma once

// What NCCL's plugin interfaces share. Own declarations of a binary interface, so that plugins build without NCCL and
// run with any version of it: NCCL's enums travel as int, its result codes too.

namespace busbar {

using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0;

inline constexpr int kNcclLogWarn = 2;
inline constexpr int kNcclLogInfo = 3;
inline constexpr unsigned long kNcclLogTuning = 0x40;  ///< subsystem TUNING
inline constexpr unsigned long kNcclLogAll = ~0ul;

/// NCCL's own log, by level and subsystem; honours NCCL_DEBUG and the like.
using NcclLogger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

}  // namespace busbar

/// A variable that NCCL looks up by name: outside namespaces, whose names are mangled, and not const, which would keep
/// it out of the symbol table.
#define BUSBAR_NCCL_SYMBOL __attribute__((visibility("default")))
