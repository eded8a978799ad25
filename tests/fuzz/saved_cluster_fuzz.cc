// Any pair of files is rejected, or can be shown in every output format. The text before the first
// zero byte is nodes.json, the rest is pods.json.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "cli/cluster/cluster_files.h"
#include "cli/cluster/cluster_store.h"
#include "cli/inspect/inspect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::cli;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = text.find('\0');
  std::istringstream nodes(text.substr(0, zero));
  std::istringstream pods(zero == std::string::npos ? R"({"items":[]})" : text.substr(zero + 1));
  ClusterStore store({});
  if (!read_list(nodes, store.nodes()) || !read_list(pods, store.pods())) {
    return 0;
  }
  const Cluster cluster = store.snapshot();
  for (const InspectKind kind : {InspectKind::kShares, InspectKind::kGpus}) {
    for (const char* output : {"text", "wide", "json"}) {
      InspectOptions options;
      options.kind = kind;
      options.output = output;
      options.details = true;
      if (!inspect_frame(options, cluster, {})) {
        std::abort();  // the options name no object, so none can be missing
      }
    }
  }
  return 0;
}
