#include "extender/watch_sinks.h"

#include <fmt/core.h>

#include <utility>

#include "base/log.h"
#include "kube/object_json.h"
#include "objects/node_decoder.h"
#include "objects/pod_decoder.h"

namespace tessera::extender {

namespace {

constexpr std::string_view kUnhealthyPrefix = "unhealthy-gpu-";

}  // namespace

StateSink::StateSink(ClusterState& state, std::function<void()> on_synced)
    : state_(state), on_synced_(std::move(on_synced)) {}

void StateSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  const std::string name = meta.namespace_name.empty() ? meta.name : meta.namespace_name + "/" + meta.name;
  log::warn("cannot decode object", {{"name", name}, {"error", error}});
}

Status PodSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return objects::decode_pod(object, state_.names(), meta, pod_, {.labels = &labels_});
}

void PodSink::keep(const kube::ObjectMeta& /*meta*/) {
  state_.keep_pod(pod_);
  state_.keep_labels(pod_, labels_);
}

void PodSink::forget(const kube::ObjectMeta& meta) {
  state_.forget_pod(meta.uid);
}

void PodSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  StateSink::unreadable(meta, error);
  state_.ledger().upsert_unreadable_pod(
      {.namespace_name = meta.namespace_name, .name = meta.name, .uid = meta.uid}, meta.node_name,
      error.text());
}

Status BudgetSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return objects::decode_disruption_budget(object, meta, budget_);
}

void BudgetSink::keep(const kube::ObjectMeta& meta) {
  state_.budgets().keep(meta.namespace_name, meta.name, std::move(budget_));
}

void BudgetSink::forget(const kube::ObjectMeta& meta) {
  state_.budgets().forget(meta.namespace_name, meta.name);
}

Status UnhealthySink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  gpus_.clear();
  TRY(object.judge(kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) {
    if (kube::is(key, "metadata")) {
      return kube::read_meta(value, meta);
    }
    if (kube::is(key, "data")) {
      return kube::each_field(value, [&](kube::JsonKey field, kube::JsonValue inner) {
        return kube::is(field, "gpus") ? kube::read_text(inner, gpus_) : simdjson::SUCCESS;
      });
    }
    return simdjson::SUCCESS;
  })));
  // The list is kept. 64 GPUs need a few hundred bytes.
  constexpr std::size_t kMostBytes = 4096;
  if (gpus_.size() > kMostBytes) {
    return fail(ErrorCode::kInvalid, fmt::format("its list of GPUs has {} bytes; at most {} are allowed",
                                                 gpus_.size(), kMostBytes));
  }
  return {};
}

void UnhealthySink::keep(const kube::ObjectMeta& meta) {
  if (meta.name.starts_with(kUnhealthyPrefix)) {
    state_.keep_unhealthy(meta.name.substr(kUnhealthyPrefix.size()), gpus_);
  }
}

void UnhealthySink::forget(const kube::ObjectMeta& meta) {
  gpus_.clear();
  keep(meta);
}

Status NodeSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return objects::decode_node(object, state_.names(), meta, node_);
}

void NodeSink::keep(const kube::ObjectMeta& /*meta*/) {
  state_.keep_node(node_);
}

void NodeSink::forget(const kube::ObjectMeta& meta) {
  state_.forget_node(meta.name);
}

}  // namespace tessera::extender
