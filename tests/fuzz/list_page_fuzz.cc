// Any page of a list is rejected, or every item has a name and a version.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "json/padded_buffer.h"
#include "kube/list_decoder.h"
#include "kube_objects.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tessera::kube::ListDecoder decoder;
  tessera::json::PaddedBuffer page(std::string_view(reinterpret_cast<const char*>(data), size));
  for (const tessera::kube::FuzzKind kind : tessera::kube::kFuzzKinds) {
    tessera::kube::FuzzSink sink(kind);
    std::size_t items = 0;
    const auto read =
        decoder.decode(page.view(), sink, [&](const tessera::kube::ObjectMeta& meta, const tessera::Status&) {
          sink.check(meta);
          ++items;
        });
    if (read && (read->items != items || read->version == 0)) {
      std::abort();
    }
  }
  return 0;
}
