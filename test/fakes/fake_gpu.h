#pragma once

#include <functional>

struct CUstream_st;

namespace fake_gpu {

/// Work at the head of a stream: tries to go on and says whether it is over.
using Work = std::function<bool()>;

/// Appends the work that `make` makes to a stream, or to the graph that the stream captures, which makes it anew at
/// every launch.
void push(CUstream_st* stream, std::function<Work()> make);

}  // namespace fake_gpu
