#include "objects/quantity_field.h"

#include <string>

#include "base/strings.h"

namespace tessera::objects {

void QuantityFields::note(Error error) {
  if (status_) {
    status_ = fail(std::move(error));
  }
}

JsonError QuantityFields::read(std::string_view name, JsonValue value, Quantity& into) {
  std::string_view text;
  JsonError error = read_view(value, text);
  if (error == simdjson::INCORRECT_TYPE) {
    // A plain number: parse it as it is written.
    text = trim(value.raw_json_token());
    error = simdjson::SUCCESS;
  }
  if (error != simdjson::SUCCESS) {
    return error;
  }
  auto quantity = Quantity::parse(text);
  if (quantity) {
    into = *quantity;
  } else {
    note(std::move(quantity).error().context("resource " + in_quotes(name)));
  }
  return error;
}

JsonError QuantityFields::read_milli(std::string_view name, JsonValue value, std::int64_t& into) {
  Quantity quantity;
  const JsonError error = read(name, value, quantity);
  auto milli = quantity.milli();
  if (milli) {
    into = *milli;
  } else {
    note(std::move(milli).error().context("resource " + in_quotes(name)));
  }
  return error;
}

JsonError QuantityFields::read_whole(std::string_view name, JsonValue value, std::int64_t& into) {
  Quantity quantity;
  const JsonError error = read(name, value, quantity);
  into = quantity.rounded_up();
  return error;
}

}  // namespace tessera::objects
