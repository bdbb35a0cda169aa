# A static library of each room in src/rooms.txt, `busbar_` and its path with underscores, which links the rooms that it
# may include. A program waits for those that it links and for nothing else.
#
# With BUSBAR_UNITY the files of a room are compiled several at a time, which takes a third of the CPU time of a build
# from nothing. Who edits wants it off: then one file is compiled again and not its neighbours.

option(BUSBAR_UNITY "Compile several files of a room at a time" ON)
set(BUSBAR_UNITY_BATCH 24 CACHE STRING "How many, at most")

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
      add_library(${library} STATIC ${sources})
      target_include_directories(${library} PUBLIC "${PROJECT_SOURCE_DIR}/src")
      set_target_properties(${library} PROPERTIES UNITY_BUILD ${BUSBAR_UNITY}
                                                  UNITY_BUILD_BATCH_SIZE ${BUSBAR_UNITY_BATCH})
    endif()
  endif()
  if(room STREQUAL "core")
    target_link_libraries(${library} INTERFACE ${allowed})
  elseif(NOT room STREQUAL "plugins")
    target_link_libraries(${library} PUBLIC ${allowed})
  endif()
endforeach()

# A room's files that match `needing` need a library, which the room links. Without its target the file `instead`, if
# there is one, is compiled in their place, and with it that one is not.
function(busbar_room_needs target library needing instead)
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
