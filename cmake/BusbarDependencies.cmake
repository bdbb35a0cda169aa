# Finds what must be there, and names everything that is missing at once together with the remedy.

set(missing "")

# Distributions keep several MPIs beside each other and append their names to the programs' (mpicc.mpich).
set(BUSBAR_MPI "" CACHE STRING "Which MPI: openmpi, mpich; empty: MPI_HOME's, else the one that the system calls mpicc")
set_property(CACHE BUSBAR_MPI PROPERTY STRINGS "" openmpi mpich)
if(NOT BUSBAR_MPI MATCHES "^(openmpi|mpich)?$")
  message(FATAL_ERROR "BUSBAR_MPI is ${BUSBAR_MPI}; choose from openmpi, mpich; MPI_HOME names any other's folder")
endif()
if(NOT MPI_HOME AND DEFINED ENV{MPI_HOME})
  set(MPI_HOME "$ENV{MPI_HOME}")
endif()
if(BUSBAR_MPI AND NOT MPI_HOME)
  find_program(MPI_C_COMPILER mpicc.${BUSBAR_MPI})
  find_program(MPIEXEC_EXECUTABLE mpiexec.${BUSBAR_MPI})
endif()
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  list(APPEND missing "MPI")
else()
  # What it is, as the bundle is to be called.
  find_file(mpi_header mpi.h HINTS ${MPI_C_INCLUDE_DIRS} NO_CACHE)
  file(STRINGS "${mpi_header}" mpi_marks REGEX "define +(OMPI_MAJOR_VERSION|MPICH_VERSION|I_MPI_VERSION)")
  set(mpi_name "mpi")
  foreach(mark IN ITEMS OMPI_MAJOR_VERSION=openmpi MPICH_VERSION=mpich I_MPI_VERSION=intelmpi)
    string(REPLACE "=" ";" mark "${mark}")
    list(POP_FRONT mark macro)
    if(mpi_marks MATCHES "${macro}")
      set(mpi_name "${mark}")
    endif()
  endforeach()
  set(BUSBAR_MPI_NAME "${mpi_name}" CACHE INTERNAL "What the MPI found is")
  message(STATUS "MPI: ${mpi_name}, ${MPIEXEC_EXECUTABLE}")
  if(BUSBAR_MPI AND NOT BUSBAR_MPI STREQUAL mpi_name)
    list(APPEND missing "${BUSBAR_MPI} (${mpi_header} is ${mpi_name}'s; `make deps MPI=${BUSBAR_MPI}`, or MPI_HOME)")
  endif()
endif()

find_package(Threads REQUIRED)

foreach(package IN ITEMS fmt nlohmann_json)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
# What a build can do without: a file no_*.cpp then stands for those that need the library (busbar_room_needs).
option(BUSBAR_OPTIONAL_LIBRARIES
       "Use yaml-cpp, Boost.Math, hwloc, RE2, libarchive, OpenSSL, SQLite and Chart.js where they are found" ON)
set(left_out "")
if(BUSBAR_OPTIONAL_LIBRARIES)
  find_package(PkgConfig QUIET)
  foreach(library IN ITEMS hwloc re2 libarchive)  # Debian's have no CMake configuration
    if(PkgConfig_FOUND)
      pkg_check_modules(${library} QUIET IMPORTED_TARGET ${library})
    endif()
  endforeach()
  find_package(yaml-cpp QUIET)
  if(yaml-cpp_FOUND AND NOT TARGET yaml-cpp::yaml-cpp)  # the name from 0.8 on
    add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
  endif()
  # Its headers alone: Boost's own configuration would be that of all its libraries.
  find_path(BUSBAR_BOOST_INCLUDE_DIR boost/math/distributions/students_t.hpp)
  if(BUSBAR_BOOST_INCLUDE_DIR)
    add_library(busbar_boost_math INTERFACE)
    target_include_directories(busbar_boost_math SYSTEM INTERFACE "${BUSBAR_BOOST_INCLUDE_DIR}")
  endif()
  find_package(OpenSSL QUIET)
  find_package(SQLite3 QUIET)
  # The report's charts: from the distribution's package, embedded at build time. A tarball of `make dist` brings it.
  find_file(BUSBAR_CHART_JS NAMES chart.min.js PATHS "${PROJECT_SOURCE_DIR}/packaging" /usr/share/javascript/chart.js
            /usr/share/nodejs/chart.js/dist DOC "Chart.js 3, one minified file")
else()
  set(BUSBAR_CHART_JS "")
endif()
foreach(optional IN ITEMS "yaml-cpp::yaml-cpp=yaml-cpp (--config, accept, doctor)"
                          "busbar_boost_math=Boost.Math (our own code takes its place)" "PkgConfig::hwloc=hwloc (--topology)" "PkgConfig::re2=RE2 (diagnose)"
                          "PkgConfig::libarchive=libarchive (diagnose)" "SQLite::SQLite3=SQLite3 (--history, history)"
                          "OpenSSL::Crypto=libcrypto (our own code takes its place)")
  string(REGEX MATCH "^(.*)=(.*)$" found "${optional}")
  if(NOT TARGET ${CMAKE_MATCH_1})
    list(APPEND left_out "${CMAKE_MATCH_2}")
  endif()
endforeach()
if(NOT BUSBAR_CHART_JS)
  set(BUSBAR_CHART_JS "")
  list(APPEND left_out "Chart.js (charts of reports, else -DBUSBAR_CHART_JS=FILE)")
else()
  file(READ "${BUSBAR_CHART_JS}" chart_head LIMIT 300)
  if(NOT chart_head MATCHES "Chart\\.js v[34]\\.")  # 2 has other names for nearly everything
    list(APPEND missing "Chart.js 3 or 4 (${BUSBAR_CHART_JS} is none; -DBUSBAR_CHART_JS=FILE)")
  endif()
endif()

# Not needed: without it there is no libbusbar_gloo.so, and --backend gloo says so.
option(BUSBAR_GLOO "Build libbusbar_gloo.so, for --backend gloo, where Gloo is found" ON)
set(BUSBAR_HAVE_GLOO OFF)
if(BUSBAR_GLOO)
  find_path(BUSBAR_GLOO_INCLUDE_DIR gloo/reduce_scatter.h)
  find_library(BUSBAR_GLOO_LIBRARY gloo)
  if(BUSBAR_GLOO_INCLUDE_DIR AND BUSBAR_GLOO_LIBRARY)
    set(BUSBAR_HAVE_GLOO ON)
  else()
    message(STATUS "No Gloo, so no libbusbar_gloo.so: --backend gloo will say so (Debian: libgloo-dev, `make deps`)")
  endif()
endif()

if(left_out)
  list(JOIN left_out ", " words)
  message(STATUS "Built without: ${words}. What needs them will say so; `make deps` installs them")
endif()

if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "Not found: ${missing}.\nOn Debian and Ubuntu, `make deps` (scripts/install-deps.sh) installs "
                      "what is missing; elsewhere it prints the list.")
endif()
