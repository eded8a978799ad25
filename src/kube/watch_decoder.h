// kube/watch_decoder.h
//
// Parses one line of a watch: {"type":"MODIFIED","object":{...}}. Does no I/O. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "json/padded_buffer.h"
#include "kube/api_status.h"
#include "kube/object_sink.h"

namespace tessera::kube {

enum class WatchType { kAdded, kModified, kDeleted, kBookmark, kError };

// Returns the type with this name ("ADDED"), or nothing.
std::optional<WatchType> watch_type(std::string_view name);

struct WatchLine {
  WatchType type = WatchType::kBookmark;
  // kAdded, kModified, kDeleted: the object, and the result of the sink's decode(). kBookmark: only
  // the version.
  ObjectMeta meta;
  Status decoded;
  // kError: the status from the server.
  ApiStatus error;
};

class WatchDecoder {
 public:
  WatchDecoder();
  WatchDecoder(WatchDecoder&&) noexcept;
  WatchDecoder& operator=(WatchDecoder&&) noexcept;
  ~WatchDecoder();

  // Parses a line. Calls sink.decode() for the object, but no other function of the sink. The
  // result is valid until the next call. Returns kInvalid if the line is not a watch event; the
  // caller must then end the watch.
  Result<const WatchLine*> decode(json::PaddedView line, ObjectSink& sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::kube
