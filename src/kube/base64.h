// kube/base64.h
//
// The base64 of kubeconfig's *-data fields, by OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::kube {

// Standard alphabet with padding; line breaks and spaces are allowed, as base64(1) prints them. kInvalid
// otherwise, without the text: it may be a key.
Result<std::string> decode_base64(std::string_view text);

std::string encode_base64(std::string_view bytes);

}  // namespace tessera::kube
