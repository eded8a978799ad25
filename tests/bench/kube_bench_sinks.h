// Sinks for the measured lists.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "alloc/ledger.h"
#include "kube/object_sink.h"
#include "kube/object_tracker.h"
#include "objects/node_decoder.h"
#include "objects/pod_decoder.h"

namespace tessera::kube {

// Decodes everything that the ledger needs and stores only a little of it. alloc_bench measures the
// ledger itself.
class KeepingSink : public ObjectSink {
 public:
  explicit KeepingSink(bool pods) : pods_(pods) {}

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return pods_ ? objects::decode_pod(object, names_, meta, pod_)
                 : objects::decode_node(object, names_, meta, node_);
  }
  void keep(const ObjectMeta& meta) override {
    kept_.push_back({.version = meta.version,
                     .amount = pods_ ? pod_.containers.front().memory_bytes : node_.memory_bytes});
    ++kept_calls;
  }
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& meta, const Error& error) override {
    throw std::runtime_error(meta.name + ": " + error.text());
  }
  void synced() override { is_synced = true; }

  std::size_t kept_calls = 0;
  bool is_synced = false;

 private:
  struct Kept {
    std::uint64_t version = 0;
    std::int64_t amount = 0;
  };
  bool pods_;
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  alloc::NodeSpec node_;
  std::vector<Kept> kept_;
};

// Stores what the extender stores: the ledger and the state of the reflector.
class LedgerSink : public ObjectSink {
 public:
  struct State {
    std::unique_ptr<alloc::Ledger> ledger = std::make_unique<alloc::Ledger>();
    std::unique_ptr<ObjectTracker> tracker = std::make_unique<ObjectTracker>();
  };

  LedgerSink(State& state, bool pods) : state_(state), pods_(pods) { state_.tracker->begin_list(); }

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return pods_ ? objects::decode_pod(object, names_, meta, pod_)
                 : objects::decode_node(object, names_, meta, node_);
  }
  void keep(const ObjectMeta& meta) override {
    state_.tracker->listed(meta, [](const ObjectMeta&) {});
    if (pods_) {
      state_.ledger->upsert_pod(pod_);
    } else {
      state_.ledger->upsert_node(node_);
    }
    ++objects;
  }
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& meta, const Error& error) override {
    throw std::runtime_error(meta.name + ": " + error.text());
  }
  void synced() override { is_synced = true; }

  std::size_t objects = 0;
  bool is_synced = false;

 private:
  State& state_;
  bool pods_;
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  alloc::NodeSpec node_;
};

}  // namespace tessera::kube
