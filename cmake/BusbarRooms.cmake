# A static library of each room in src/rooms.txt, `busbar_` and its path with underscores, which links the rooms that it
# may include. A program waits for those that it links and for nothing else.
#
# With BUSBAR_UNITY the files of a room are compiled several at a time, which takes a third of the CPU time of a build
# from nothing. Who edits wants it off: then one file is compiled again and not its neighbours.
#
# A room of driver/ includes as much as it has code of its own, and only `busbar` links them: with BUSBAR_UNITY those that
# take the same options are one library, and the library of such a room is another name for it.

option(BUSBAR_UNITY "Compile several files of a room at a time" ON)
set(BUSBAR_UNITY_BATCH 24 CACHE STRING "How many, at most")
# The libraries that read logs and results in bulk.
set(busbar_reads_in_bulk "_(diagnose|driver_bulk|formats|history|merge|output|readers|record|report|rules|workload)$")

# The library in which the files of a room's library are compiled.
function(busbar_compiled_in result library)
  set(compiled_in ${library})
  if(TARGET ${library})
    get_target_property(other ${library} ALIASED_TARGET)
    if(other)
      set(compiled_in ${other})
    endif()
  elseif(BUSBAR_UNITY AND library MATCHES "^busbar_(driver_|programs_busbar)")
    set(compiled_in busbar_driver_rest)
    if(library MATCHES "${busbar_reads_in_bulk}")
      set(compiled_in busbar_driver_bulk)
    endif()
  endif()
  set(${result} ${compiled_in} PARENT_SCOPE)
endfunction()

# The libraries of rooms that a line of the table names; `core` is an alias for several.
function(busbar_room_libraries result)
  set(libraries "")
  foreach(room IN LISTS ARGN)
    string(REPLACE "/" "_" name "${room}")
    list(APPEND libraries "busbar_${name}")
  endforeach()
  set(${result} "${libraries}" PARENT_SCOPE)
endfunction()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/rooms.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/src/rooms.txt" lines REGEX "^[a-z]")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([a-z/]+): *(.*)$" _ "${line}")
  set(room "${CMAKE_MATCH_1}")
  string(REGEX REPLACE " +" ";" allowed "${CMAKE_MATCH_2}")
  busbar_room_libraries(library ${room})
  busbar_room_libraries(allowed ${allowed})
  busbar_compiled_in(compiled_in ${library})
  if(NOT TARGET ${library})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "src/${room}/*.cpp")
    list(FILTER sources EXCLUDE REGEX "_main\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "/(gloo|mpi)/library/")  # modules of their own
    if(NOT BUSBAR_HAVE_CUDA)
      list(FILTER sources EXCLUDE REGEX "/backends/nccl/cuda/")
    endif()
    if(room STREQUAL "core")
      add_library(${library} INTERFACE)
    elseif(room STREQUAL "plugins")
      continue()  # their objects, not a library: nothing but NCCL refers to them
    else()
      if(NOT TARGET ${compiled_in})
        add_library(${compiled_in} STATIC)
        target_include_directories(${compiled_in} PUBLIC "${PROJECT_SOURCE_DIR}/src")
        set_target_properties(${compiled_in} PROPERTIES UNITY_BUILD ${BUSBAR_UNITY}
                                                        UNITY_BUILD_BATCH_SIZE ${BUSBAR_UNITY_BATCH})
      endif()
      target_sources(${compiled_in} PRIVATE ${sources})
      if(NOT compiled_in STREQUAL library)
        add_library(${library} ALIAS ${compiled_in})
      endif()
    endif()
  endif()
  if(room STREQUAL "core")
    target_link_libraries(${library} INTERFACE ${allowed})
  elseif(NOT room STREQUAL "plugins")
    foreach(other IN LISTS allowed)
      busbar_compiled_in(other ${other})
      if(NOT other STREQUAL compiled_in)
        target_link_libraries(${compiled_in} PUBLIC ${other})
      endif()
    endforeach()
  endif()
endforeach()

# A room's files that match `needing` need a library, which the room links. Without its target the file `instead`, if
# there is one, is compiled in their place, and with it that one is not.
function(busbar_room_needs room library needing instead)
  busbar_compiled_in(target ${room})
  get_target_property(sources ${target} SOURCES)
  if(TARGET ${library})
    target_link_libraries(${target} PRIVATE ${library})
    list(FILTER sources EXCLUDE REGEX "/${instead}$")
  else()
    set(stand_in ${sources})
    list(FILTER stand_in INCLUDE REGEX "/${instead}$")
    list(FILTER sources EXCLUDE REGEX "${needing}")
    list(APPEND sources ${stand_in})
  endif()
  list(REMOVE_DUPLICATES sources)
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()
