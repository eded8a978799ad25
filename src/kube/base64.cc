#include "kube/base64.h"

#include <openssl/evp.h>

#include <climits>

namespace tessera::kube {

namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool in_alphabet(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  std::string compact;
  compact.reserve(text.size());
  for (const char c : text) {
    if (!is_space(c)) {
      compact.push_back(c);
    }
  }
  std::size_t padding = 0;
  while (padding < 2 && padding < compact.size() && compact[compact.size() - 1 - padding] == '=') {
    ++padding;
  }
  for (std::size_t i = 0; i + padding < compact.size(); ++i) {
    if (!in_alphabet(compact[i])) {
      return fail(ErrorCode::kInvalid, "is not base64: it contains an invalid character");
    }
  }
  if (compact.size() % 4 != 0 || compact.size() > INT_MAX) {
    return fail(ErrorCode::kInvalid, "is not base64: its length is not a multiple of four");
  }
  std::string bytes(compact.size() / 4 * 3, '\0');
  // EVP_DecodeBlock decodes padding to zero bytes, which are removed below.
  const int decoded = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                      reinterpret_cast<const unsigned char*>(compact.data()),
                                      static_cast<int>(compact.size()));
  if (decoded < 0) {
    return fail(ErrorCode::kInvalid, "is not base64");
  }
  bytes.resize(static_cast<std::size_t>(decoded) - padding);
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace tessera::kube
