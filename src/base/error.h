// base/error.h
//
// An error code for programs and a message that a person can act on.
//
// The code that detects a failure creates the Error and names the thing that is wrong. Each caller
// may prepend the context that only it knows:
//
//   return Error(ErrorCode::kInvalid, "annotation ALIYUN_COM_GPU_MEM_IDX is \"x3\", not an index");
//   ...
//   return std::move(error).context("pod ml/train-7");
//   // pod ml/train-7: annotation ALIYUN_COM_GPU_MEM_IDX is "x3", not an index
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Lets a caller decide how to react. Programs branch on the code, never on the text.
enum class ErrorCode {
  kInvalid,      // the input is wrong; the same input will fail again
  kNotFound,     // the thing named does not exist
  kConflict,     // another client changed the object first; read it again and retry
  kExhausted,    // the input is valid, but a limit or a capacity is exceeded
  kDenied,       // not allowed
  kUnavailable,  // the environment failed (network, file system, driver); a retry may succeed
  kTimeout,      // no response in time; the request may or may not have taken effect
  kCancelled,    // this process cancelled the operation
  kUnsupported,  // this build or machine does not support the operation
  kInternal,     // an invariant of our own code was violated
};

// Returns "invalid", "not found", ...: for logs and metric labels.
std::string_view to_string(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  // Creates an Error from errno: "open /dev/nvidia0: Permission denied".
  static Error from_errno(std::string_view what, int errno_value);

  [[nodiscard]] ErrorCode code() const { return code_; }

  // The original message, without the contexts.
  [[nodiscard]] const std::string& message() const { return message_; }

  // The contexts that callers added, innermost first.
  [[nodiscard]] const std::vector<std::string>& contexts() const { return contexts_; }

  // Prepends `what` to the text.
  [[nodiscard]] Error context(std::string what) &&;

  // Contexts, outermost first, and the message, joined by ": ".
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Error&, const Error&) = default;

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> contexts_;
};

}  // namespace tessera
