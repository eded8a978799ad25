// json/line_splitter.h
//
// Splits a byte stream that arrives in pieces of any size (a Kubernetes watch) into lines.
//
// A line that is complete within one piece is not copied; only a line that spans pieces is. Every
// line is followed by simdjson's padding and is valid during the callback. Not thread-safe.
//
//   LineSplitter lines(8 << 20);
//   Status status = lines.feed(piece, [&](PaddedView line) { apply(line); return Status{}; },
//                              [&](std::string_view part, bool last) { ... return Status{}; });
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::json {

class LineSplitter {
 public:
  using OnLine = std::function<Status(PaddedView line)>;

  using OnPart = std::function<Status(std::string_view part, bool last)>;

  // Lines longer than `max_line_bytes` are not kept, so that a stream cannot exhaust the memory.
  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `on_line` for each non-empty line that ends in this piece, without its "\n" or "\r\n".
  // Passes a line that is too long to `on_part` instead, in parts as they arrive; `last` is true
  // for the part before the "\n". Returns the first error of a callback. After an error the rest of
  // the piece is lost, and the caller must reopen the stream.
  Status feed(PaddedView piece, const OnLine& on_line, const OnPart& on_part);

  // Returns whether the last line is incomplete. At the end of the stream this means that the
  // stream was cut off.
  [[nodiscard]] bool pending() const { return in_parts_ || !carried_.empty(); }

  // Discards the incomplete line before the next stream.
  void reset() {
    carried_.clear_and_trim(max_kept_bytes);
    in_parts_ = false;
  }

 private:
  static constexpr std::size_t max_kept_bytes = 256U << 10U;

  std::size_t max_line_bytes_;
  PaddedBuffer carried_;
  bool in_parts_ = false;  // the current line is too long
};

}  // namespace tessera::json
