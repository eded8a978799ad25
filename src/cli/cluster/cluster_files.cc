#include "cli/cluster/cluster_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/cluster/cluster_api.h"
#include "cli/cluster/list_pages.h"
#include "kube/list_decoder.h"
#include "kube/object_json.h"

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

Status decode_page(kube::ListDecoder& decoder, json::PaddedView page, kube::ObjectSink& sink) {
  TRY(decoder.decode(page, sink, keep_or_report(sink)));
  return {};
}

// A file of a saved cluster.
struct SavedFile {
  std::string_view name;
  std::string_view kind;   // of its objects
  std::string_view saved;  // the command that saves it
};

constexpr SavedFile kNodes{.name = "nodes.json", .kind = "Node", .saved = "kubectl get nodes -o json"};
constexpr SavedFile kPods{.name = "pods.json", .kind = "Pod", .saved = "kubectl get pods -A -o json"};

std::string how_to_save(const SavedFile& file) {
  return fmt::format("save it with: {} > {}", file.saved, file.name);
}

// Finds the kind of objects. Lists of an API server do not name the kind of their items, so it is
// also recognised by fields that only pods or nodes have. Keeps nothing.
class KindSink final : public kube::ObjectSink {
 public:
  explicit KindSink(std::string_view expected) : expected_(expected) {}

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override {
    std::string kind;
    bool containers = false;
    bool capacity = false;
    const auto look_for = [](kube::JsonValue parent, auto is_wanted, bool& found) {
      return kube::each_field(parent, [&](kube::JsonKey key, kube::JsonValue) {
        found = found || is_wanted(key);
        return simdjson::SUCCESS;
      });
    };
    TRY(object.judge(kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) {
      if (kube::is(key, "kind")) {
        return kube::read_text(value, kind);
      }
      if (kube::is(key, "metadata")) {
        return kube::read_meta(value, meta);
      }
      if (kube::is(key, "spec")) {
        return look_for(value, [](kube::JsonKey name) { return kube::is(name, "containers"); }, containers);
      }
      if (kube::is(key, "status")) {
        return look_for(value, [](kube::JsonKey name) { return kube::is(name, "capacity"); }, capacity);
      }
      return simdjson::SUCCESS;
    })));
    kind = !kind.empty() ? kind : containers ? "Pod" : capacity ? "Node" : std::string(expected_);
    other_ = other_.empty() && kind != expected_ ? kind : other_;
    return {};
  }
  void keep(const kube::ObjectMeta&) override {}
  void forget(const kube::ObjectMeta&) override {}
  void unreadable(const kube::ObjectMeta&, const Error&) override {}

  // Returns the first kind that is not the expected one; empty if there is none.
  [[nodiscard]] const std::string& other() const { return other_; }

 private:
  std::string_view expected_;
  std::string other_;
};

// Returns kInvalid if the page has objects of another kind, as when the files were swapped.
Status check_kind(json::PaddedView page, const SavedFile& file) {
  KindSink kinds(file.kind);
  // Invalid JSON is reported when the page is read.
  (void)kube::ListDecoder().decode(page, kinds, [](const kube::ObjectMeta&, const Status&) {});
  if (kinds.other().empty()) {
    return {};
  }
  const std::string found = kinds.other() == "Pod"    ? "pods"
                            : kinds.other() == "Node" ? "nodes"
                                                      : "objects of kind " + in_quotes(kinds.other());
  return fail(ErrorCode::kInvalid, fmt::format("it contains {}, not {}s; {}", found,
                                               file.kind == "Pod" ? "pod" : "node", how_to_save(file)));
}

Status read_saved(const std::string& directory, const SavedFile& file, kube::ObjectSink& sink) {
  const std::string path = fmt::format("{}/{}", directory, file.name);
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(ErrorCode::kNotFound,
                fmt::format("--file: {} cannot be opened; {}", path, how_to_save(file)));
  }
  kube::ListDecoder decoder;
  bool checked = false;
  Status wrong_kind;
  const Status read = each_page(in, {}, [&](json::PaddedView page) -> Status {
    if (!std::exchange(checked, true)) {  // one page shows it
      wrong_kind = check_kind(page, file);
      TRY(wrong_kind);
    }
    return decode_page(decoder, page, sink);
  });
  if (!wrong_kind) {
    return with_context(wrong_kind, path);
  }
  if (!read) {
    return fail(read.error().code(), fmt::format("{}: {}; {}", path, read.error().text(), how_to_save(file)));
  }
  return {};
}

}  // namespace

Result<ClusterSettings> settings_in_files(const ClusterOptions& options) {
  std::ifstream look(options.file + "/pods.json", std::ios::binary);
  ClusterStore own_pods(placers_only(), {.tessera_namespace = options.tessera_namespace});
  // A pod with any settings also has the resource prefix.
  if (look && mentions(look, alloc::key::kResourcePrefix)) {
    TRY(read_saved(options.file, kPods, own_pods.pods()));
  }
  return settings_of(options, own_pods.take());
}

Status read_list(std::istream& in, kube::ObjectSink& sink) {
  kube::ListDecoder decoder;
  return each_page(in, {}, [&](json::PaddedView page) { return decode_page(decoder, page, sink); });
}

Status read_files(const std::string& directory, ClusterStore& store) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(directory, ignored)) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("--file takes a directory with nodes.json and pods.json, but {} is a file", directory));
  }
  TRY(read_saved(directory, kNodes, store.nodes()));
  return read_saved(directory, kPods, store.pods());
}

}  // namespace tessera::cli
