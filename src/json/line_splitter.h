// json/line_splitter.h
//
// Splits a byte stream that arrives in pieces of any size (a Kubernetes watch) into lines.
//
// A line that is complete within one piece is not copied; only a line that spans pieces is. Every
// line is followed by simdjson's padding and is valid during the callback. Not thread-safe.
//
//   LineSplitter lines(8 << 20);
//   Status status = lines.feed(piece, [&](PaddedView line) { apply(line); return Status{}; });
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::json {

class LineSplitter {
 public:
  using OnLine = std::function<Status(PaddedView line)>;

  // Lines longer than `max_line_bytes` are errors, so that a stream cannot exhaust the memory.
  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `on_line` for each non-empty line that ends in this piece, without its "\n" or "\r\n".
  // Returns the first error of `on_line`, or kExhausted for a line that is too long. After an error
  // the rest of the piece is lost, and the caller must reopen the stream.
  Status feed(PaddedView piece, const OnLine& on_line);

  // The number of bytes of the incomplete last line. More than 0 at the end of the stream means
  // that the stream was cut off.
  [[nodiscard]] std::size_t pending() const { return carried_.size(); }

  // Discards the incomplete last line. Call it before the next stream.
  void reset() { carried_.clear_and_trim(max_kept_bytes); }

 private:
  static constexpr std::size_t max_kept_bytes = 256U << 10U;

  std::size_t max_line_bytes_;
  PaddedBuffer carried_;
};

}  // namespace tessera::json
