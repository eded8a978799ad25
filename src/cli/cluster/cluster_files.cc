#include "cli/cluster/cluster_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "cli/cluster/cluster_api.h"
#include "cli/cluster/list_pages.h"
#include "kube/list_decoder.h"

namespace tessera::cli {

namespace {

// Returns whether `word` occurs in the file. Saves parsing the whole list when it has no settings.
bool mentions(std::istream& in, std::string_view word) {
  constexpr std::size_t kBytes = 1U << 18U;
  std::vector<char> bytes(kBytes + word.size());
  std::size_t kept = 0;  // the end of the previous block, which may be the start of the word
  while (in) {
    in.read(bytes.data() + kept, static_cast<std::streamsize>(kBytes));
    const std::string_view seen(bytes.data(), kept + static_cast<std::size_t>(in.gcount()));
    if (seen.find(word) != std::string_view::npos) {
      return true;
    }
    kept = std::min(seen.size(), word.size() - 1);
    std::copy(seen.end() - static_cast<std::ptrdiff_t>(kept), seen.end(), bytes.begin());
  }
  return false;
}

}  // namespace

Result<ClusterSettings> settings_in_files(const ClusterOptions& options) {
  const std::string path = options.file + "/pods.json";
  std::ifstream look(path, std::ios::binary);
  ClusterStore own_pods(placers_only());
  // A pod with any settings also has the resource prefix.
  if (look && mentions(look, alloc::key::kResourcePrefix)) {
    std::ifstream in(path, std::ios::binary);
    TRY(with_context(read_list(in, own_pods.pods()), path));
  }
  return settings_of(options, own_pods.take());
}

Status read_list(std::istream& in, kube::ObjectSink& sink) {
  kube::ListDecoder decoder;
  return each_page(in, {}, [&](json::PaddedView page) -> Status {
    TRY(decoder.decode(page, sink, keep_or_report(sink)));
    return {};
  });
}

Status read_files(const std::string& directory, ClusterStore& store) {
  const auto read_file_of = [&](const std::string& name, const std::string& how,
                                kube::ObjectSink& sink) -> Status {
    const std::string path = directory + "/" + name;
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("--file: {} cannot be opened; save it with: {} > {}", path, how, name));
    }
    return with_context(read_list(in, sink), path);
  };
  TRY(read_file_of("nodes.json", "kubectl get nodes -o json", store.nodes()));
  return read_file_of("pods.json", "kubectl get pods -A -o json", store.pods());
}

}  // namespace tessera::cli
