// kube/object_meta.h
//
// Which object of the API, and which version of it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::kube {

struct ObjectMeta {
  std::string namespace_name;  // "" for cluster-wide objects
  std::string name;
  std::string uid;
  // resourceVersion. Decimal numbers that grow with each change of the store: API servers before 1.35 did so
  // without promising it.
  std::uint64_t version = 0;

  // Keeps the strings' memory for the next object.
  void clear() {
    namespace_name.clear();
    name.clear();
    uid.clear();
    version = 0;
  }
};

}  // namespace tessera::kube
