// base/result.h
//
// A value or the reason why there is none. No exception crosses an interface of ours: where a library
// throws, the file that calls it catches and returns an Error.
//
//   Result<Inventory> read_inventory(std::string_view json);
//
//   Result<int> units_of(std::string_view json) {
//     const Inventory inventory = TRY(read_inventory(json));     // returns the Error to our caller
//     TRY(check(inventory));                                     // a Status: nothing to keep
//     return inventory.units;
//   }
//
//   Inventory i = TRY(with_context(read_inventory(json), "node gpu-a"));
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace tessera {

template <class T>
using Result = tl::expected<T, Error>;

// Success, or the reason why not.
using Status = Result<void>;

// An Error on its way into a Result, built in one go: return fail(ErrorCode::kInvalid, "...");
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Puts `what` in front of the error, if there is one. `what` is built either way; on a hot path ask
// has_value() first.
template <class T>
[[nodiscard]] Result<T> with_context(Result<T> result, std::string what) {
  if (!result) {
    return fail(std::move(result).error().context(std::move(what)));
  }
  return result;
}

// What TRY leaves behind: the value, or nothing for a Status.
template <class T>
T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) {
    return std::move(result).value();
  }
}

}  // namespace tessera

// The value of a Result, or leave this function with its Error. A statement expression: g++ and clang, the
// two compilers we build with, both have it.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is an expression and is used once.
#define TRY(expression)                                              \
  ({                                                                 \
    auto tessera_try_result = (expression);                          \
    if (!tessera_try_result) {                                       \
      return ::tessera::fail(std::move(tessera_try_result).error()); \
    }                                                                \
    ::tessera::take_value(std::move(tessera_try_result));            \
  })
// NOLINTEND(bugprone-macro-parentheses)
