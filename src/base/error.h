// base/error.h
//
// What went wrong, in words that a person can act on.
//
// An Error is made where the fault is seen and says what is wrong with what. Each caller on the way out may
// put in front what it alone knows, and nothing else:
//
//   return Error(ErrorCode::kInvalid, "annotation ALIYUN_COM_GPU_MEM_IDX is \"x3\", not a GPU index");
//   ...
//   return std::move(error).context("pod ml/train-7");
//   // pod ml/train-7: annotation ALIYUN_COM_GPU_MEM_IDX is "x3", not a GPU index
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// What a caller may do about it. Code branches on this, never on the text.
enum class ErrorCode {
  kInvalid,      // the input is wrong; the same input will fail again
  kNotFound,     // the thing named does not exist
  kConflict,     // somebody else changed it first; read again and retry
  kExhausted,    // it is well-formed, but there is not enough of something
  kDenied,       // not allowed
  kUnavailable,  // the environment failed (network, file system, driver); may heal by itself
  kTimeout,      // no answer in time; what happened at the other end is unknown
  kCancelled,    // we gave it up ourselves
  kUnsupported,  // the thing is real, but this build or machine cannot do it
  kInternal,     // a promise of our own code was broken
};

// "invalid", "not found", ...: for logs and metric labels.
std::string_view to_string(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  // An Error from errno: "open /dev/nvidia0: Permission denied".
  static Error from_errno(std::string_view what, int errno_value);

  [[nodiscard]] ErrorCode code() const { return code_; }

  // The innermost message, without what callers put in front.
  [[nodiscard]] const std::string& message() const { return message_; }

  // What callers put in front, innermost first.
  [[nodiscard]] const std::vector<std::string>& contexts() const { return contexts_; }

  // Puts `what` in front of everything said so far.
  [[nodiscard]] Error context(std::string what) &&;

  // The whole chain, outermost first, joined by ": ".
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Error&, const Error&) = default;

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> contexts_;
};

}  // namespace tessera
