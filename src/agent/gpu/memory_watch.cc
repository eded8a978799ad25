#include "agent/gpu/memory_watch.h"

#include <fmt/core.h>

#include <utility>

#include "agent/gpu/gpu_text.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// "5.2GiB".
std::string amount(std::uint64_t bytes) {
  constexpr double kMib = 1U << 20U;
  const double mib = static_cast<double>(bytes) / kMib;
  return mib >= 1024 ? fmt::format("{:.1f}GiB", mib / 1024) : fmt::format("{:.0f}MiB", mib);
}

std::string gpu_text(const alloc::Inventory& inventory, const std::string& uuid) {
  const auto found = inventory.find_uuid(uuid);
  return found ? describe(inventory.gpus[*found]) : "GPU " + uuid;
}

std::string container_text(const ContainerName& who) {
  return who.container.empty() ? "a container" : "container " + who.container;
}

}  // namespace

MemoryWatch::MemoryWatch(kube::Client& client, std::string node, MemoryRules rules, Tell tell,
                         NameOfPod name_of_pod)
    : client_(client),
      node_(std::move(node)),
      rules_(rules),
      tell_(std::move(tell)),
      name_of_pod_(std::move(name_of_pod)),
      judge_(rules) {}

void MemoryWatch::look_at(const std::vector<MemoryUse>& uses, const alloc::Inventory& inventory) {
  for (const MemoryVerdict& verdict : judge_.judge(uses, client_.clock().now())) {
    carry_out(verdict, gpu_text(inventory, verdict.use.gpu));
  }
  std::set<std::string> alive;
  for (const MemoryUse& use : uses) {
    alive.insert(use.who.pod_uid);
  }
  std::erase_if(evicted_, [&](const std::string& uid) { return !alive.contains(uid); });
}

void MemoryWatch::carry_out(const MemoryVerdict& verdict, const std::string& gpu) {
  const MemoryUse& use = verdict.use;
  const std::string used =
      fmt::format("{} uses {} of {}", container_text(use.who), amount(use.used_bytes), gpu);
  const std::uint64_t allowed = use.allowed_bytes.value_or(0);
  const std::string asked =
      allowed == 0 ? "it was given nothing of it" : fmt::format("it asked for {}", amount(allowed));
  switch (verdict.kind) {
    case MemoryVerdict::Kind::kOver:
      ++counts_.over;
      tell_pod(
          use, true, "GpuMemoryExceeded",
          fmt::format("{}; {}. Other pods on that GPU can run out of memory. Ask for more, or use less{}",
                      used, asked, rules_.policy == MemoryPolicy::kEvict ? ": the pod will be evicted" : ""));
      break;
    case MemoryVerdict::Kind::kStranger:
      ++counts_.over;
      tell_of_stranger(use, gpu);
      break;
    case MemoryVerdict::Kind::kBack:
      tell_pod(use, false, "GpuMemoryWithinLimit", fmt::format("{} again", used));
      break;
    case MemoryVerdict::Kind::kEvict:
      evict(use, fmt::format("{}; {}", used, asked));
      break;
  }
}

void MemoryWatch::tell_of_stranger(const MemoryUse& use, const std::string& gpu) {
  const std::string name = name_of_pod_ ? name_of_pod_(use.who.pod_uid) : "";
  // A pod from a file of the node has another UID in its cgroup than the API server knows.
  const std::string who = name.empty() ? fmt::format("a pod that asks for no GPU (UID {})", use.who.pod_uid)
                                       : fmt::format("pod {}, which asks for no GPU,", name);
  const std::string message = fmt::format("{} uses {} of {}", who, amount(use.used_bytes), gpu);
  log::warn("UnrequestedGpuUse", {{"node", node_}, {"what", message}});
  tell_({.about = {.kind = "Node", .name = node_, .uid = node_},
         .warning = true,
         .reason = "UnrequestedGpuUse",
         .message = message});
}

void MemoryWatch::evict(const MemoryUse& use, const std::string& why) {
  const std::string uid = use.who.pod_uid;
  if (evicted_.contains(uid) || evictions_.contains(uid)) {
    return;
  }
  kube::Request request = kube::evict_request(use.who.pod.namespace_name, use.who.pod.name, uid);
  evictions_[uid] = client_.send(std::move(request), [this, use, uid, why](const Result<kube::Reply>& reply) {
    const kube::Call over = std::move(evictions_[uid]);
    evictions_.erase(uid);
    if (reply || reply.error().code() == ErrorCode::kNotFound) {
      evicted_.insert(uid);
      ++counts_.evicted;
      tell_pod(use, true, "GpuMemoryEvicted", "Evicted: " + why);
      return;
    }
    ++counts_.refused;
    tell_pod(use, true, "GpuMemoryEvictionRefused",
             fmt::format("Not evicted ({}), tried again: {}", reply.error().message(), why));
  });
}

void MemoryWatch::tell_pod(const MemoryUse& use, bool warning, const std::string& reason,
                           const std::string& message) {
  const std::string pod = use.who.pod.namespace_name + "/" + use.who.pod.name;
  if (warning) {
    log::warn(reason, {{"pod", pod}, {"what", message}});
  } else {
    log::info(reason, {{"pod", pod}, {"what", message}});
  }
  tell_({.about = {.kind = "Pod",
                   .namespace_name = use.who.pod.namespace_name,
                   .name = use.who.pod.name,
                   .uid = use.who.pod_uid},
         .warning = warning,
         .reason = reason,
         .message = message});
}

}  // namespace tessera::agent
