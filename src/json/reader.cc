#include "json/reader.h"

#include <fmt/core.h>

namespace tessera::json {

Error json_error(simdjson::error_code error, std::string_view what) {
  const bool ours = error == simdjson::MEMALLOC || error == simdjson::UNINITIALIZED ||
                    error == simdjson::OUT_OF_ORDER_ITERATION || error == simdjson::PARSER_IN_USE ||
                    error == simdjson::INSUFFICIENT_PADDING || error == simdjson::UNEXPECTED_ERROR;
  return {ours ? ErrorCode::kInternal : ErrorCode::kInvalid,
          fmt::format("{}: {}", what, simdjson::error_message(error))};
}

Result<simdjson::ondemand::document> OnDemandReader::read(PaddedView text, std::string_view what) {
  simdjson::ondemand::document document;
  const simdjson::error_code error =
      parser_.iterate(text.data(), text.size(), text.size() + kPadding).get(document);
  if (error != simdjson::SUCCESS) {
    return fail(json_error(error, what));
  }
  return document;
}

Result<simdjson::dom::element> CheckedReader::read(PaddedView text, std::string_view what) {
  // The parser grows with the text and takes its depth only when it grows, so both are set together.
  if (text.size() > parser_.capacity() || parser_.max_depth() != max_depth_) {
    if (const auto error = parser_.allocate(std::max<std::size_t>(text.size(), 4096), max_depth_);
        error != simdjson::SUCCESS) {
      return fail(json_error(error, what));
    }
  }
  simdjson::dom::element element;
  const simdjson::error_code error =
      parser_.parse(text.data(), text.size(), /*realloc_if_needed=*/false).get(element);
  if (error != simdjson::SUCCESS) {
    return fail(json_error(error, what));
  }
  return element;
}

}  // namespace tessera::json
