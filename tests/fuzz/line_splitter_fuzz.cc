// A stream gives the same lines in one piece and in several. The first byte is the size of the
// pieces.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "json/line_splitter.h"

namespace {

using namespace tessera;

constexpr std::size_t kMaxLine = 64;

struct Lines {
  std::vector<std::string> lines;
  std::string parts;  // of lines that are too long
  bool pending = false;
};

Lines split(std::string_view stream, std::size_t step) {
  Lines result;
  json::LineSplitter splitter(kMaxLine);
  for (std::size_t at = 0; at < stream.size(); at += step) {
    json::PaddedBuffer piece(stream.substr(at, step));
    const Status status = splitter.feed(
        piece.view(),
        [&](json::PaddedView line) {
          result.lines.emplace_back(line.text());
          return Status{};
        },
        [&](std::string_view part, bool last) {
          result.parts += part;
          result.parts += last ? "\n" : "";
          return Status{};
        });
    if (!status) {
      std::abort();
    }
  }
  result.pending = splitter.pending();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const Lines whole = split(stream, stream.size());
  const Lines cut = split(stream, std::size_t{1} + data[0]);
  if (whole.lines != cut.lines || whole.parts != cut.parts || whole.pending != cut.pending) {
    std::abort();
  }
  return 0;
}
