// kube/base64.h
//
// Base64, as in the *-data fields of a kubeconfig.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::kube {

// Decodes the standard alphabet with padding. Line breaks and spaces are allowed, as base64(1)
// prints them. Returns kInvalid for other text. The error message does not quote the text, which
// may be a key.
Result<std::string> decode_base64(std::string_view text);

std::string encode_base64(std::string_view bytes);

}  // namespace tessera::kube
