// sim/builtin_files.h
//
// The files of sim/machines, embedded when the program is built (builtin_files.cmake generates the
// .cc).
#pragma once

#include <span>
#include <string_view>

namespace tessera::sim {

struct BuiltinFile {
  std::string_view name;  // "dgx1v.yaml"
  std::string_view text;
};

std::span<const BuiltinFile> builtin_files();

}  // namespace tessera::sim
