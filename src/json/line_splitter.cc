#include "json/line_splitter.h"

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

Status LineSplitter::feed(PaddedView piece, const OnLine& on_line, const OnPart& on_part) {
  std::size_t start = 0;
  while (start < piece.size()) {
    const std::size_t left = piece.size() - start;
    const void* found = std::memchr(piece.data() + start, '\n', left);
    const bool last = found != nullptr;
    const std::size_t length =
        last ? static_cast<std::size_t>(static_cast<const char*>(found) - (piece.data() + start)) : left;
    PaddedView line = piece.part(start, length);
    start += length + 1;
    if (!in_parts_ && length > max_line_bytes_ - carried_.size()) {
      in_parts_ = true;
      const Status status = on_part(carried_.text(), false);
      carried_.clear_and_trim(max_kept_bytes);
      TRY(status);
    }
    if (in_parts_) {
      in_parts_ = !last;
      TRY(on_part(line.text(), last));
      continue;
    }
    if (!last) {
      carried_.append(line.text());
      return {};
    }
    if (!carried_.empty()) {
      carried_.append(line.text());
      line = carried_.view();
    }
    line = without_carriage_return(line);
    const Status status = line.empty() ? Status{} : on_line(line);
    carried_.clear_and_trim(max_kept_bytes);
    TRY(status);
  }
  return {};
}

}  // namespace tessera::json
