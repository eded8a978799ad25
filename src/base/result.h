// base/result.h
//
// Result<T> is a value or an Error. Our interfaces do not throw: code that calls a throwing library
// catches the exception and returns an Error.
//
//   Result<Inventory> read_inventory(std::string_view json);
//
//   Result<int> units_of(std::string_view json) {
//     const Inventory inventory = TRY(read_inventory(json));  // on failure: returns the Error
//     TRY(check(inventory));                                  // a Status has no value
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

// Success or an Error.
using Status = Result<void>;

// Creates an Error that converts to any Result: return fail(ErrorCode::kInvalid, "...");
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Prepends `what` to the error, if there is one. `what` is built even if there is no error. On a
// hot path, check has_value() first.
template <class T>
[[nodiscard]] Result<T> with_context(Result<T> result, std::string what) {
  if (!result) {
    return fail(std::move(result).error().context(std::move(what)));
  }
  return result;
}

// Returns the value of a successful Result, or nothing for a Status. Used by TRY.
template <class T>
T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) {
    return std::move(result).value();
  }
}

}  // namespace tessera

// Evaluates to the value of a Result, or returns its Error from the enclosing function. This is a
// statement expression, an extension that both of our compilers (g++ and clang) support.
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
