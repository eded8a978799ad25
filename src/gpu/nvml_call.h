// gpu/nvml_call.h
//
// Nvml::call, which makes every call into the library. Only the source files of Nvml include this.
#pragma once

#include <string_view>

#include "gpu/nvml.h"

namespace tessera::gpu {

template <class... Parameters, class... Arguments>
NvmlStatus Nvml::call(std::string_view name, abi::Return (*function)(Parameters...), Arguments... arguments) {
  if (function == nullptr) {
    return tl::unexpected(make_error(abi::kFunctionNotFound, name));
  }
  monitor_->begin(name);
  const abi::Return code = function(arguments...);
  const bool answered = code == abi::kSuccess || code == abi::kNotSupported || code == abi::kTimeout ||
                        code == abi::kInsufficientSize || code == abi::kInvalidArgument ||
                        code == abi::kFunctionNotFound || code == abi::kNotFound;
  monitor_->end(!answered);
  if (code != abi::kSuccess) {
    return tl::unexpected(make_error(code, name));
  }
  return {};
}

}  // namespace tessera::gpu
