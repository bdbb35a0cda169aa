# Compiler flags of the whole project. Presets and the Makefile only choose among what is declared here.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
# -O2: only the kernels gain from -O3 (they ask for it themselves), everything else merely compiles more slowly.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# For code that computes little: compiled in three fifths of the time (-O1: three quarters).
set(BUSBAR_FLAGS_NOT_FOR_SPEED $<$<CONFIG:Release>:-Og>)

# g++ collects its garbage at 128 MB, which takes a tenth of the time of a file that needs a gigabyte anyway. Where each
# core has memory for it, it may wait for a gigabyte.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_of_a_core "${memory} / ${cores}")  # MiB
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND memory_of_a_core GREATER 4096)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1048576>")
endif()

# For code with __FILE__: what is shipped does not name the folder in which it was built.
set(BUSBAR_FLAGS_FOR_FILE "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")

# Several files are compiled at a time (BUSBAR_UNITY), and a program gets of them what it calls.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:C,CXX>:-fdata-sections>)
add_link_options(LINKER:--gc-sections)

# Werror for switch only: a new collective, dtype or op must be handled wherever one is switched over.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wshadow> $<$<COMPILE_LANGUAGE:CXX>:-Werror=switch>
                    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Werror=switch>)

set(BUSBAR_SANITIZE OFF CACHE STRING "OFF, address (and undefined behaviour) or thread")
set_property(CACHE BUSBAR_SANITIZE PROPERTY STRINGS OFF address thread)
if(BUSBAR_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(BUSBAR_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
elseif(BUSBAR_SANITIZE)
  message(FATAL_ERROR "BUSBAR_SANITIZE is ${BUSBAR_SANITIZE}; choose from OFF, address, thread")
endif()
if(BUSBAR_SANITIZE)
  # g++ 12 believes the instrumented standard library to be uninitialised.
  foreach(flag IN LISTS sanitizers ITEMS -Wno-maybe-uninitialized -fno-omit-frame-pointer -O1)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${flag}>)
  endforeach()
  add_link_options(${sanitizers})
endif()

# For libFuzzer to see which way an input takes, everything must be instrumented: a build folder of its own, with
#   cmake -B FOLDER -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DBUSBAR_LIBFUZZER=ON -DBUSBAR_CUDA=OFF
option(BUSBAR_LIBFUZZER "Make test/fuzz/ for libFuzzer, with the address sanitizer (clang only)" OFF)
if(BUSBAR_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "BUSBAR_LIBFUZZER needs clang: -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=address,undefined)
endif()

find_program(BUSBAR_CCACHE ccache)
if(BUSBAR_CCACHE)
  foreach(language IN ITEMS C CXX CUDA)
    # Paths below the sources count as relative: several build folders of one checkout, as CI's, share what is compiled.
    set(CMAKE_${language}_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
                                            "${BUSBAR_CCACHE}")
  endforeach()
endif()
