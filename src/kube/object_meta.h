// kube/object_meta.h
//
// Identifies an API object and its version.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::kube {

struct ObjectMeta {
  std::string namespace_name;  // "" for cluster-scoped objects
  std::string name;
  std::string uid;
  // The resourceVersion: a decimal number that grows with each write. Kubernetes documents this
  // since 1.35; older API servers behave the same.
  std::uint64_t version = 0;

  // Keeps the memory of the strings for the next object.
  void clear() {
    namespace_name.clear();
    name.clear();
    uid.clear();
    version = 0;
  }
};

}  // namespace tessera::kube
