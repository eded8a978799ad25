// extender/watch_sinks.h
//
// What the watches of pods, nodes and budgets bring, into the books. On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "alloc/pod.h"
#include "extender/books.h"
#include "kube/object_sink.h"
#include "objects/disruption_budget.h"
#include "objects/label_hashes.h"

namespace tessera::extender {

// What all have in common: an object that cannot be read changes nothing. Taking GPUs away from a running
// pod because of a bad label would give them away twice.
class BooksSink : public kube::ObjectSink {
 public:
  // `books` must live longer. `on_synced` is called each time all has been brought.
  BooksSink(Books& books, std::function<void()> on_synced);

  void unreadable(const kube::ObjectMeta& meta, const Error& error) final;
  void synced() final { on_synced_(); }

 protected:
  Books& books_;

 private:
  std::function<void()> on_synced_;
};

class PodSink final : public BooksSink {
 public:
  using BooksSink::BooksSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  alloc::PodSpec pod_;
  objects::LabelHashes labels_;
};

class BudgetSink final : public BooksSink {
 public:
  using BooksSink::BooksSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  objects::DisruptionBudget budget_;
};

// ConfigMaps unhealthy-gpu-NODE, in which the original keeps GPUs that must not be used.
class UnhealthySink final : public BooksSink {
 public:
  using BooksSink::BooksSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  std::string gpus_;
};

class NodeSink final : public BooksSink {
 public:
  using BooksSink::BooksSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  alloc::NodeSpec node_;
};

}  // namespace tessera::extender
