# cmake --install (make install, make deb): programs, the tuner plugin, Gloo's module, plans, platforms, examples, man
# pages, completions, the manual. Programs find modules next to themselves or in lib; plans and platforms are in them,
# those installed are to edit.
# Version, description and licence for packages stand here alone.

# From the programs' own --help; where Python is missing they are left out, and said.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(manual "${PROJECT_BINARY_DIR}/manual")
  add_custom_command(
    OUTPUT "${manual}/made"
    COMMAND "${CMAKE_COMMAND}" -E env "BUSBAR_NAME_SUFFIX=${NAME_SUFFIX}" "${Python3_EXECUTABLE}"
            "${PROJECT_SOURCE_DIR}/packaging/manual.py" "${PROJECT_BINARY_DIR}" "${manual}" "${PROJECT_VERSION}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${manual}/made"
    DEPENDS busbar ${busbar_perf_targets} "${PROJECT_SOURCE_DIR}/packaging/manual.py"
    COMMENT "Making man pages and completions")
  set(with_all ALL)
  if(BUSBAR_SANITIZE OR BUSBAR_LIBFUZZER)  # what these find is for the tests to tell
    set(with_all "")
  endif()
  add_custom_target(manual ${with_all} DEPENDS "${manual}/made")
  install(DIRECTORY "${manual}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}" OPTIONAL)
  install(DIRECTORY "${manual}/bash/" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" OPTIONAL)
  install(DIRECTORY "${manual}/zsh/" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" OPTIONAL)
else()
  message(STATUS "No Python: man pages and completions are not made")
  add_custom_target(manual)
endif()

# The build tree gets the search path of the installed programs at once. Where CMake is to rewrite it on installing, it
# pads it with ':', and the loader reads an empty element as the working directory.
set_target_properties(${busbar_perf_targets} busbar PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
                                                                            BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS ${busbar_perf_targets} busbar busbar_look_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS busbar_tuner LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(module IN ITEMS busbar_gloo busbar_mpi)
  if(TARGET ${module})
    set_target_properties(${module} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
    install(TARGETS ${module} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()
install(DIRECTORY configs packaging/grafana packaging/kubernetes packaging/launch packaging/slurm
        DESTINATION "${CMAKE_INSTALL_DATADIR}/busbar" USE_SOURCE_PERMISSIONS)
install(FILES README.md LICENSE packaging/third_party.txt DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "the busbar authors")
set(CPACK_PACKAGE_CONTACT "the busbar authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Benchmarks and acceptance of clusters by collective communication")
set(CPACK_PACKAGE_DESCRIPTION "nccl-tests' benchmarks over NCCL and MPI, with checked data and honest intervals;
acceptance of clusters, the slow node or link by name, hangs with the rank to blame.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(BUSBAR_MPI_NAME STREQUAL "openmpi")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
elseif(BUSBAR_MPI_NAME STREQUAL "mpich")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "mpich")
endif()
include(CPack)
