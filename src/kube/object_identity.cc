#include "kube/object_identity.h"

#include <charconv>

namespace tessera::kube {

std::vector<std::string> identity_fields(const std::string& under, std::vector<std::string> others) {
  for (const char* field : {"name", "namespace", "uid", "resourceVersion"}) {
    others.push_back(under + ".metadata." + field);
  }
  others.push_back(under + ".spec.nodeName");
  return others;
}

std::uint64_t version_of(std::string_view text) {
  std::uint64_t version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

ObjectMeta identity(const json::FieldScanner& scanner, const std::string& under) {
  return {.namespace_name = std::string(scanner.text(under + ".metadata.namespace")),
          .name = std::string(scanner.text(under + ".metadata.name")),
          .uid = std::string(scanner.text(under + ".metadata.uid")),
          .version = version_of(scanner.text(under + ".metadata.resourceVersion")),
          .node_name = std::string(scanner.text(under + ".spec.nodeName"))};
}

}  // namespace tessera::kube
