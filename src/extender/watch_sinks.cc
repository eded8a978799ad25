#include "extender/watch_sinks.h"

#include <utility>

#include "base/log.h"
#include "kube/node_decoder.h"
#include "kube/pod_decoder.h"

namespace tessera::extender {

PodSink::PodSink(Books& books, std::function<void()> on_synced)
    : books_(books), on_synced_(std::move(on_synced)) {}

Status PodSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return kube::decode_pod(object, books_.names(), meta, pod_);
}

void PodSink::keep(const kube::ObjectMeta& /*meta*/) {
  books_.keep_pod(pod_);
}

void PodSink::forget(const kube::ObjectMeta& meta) {
  books_.forget_pod(meta.uid);
}

void PodSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  ++unreadable_;
  log::warn("pod unreadable", {{"pod", meta.namespace_name + "/" + meta.name}, {"why", error}});
}

NodeSink::NodeSink(Books& books, std::function<void()> on_synced)
    : books_(books), on_synced_(std::move(on_synced)) {}

Status NodeSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return kube::decode_node(object, books_.names(), meta, node_);
}

void NodeSink::keep(const kube::ObjectMeta& /*meta*/) {
  books_.keep_node(node_);
}

void NodeSink::forget(const kube::ObjectMeta& meta) {
  books_.forget_node(meta.name);
}

void NodeSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  ++unreadable_;
  log::warn("node unreadable", {{"node", meta.name}, {"why", error}});
}

}  // namespace tessera::extender
