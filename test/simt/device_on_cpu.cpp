// The kernels themselves, taken by the host's compiler.
#include "kernels/device.cu"
