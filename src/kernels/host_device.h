#pragma once

/// Marks what nvcc compiles for the host and for the GPU.
#if defined(__CUDACC__)
#define BUSBAR_HD __host__ __device__
#else
#define BUSBAR_HD
#endif
