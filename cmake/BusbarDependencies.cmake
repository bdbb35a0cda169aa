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

foreach(package IN ITEMS fmt yaml-cpp nlohmann_json)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
if(TARGET yaml-cpp::yaml-cpp)  # the name from 0.8 on
  set(YAML_CPP_LIBRARIES yaml-cpp::yaml-cpp)
else()
  set(YAML_CPP_LIBRARIES yaml-cpp)
endif()

# Its headers alone: Boost's own configuration would be that of all its libraries.
find_path(BUSBAR_BOOST_INCLUDE_DIR boost/math/distributions/students_t.hpp)
if(NOT BUSBAR_BOOST_INCLUDE_DIR)
  list(APPEND missing "Boost.Math (headers)")
endif()

find_package(PkgConfig QUIET)
foreach(library IN ITEMS hwloc re2 libarchive)  # Debian's have no CMake configuration
  if(PkgConfig_FOUND)
    pkg_check_modules(${library} QUIET IMPORTED_TARGET ${library})
  endif()
  if(NOT TARGET PkgConfig::${library})
    list(APPEND missing "${library} (through pkg-config)")
  endif()
endforeach()

find_package(OpenSSL QUIET)
if(NOT TARGET OpenSSL::Crypto)
  list(APPEND missing "libcrypto (OpenSSL's, with headers)")
endif()

find_package(SQLite3 QUIET)
if(NOT SQLite3_FOUND)
  list(APPEND missing "SQLite3")
endif()

# The report's charts: from the distribution's package, embedded at build time. A tarball of `make dist` brings it.
find_file(BUSBAR_CHART_JS NAMES chart.min.js PATHS "${PROJECT_SOURCE_DIR}/packaging" /usr/share/javascript/chart.js
          /usr/share/nodejs/chart.js/dist DOC "Chart.js 3, one minified file")
if(NOT BUSBAR_CHART_JS)
  list(APPEND missing "Chart.js (libjs-chart.js; else -DBUSBAR_CHART_JS=FILE)")
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

if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "Not found: ${missing}.\nOn Debian and Ubuntu, `make deps` (scripts/install-deps.sh) installs "
                      "what is missing; elsewhere it prints the list.")
endif()
