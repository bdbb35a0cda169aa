# CUDA is used wherever the toolkit and NCCL's header are found; neither a driver nor libnccl is needed to build (the
# backend opens libnccl at run time, so that the same executable starts on machines without it).

set(CUDA_HOME "$ENV{CUDA_HOME}" CACHE PATH "CUDA toolkit, where it is not /usr/local/cuda or on PATH")
set(NCCL_HOME "$ENV{NCCL_HOME}" CACHE PATH "NCCL, where its header is not with CUDA's or in /usr/include")
set(NVCC_GENCODE "" CACHE STRING "nvcc -gencode flags, as in nccl-tests; empty: sm_80, sm_90 and PTX of 90")
option(BUSBAR_CUDA "Use CUDA and NCCL where they are found" ON)

set(BUSBAR_HAVE_CUDA FALSE)
set(BUSBAR_HAVE_NVTX FALSE)
if(BUSBAR_CUDA)
  find_program(BUSBAR_NVCC nvcc HINTS "${CUDA_HOME}/bin" /usr/local/cuda/bin)
  if(BUSBAR_NVCC)
    get_filename_component(cuda_root "${BUSBAR_NVCC}" REALPATH)
    get_filename_component(cuda_root "${cuda_root}/../.." ABSOLUTE)
  endif()
  find_path(BUSBAR_NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_HOME}/include" "${CUDA_HOME}/include" "${cuda_root}/include"
            /usr/local/cuda/include)
endif()

if(BUSBAR_NVCC AND BUSBAR_NCCL_INCLUDE_DIR)
  # Each architecture multiplies the build time, so only those that the suite meets, plus PTX for newer ones.
  if(NVCC_GENCODE)
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    string(APPEND CMAKE_CUDA_FLAGS " ${NVCC_GENCODE}")
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
  endif()
  set(CMAKE_CUDA_COMPILER "${BUSBAR_NVCC}")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)  # only now: it would break CMake's own test of the compiler
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CUDAToolkit_ROOT "${cuda_root}")
  find_package(CUDAToolkit REQUIRED)
  set(BUSBAR_HAVE_CUDA TRUE)
  find_path(BUSBAR_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(BUSBAR_NVTX_INCLUDE_DIR)
    set(BUSBAR_HAVE_NVTX TRUE)
  endif()
  message(STATUS "CUDA build: toolkit ${CUDAToolkit_VERSION}, NCCL header in ${BUSBAR_NCCL_INCLUDE_DIR}")
else()
  message(STATUS "CPU-only build: no CUDA toolkit (or NCCL headers) found")
endif()
