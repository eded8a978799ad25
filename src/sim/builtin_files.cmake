# Generates builtin_files.cc from the machine descriptions. No description may contain the raw string delimiter.
file(GLOB machine_files CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/sim/machines/*.yaml" "${CMAKE_SOURCE_DIR}/sim/machines/*.topo")
set(entries "")
foreach(file IN LISTS machine_files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\", R\"machine(${text})machine\"},\n")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/builtin_files.cc" CONTENT [=[
#include "sim/builtin_files.h"

#include <array>

namespace tessera::sim {

std::span<const BuiltinFile> builtin_files() {
  static constexpr auto kFiles = std::to_array<BuiltinFile>({
@entries@  });
  return kFiles;
}

}  // namespace tessera::sim
]=] @ONLY)
