# BUSBAR_COLLECTIVES: the names in src/collectives/collective_list.h, which the code and the tests read too.

set(collective_list "${PROJECT_SOURCE_DIR}/src/collectives/collective_list.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${collective_list}")
# Not line by line: the backslash that ends a line would take CMake's list separator with it.
file(READ "${collective_list}" collective_list_text)
string(REGEX MATCHALL "\n +COLLECTIVE\\([a-z_0-9]+," BUSBAR_COLLECTIVES "${collective_list_text}")
list(TRANSFORM BUSBAR_COLLECTIVES REPLACE ".*\\(([a-z_0-9]+)," "\\1")
list(LENGTH BUSBAR_COLLECTIVES collective_count)
if(collective_count EQUAL 0)
  message(FATAL_ERROR "no collectives in ${collective_list}")
endif()
