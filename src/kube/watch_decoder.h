// kube/watch_decoder.h
//
// Reads one line of a watch: {"type":"MODIFIED","object":{...}}. Pure; one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "json/padded_buffer.h"
#include "kube/api_status.h"
#include "kube/object_sink.h"

namespace tessera::kube {

enum class WatchType { kAdded, kModified, kDeleted, kBookmark, kError };

struct WatchLine {
  WatchType type = WatchType::kBookmark;
  // kAdded, kModified, kDeleted: who, and how decode() of the sink ended. kBookmark: only the version.
  ObjectMeta meta;
  Status decoded;
  // kError: what the server says.
  ApiStatus error;
};

class WatchDecoder {
 public:
  WatchDecoder();
  WatchDecoder(WatchDecoder&&) noexcept;
  WatchDecoder& operator=(WatchDecoder&&) noexcept;
  ~WatchDecoder();

  // The line, valid until the next call. Calls sink.decode() for objects and nothing else of it. kInvalid
  // when the line is not an event of a watch: the stream cannot be trusted any more then.
  Result<const WatchLine*> decode(json::PaddedView line, ObjectSink& sink);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tessera::kube
