// The checked reader takes what Boost.JSON takes, whatever lies behind the text; and what our escaper writes,
// both read.
#include <boost/json/parse.hpp>
#include <boost/json/stream_parser.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "json/escape.h"
#include "json/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::json;
  static CheckedReader checked(30);
  static OnDemandReader on_demand;
  const std::string_view input(reinterpret_cast<const char*>(data), size);

  PaddedBuffer text(input);
  const auto document = checked.read(text.view(), "input");
  if (document) {
    boost::system::error_code error;
    const boost::json::value value =
        boost::json::parse(boost::json::string_view(input.data(), input.size()), error);
    if (error) {
      std::abort();
    }
  }
  if (auto walked = on_demand.read(text.view(), "input")) {
    // Whatever the answer is, asking must not read outside the text.
    std::string_view name;
    static_cast<void>((*walked)["Pod"]["metadata"]["name"].get(name));
  }

  std::string quoted;
  append_quoted(quoted, input);
  PaddedBuffer again(quoted);
  if (!checked.read(again.view(), "quoted")) {
    std::abort();
  }
  return 0;
}
