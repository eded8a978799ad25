// append_quoted() turns any bytes into JSON that Boost.JSON and simdjson both accept, and both
// read the same string from it.
#include <simdjson.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "json/escape.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static simdjson::dom::parser parser;
  std::string quoted;
  tessera::json::append_quoted(quoted, {reinterpret_cast<const char*>(data), size});

  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(quoted, error);
  if (error || !value.is_string()) {
    std::abort();
  }
  std::string_view text;
  if (parser.parse(quoted).get(text) != simdjson::SUCCESS) {
    std::abort();
  }
  if (text != std::string_view(value.get_string().data(), value.get_string().size())) {
    std::abort();
  }
  return 0;
}
