// tests/fuzz/kube_objects.h
//
// A sink that reads objects as pods or as nodes and checks that what it is handed makes sense.
#pragma once

#include <cstdlib>

#include "kube/node_decoder.h"
#include "kube/pod_decoder.h"

namespace tessera::kube {

class FuzzSink : public ObjectSink {
 public:
  explicit FuzzSink(bool pods) : pods_(pods) {}

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return pods_ ? decode_pod(object, names_, meta, pod_) : decode_node(object, names_, meta, node_);
  }
  void keep(const ObjectMeta& /*meta*/) override {}
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& /*meta*/, const Error& /*error*/) override {}

  void check(const ObjectMeta& meta) const {
    if (meta.name.empty() || meta.uid.empty() || meta.version == 0 ||
        (pods_ ? pod_.name : node_.name) != meta.name) {
      std::abort();
    }
  }

 private:
  bool pods_;
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  alloc::NodeSpec node_;
};

}  // namespace tessera::kube
