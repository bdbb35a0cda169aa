# Finds what must be there, and names everything that is missing at once together with the remedy.

set(missing "")

if(NOT MPI_HOME AND DEFINED ENV{MPI_HOME})
  set(MPI_HOME "$ENV{MPI_HOME}")
endif()
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  list(APPEND missing "MPI")
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

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(hwloc QUIET IMPORTED_TARGET hwloc)
endif()
if(NOT TARGET PkgConfig::hwloc)
  list(APPEND missing "hwloc (through pkg-config)")
endif()

find_package(SQLite3 QUIET)
if(NOT SQLite3_FOUND)
  list(APPEND missing "SQLite3")
endif()

# The report's charts: from the distribution's package, embedded at build time.
find_file(BUSBAR_CHART_JS NAMES chart.min.js PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist
          DOC "Chart.js 3, one minified file")
if(NOT BUSBAR_CHART_JS)
  list(APPEND missing "Chart.js (libjs-chart.js; else -DBUSBAR_CHART_JS=FILE)")
else()
  file(READ "${BUSBAR_CHART_JS}" chart_head LIMIT 300)
  if(NOT chart_head MATCHES "Chart\\.js v[34]\\.")  # 2 has other names for nearly everything
    list(APPEND missing "Chart.js 3 or 4 (${BUSBAR_CHART_JS} is none; -DBUSBAR_CHART_JS=FILE)")
  endif()
endif()

if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "Not found: ${missing}.\nOn Debian and Ubuntu, `make deps` (scripts/install-deps.sh) installs "
                      "what is missing; elsewhere it prints the list.")
endif()
