#include "base/error.h"

#include <cerrno>
#include <ranges>
#include <system_error>

namespace tessera {

namespace {

ErrorCode code_of_errno(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENODEV:
    case ESRCH:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kDenied;
    case EEXIST:
      return ErrorCode::kConflict;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return ErrorCode::kInvalid;
    case ETIMEDOUT:
      return ErrorCode::kTimeout;
    case ECANCELED:
      return ErrorCode::kCancelled;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ErrorCode::kExhausted;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kUnavailable;
  }
}

}  // namespace

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kDenied:
      return "denied";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error Error::from_errno(std::string_view what, int errno_value) {
  std::string text(what);
  text += ": ";
  text += std::generic_category().message(errno_value);
  return {code_of_errno(errno_value), std::move(text)};
}

Error Error::context(std::string what) && {
  contexts_.push_back(std::move(what));
  return std::move(*this);
}

std::string Error::text() const {
  std::string whole;
  for (const std::string& context : std::ranges::reverse_view(contexts_)) {
    whole += context;
    whole += ": ";
  }
  whole += message_;
  return whole;
}

}  // namespace tessera
