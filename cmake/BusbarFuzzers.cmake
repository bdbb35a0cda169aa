# The tests of test/fuzz/, one per file and named after it. They are one program, `fuzz NAME`: each file is in a namespace
# of its own, which has its main, and eight are compiled at a time. With BUSBAR_LIBFUZZER each file that includes
# fuzz_main.h is a program of its own, with libFuzzer's main.

file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*.cpp)
set(fuzz_programs "")
set(declarations "")
set(calls "")
foreach(source IN LISTS fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  file(STRINGS "${source}" needs_main REGEX "#include \"fuzz_main.h\"")
  if(BUSBAR_LIBFUZZER AND needs_main)
    add_executable(${name} ${source})
    target_compile_definitions(${name} PRIVATE BUSBAR_LIBFUZZER=1)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    list(APPEND fuzz_programs ${name})
    add_test(NAME ${name} COMMAND ${name} -runs=20000 -seed=1)
  elseif(NOT BUSBAR_LIBFUZZER)
    if(needs_main)
      set(BUSBAR_END_${name} "int main(int argc, char** argv) {
  return fuzz::run({fuzz_one, fuzz_seeds, kFuzzRounds}, argc, argv);\n}\n")
    endif()
    string(APPEND declarations "namespace ${name} {\nint main(int argc, char** argv);\n}\n")
    string(APPEND calls "  if (name == \"${name}\") return ${name}::main(argc - 1, argv + 1);\n")
    add_test(NAME ${name} COMMAND fuzz ${name})
  else()
    continue()
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS fast)
endforeach()

if(calls)
  set(most 1)
  if(BUSBAR_UNITY)
    set(most 8)
  endif()
  busbar_write_batches(fuzz_batches fuzz ${most} ${fuzz_sources})
  set(fuzz_main "${CMAKE_CURRENT_BINARY_DIR}/batches/fuzz.cpp")
  file(CONFIGURE OUTPUT "${fuzz_main}" @ONLY CONTENT "#include <cstdio>
#include <string_view>
@declarations@
int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : \"\";
@calls@
  std::fputs(\"usage: fuzz NAME [ARGUMENT...]; NAME is a file of test/fuzz/, such as fuzz_config\\n\", stderr);
  return 2;
}
")
  add_executable(fuzz ${fuzz_batches} ${fuzz_main})
  list(APPEND fuzz_programs fuzz)
endif()

foreach(program IN LISTS fuzz_programs)
  target_link_libraries(${program} PRIVATE busbar_programs_perf busbar_programs_busbar)
  target_compile_options(${program} PRIVATE ${hardly_waited_for})
  target_include_directories(${program} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" fuzz)
  target_compile_definitions(${program} PRIVATE BUSBAR_TEST_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}")  # seeds
endforeach()
