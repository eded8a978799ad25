// base/version.h
//
// The version of all Tessera programs, set by project() in CMake.
#pragma once

#include <string_view>

namespace tessera {

std::string_view version();

}  // namespace tessera
