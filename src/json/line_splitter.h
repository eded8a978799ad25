// json/line_splitter.h
//
// Cuts a stream of bytes that arrives in pieces of any size (a Kubernetes watch) into its lines.
//
// A line that lies whole inside a piece is handed on where it is; only a line that two pieces share is
// copied. Every line has simdjson's padding behind it and is valid during the call. One thread.
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

  // A line longer than `max_line_bytes` is refused before it can fill the memory.
  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `on_line` for each line that ends in this piece: without its "\n", or "\r\n", and never for an
  // empty one. Stops at the first failure of `on_line` and returns it; the rest of the piece is then lost,
  // and the stream has to be opened anew. kExhausted for a line that is too long.
  Status feed(PaddedView piece, const OnLine& on_line);

  // Bytes of a line that has begun and not ended: more than 0 at the end of the stream means that the stream
  // was cut.
  [[nodiscard]] std::size_t pending() const { return carried_.size(); }

  // Forgets what is pending: for the next stream.
  void reset() { carried_.clear_and_trim(max_kept_bytes); }

 private:
  static constexpr std::size_t max_kept_bytes = 256U << 10U;

  std::size_t max_line_bytes_;
  PaddedBuffer carried_;
};

}  // namespace tessera::json
