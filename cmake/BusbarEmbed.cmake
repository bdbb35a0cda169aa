# Files as constants in the executables, so that one binary is enough on a cluster's nodes: the shipped plans,
# platforms and rules, the parts of the report's page.
#
#   busbar_embed(ROOM NAME FILE...)
#
# adds to the library of a room the definition of `std::span<const busbar::EmbeddedFile> busbar::embedded_NAME()`
# (common/base/embedded_file.h), one entry per file, named by the last component of its path.
function(busbar_embed room name)
  busbar_compiled_in(target ${room})
  set(source "${PROJECT_BINARY_DIR}/embedded_${name}.cpp")
  set(blobs "")
  set(entries "")
  set(index 0)
  foreach(file IN LISTS ARGN)
    get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
    get_filename_component(short "${file}" NAME)
    set(symbol "busbar_embedded_${name}_${index}")
    # The assembler copies the bytes: no generator, no limit on the length of a literal.
    string(APPEND blobs "asm(\".pushsection .rodata\\n\" \"${symbol}: .incbin \\\"${file}\\\"\\n\" "
                        "\"${symbol}_end: .byte 0\\n\" \".popsection\");\n"
                        "extern \"C\" __attribute__((visibility(\"hidden\"))) const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND entries "      {\"${short}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT
"// Made by cmake/BusbarEmbed.cmake.
#include \"common/base/embedded_file.h\"
#include <array>
@blobs@
namespace busbar {
std::span<const EmbeddedFile> embedded_@name@() {
  static const std::array<EmbeddedFile, @index@> files{{
@entries@  }};
  return files;
}
}  // namespace busbar
")
  # By itself: of a part of a unity file the dependency would be lost, and an edited plan not embedded anew.
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${ARGN}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE "${source}")
endfunction()
