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
  // The resourceVersion: a decimal number that grows with each write. Kubernetes has documented
  // this since 1.35; older API servers behave the same.
  std::uint64_t version = 0;
  // spec.nodeName of a pod. Set only if the object was too large to be decoded.
  std::string node_name{};

  // Keeps the memory of the strings for the next object.
  void clear() {
    namespace_name.clear();
    name.clear();
    uid.clear();
    version = 0;
    node_name.clear();
  }
};

}  // namespace tessera::kube
