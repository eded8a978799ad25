// base/version.h
//
// The one version number of all Tessera programs; CMake's project() sets it.
#pragma once

#include <string_view>

namespace tessera {

std::string_view version();

}  // namespace tessera
