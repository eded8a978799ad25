#include "extender/agent_watch.h"

#include <set>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "kube/object_json.h"
#include "kube/request.h"

namespace tessera::extender {

AgentWatch::AgentWatch(const Context& context, const AgentWatchOptions& options)
    : state_(context.state),
      reflector_(context.client,
                 {.path = kube::pod_path(options.namespace_name, ""), .label_selector = options.selector},
                 *this) {}

// Reads the node of the pod and whether all its containers are ready.
Status AgentWatch::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  decoded_ = {};
  const auto read_container = [&](kube::JsonKey key, kube::JsonValue value) {
    bool ready = false;
    if (!kube::is(key, "ready")) {
      return simdjson::SUCCESS;
    }
    const simdjson::error_code error = value.get_bool().get(ready);
    decoded_.ready = decoded_.ready && ready;
    return error;
  };
  return object.judge(kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) {
    if (kube::is(key, "metadata")) {
      return kube::read_meta(value, meta);
    }
    if (kube::is(key, "spec")) {
      return kube::each_field(value, [&](kube::JsonKey field, kube::JsonValue inner) {
        return kube::is(field, "nodeName") ? kube::read_text(inner, decoded_.node) : simdjson::SUCCESS;
      });
    }
    if (kube::is(key, "status")) {
      return kube::each_field(value, [&](kube::JsonKey field, kube::JsonValue inner) {
        if (!kube::is(field, "containerStatuses")) {
          return simdjson::SUCCESS;
        }
        decoded_.ready = true;
        return kube::each_element(
            inner, [&](kube::JsonValue container) { return kube::each_field(container, read_container); });
      });
    }
    return simdjson::SUCCESS;
  }));
}

void AgentWatch::keep(const kube::ObjectMeta& meta) {
  if (decoded_.node.empty()) {
    return;  // not scheduled yet; the node of a pod never changes afterwards
  }
  const auto [found, added] = pods_.try_emplace(meta.uid);
  AgentPod& pod = found->second;
  Count& count = counts_[decoded_.node];
  count.pods += added ? 1 : 0;
  count.ready -= pod.ready ? 1 : 0;
  count.ready += decoded_.ready ? 1 : 0;
  pod = decoded_;
  update(pod.node);
}

void AgentWatch::forget(const kube::ObjectMeta& meta) {
  const auto found = pods_.find(meta.uid);
  if (found == pods_.end()) {
    return;
  }
  const AgentPod pod = std::move(found->second);
  pods_.erase(found);
  Count& count = counts_[pod.node];
  --count.pods;
  count.ready -= pod.ready ? 1 : 0;
  update(pod.node);
}

// Keeps the last state that could be decoded.
void AgentWatch::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  log::warn("cannot decode the pod of an agent", {{"name", meta.name}, {"error", error}});
}

std::size_t AgentWatch::missing_nodes(const std::set<std::string>& labelled) const {
  if (!reflector_.synced()) {
    return 0;
  }
  std::set<std::string_view> missing;
  const auto check = [&](const std::string& node) {
    const auto count = counts_.find(node);
    if (count == counts_.end() || count->second.ready == 0) {
      missing.insert(node);
    }
  };
  for (const std::string& node : labelled) {
    check(node);
  }
  for (const auto& [uid, pod] : pods_) {
    check(pod.node);
  }
  return missing.size();
}

// During an update two agents may run on a node. One that is ready suffices.
void AgentWatch::update(const std::string& node) {
  const auto found = counts_.find(node);
  if (found->second.pods == 0) {
    counts_.erase(found);
    state_.keep_agent(node, AgentState::kGone);
    return;
  }
  state_.keep_agent(node, found->second.ready > 0 ? AgentState::kReady : AgentState::kDown);
}

}  // namespace tessera::extender
