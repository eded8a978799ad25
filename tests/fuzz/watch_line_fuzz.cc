// Any line of a watch is rejected, or gives an object, a bookmark with a version, or an error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "json/padded_buffer.h"
#include "kube/watch_decoder.h"
#include "kube_objects.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tessera::kube::WatchType;
  // One decoder for all inputs, as in a long watch: it must keep nothing of the previous line.
  static tessera::kube::WatchDecoder decoder;
  tessera::json::PaddedBuffer line(std::string_view(reinterpret_cast<const char*>(data), size));
  for (const tessera::kube::FuzzKind kind : tessera::kube::kFuzzKinds) {
    tessera::kube::FuzzSink sink(kind);
    const auto read = decoder.decode(line.view(), sink);
    if (!read) {
      continue;
    }
    if ((*read)->type == WatchType::kBookmark) {
      if ((*read)->meta.version == 0) {
        std::abort();
      }
    } else if ((*read)->type != WatchType::kError) {
      sink.check((*read)->meta);
    }
  }
  return 0;
}
