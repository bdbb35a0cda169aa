# BUSBAR_COLLECTIVES: the names in src/collectives/collective_list.h, which the code and the tests read too.

set(collective_list "${PROJECT_SOURCE_DIR}/src/collectives/collective_list.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${collective_list}")
file(STRINGS "${collective_list}" BUSBAR_COLLECTIVES REGEX "^ +COLLECTIVE\\(")
list(TRANSFORM BUSBAR_COLLECTIVES REPLACE "^ +COLLECTIVE\\(([a-z_0-9]+),.*" "\\1")
