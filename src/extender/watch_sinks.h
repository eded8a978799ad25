// extender/watch_sinks.h
//
// What the watches of pods and nodes bring, into the books. On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>

#include "alloc/pod.h"
#include "extender/books.h"
#include "kube/object_sink.h"

namespace tessera::extender {

// Pods. One that cannot be read keeps what it held: taking GPUs away from a running pod because of a bad
// label would give them away twice.
class PodSink final : public kube::ObjectSink {
 public:
  // `books` must live longer. `on_synced` is called each time all has been brought.
  PodSink(Books& books, std::function<void()> on_synced);

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override { on_synced_(); }

  [[nodiscard]] std::uint64_t unreadable_total() const { return unreadable_; }

 private:
  Books& books_;
  std::function<void()> on_synced_;
  alloc::PodSpec pod_;
  std::uint64_t unreadable_ = 0;
};

class NodeSink final : public kube::ObjectSink {
 public:
  NodeSink(Books& books, std::function<void()> on_synced);

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override { on_synced_(); }

  [[nodiscard]] std::uint64_t unreadable_total() const { return unreadable_; }

 private:
  Books& books_;
  std::function<void()> on_synced_;
  alloc::NodeSpec node_;
  std::uint64_t unreadable_ = 0;
};

}  // namespace tessera::extender
