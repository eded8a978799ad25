#include "json/line_splitter.h"

#include <fmt/core.h>

#include <cstring>

namespace tessera::json {
namespace {

PaddedView without_carriage_return(PaddedView line) {
  if (!line.empty() && line.text().back() == '\r') {
    return line.part(0, line.size() - 1);
  }
  return line;
}

}  // namespace

Status LineSplitter::feed(PaddedView piece, const OnLine& on_line) {
  const auto too_long = [this] {
    return fail(ErrorCode::kExhausted,
                fmt::format("a line of the stream is longer than {} bytes", max_line_bytes_));
  };
  std::size_t start = 0;
  while (start < piece.size()) {
    const std::size_t left = piece.size() - start;
    const void* found = std::memchr(piece.data() + start, '\n', left);
    if (found == nullptr) {
      if (left > max_line_bytes_ - carried_.size()) {
        return too_long();
      }
      carried_.append(piece.text().substr(start));
      return {};
    }
    const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - (piece.data() + start));
    if (length > max_line_bytes_ - carried_.size()) {
      return too_long();
    }
    PaddedView line = piece.part(start, length);
    if (!carried_.empty()) {
      carried_.append(line.text());
      line = carried_.view();
    }
    line = without_carriage_return(line);
    Status status = line.empty() ? Status{} : on_line(line);
    carried_.clear();
    if (!status) {
      return status;
    }
    start += length + 1;
  }
  return {};
}

}  // namespace tessera::json
