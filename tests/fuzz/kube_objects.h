// tests/fuzz/kube_objects.h
//
// A sink that decodes objects as one of the kinds and checks their metadata.
#pragma once

#include <array>
#include <cstdlib>

#include "objects/disruption_budget.h"
#include "objects/node_decoder.h"
#include "objects/pod_decoder.h"

namespace tessera::kube {

enum class FuzzKind { kPod, kDetails, kNode, kBudget };
inline constexpr std::array kFuzzKinds = {FuzzKind::kPod, FuzzKind::kDetails, FuzzKind::kNode,
                                          FuzzKind::kBudget};

class FuzzSink : public ObjectSink {
 public:
  explicit FuzzSink(FuzzKind kind) : kind_(kind) {}

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    switch (kind_) {
      case FuzzKind::kPod:
        return objects::decode_pod(object, names_, meta, pod_, {.container_ids = true, .labels = &labels_});
      case FuzzKind::kDetails:
        return objects::decode_pod(object, names_, meta, pod_, {.details = &details_});
      case FuzzKind::kNode:
        return objects::decode_node(object, names_, meta, node_);
      case FuzzKind::kBudget:
        break;
    }
    const Status decoded = objects::decode_disruption_budget(object, meta, budget_);
    static_cast<void>(budget_.covers("p", labels_));  // works for any decoded budget
    return decoded;
  }
  void keep(const ObjectMeta& /*meta*/) override {}
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& /*meta*/, const Error& /*error*/) override {}

  void check(const ObjectMeta& meta) const {
    if (meta.name.empty() || meta.uid.empty() || meta.version == 0) {
      std::abort();
    }
    if (kind_ != FuzzKind::kBudget && (kind_ == FuzzKind::kNode ? node_.name : pod_.name) != meta.name) {
      std::abort();
    }
  }

 private:
  FuzzKind kind_;
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  objects::PodDetails details_;
  objects::LabelHashes labels_{objects::hash_of_label("app", "web")};
  alloc::NodeSpec node_;
  objects::DisruptionBudget budget_;
};

}  // namespace tessera::kube
