// json/reader.h
//
// simdjson on padded buffers, with its parsers used again. Includes simdjson: for .cc files only.
//
//   OnDemandReader   for peers we trust (kube-scheduler, the API server): the text is looked at as it is
//   walked
//                    through, and what nobody asks for is not checked;
//   CheckedReader    for everybody else: the whole text is valid JSON, or there is no document.
//
// A reader keeps one document: reading the next one ends the last. One thread.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::json {

// kInvalid for a text that is not what was expected: "the request's body: ...". kInternal when simdjson has
// no memory or was called wrongly.
Error json_error(simdjson::error_code error, std::string_view what);

class OnDemandReader {
 public:
  // The document at its beginning. Only the outermost brackets have been looked at; every later step may
  // still fail. `what` names the text in errors.
  Result<simdjson::ondemand::document> read(PaddedView text, std::string_view what);

 private:
  simdjson::ondemand::parser parser_;
};

class CheckedReader {
 public:
  // Nothing that nests deeper than `max_depth` is read, so that who walks through it may recurse.
  explicit CheckedReader(std::size_t max_depth = 64) : max_depth_(max_depth) {}

  // Valid until the next read(), and independent of `text`.
  Result<simdjson::dom::element> read(PaddedView text, std::string_view what);

 private:
  std::size_t max_depth_;
  simdjson::dom::parser parser_;
};

}  // namespace tessera::json
