#include "agent/gpu/memory_watch.h"

#include <fmt/core.h>

#include <utility>

#include "agent/gpu/gpu_devices.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// Returns "5.2GiB".
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

// Returns "ml/train-7".
std::string pod_text(const ContainerName& who) {
  return who.pod.namespace_name + "/" + who.pod.name;
}

kube::EventNote about_pod_of(const ContainerName& who) {
  return kube::EventNote::about_pod(who.pod.namespace_name, who.pod.name, who.pod_uid);
}

}  // namespace

MemoryWatch::MemoryWatch(const NodeContext& node, MemoryRules rules)
    : node_(node), rules_(rules), judge_(rules) {}

void MemoryWatch::check(const std::vector<MemoryUse>& uses, const alloc::Inventory& inventory) {
  for (const MemoryVerdict& verdict : judge_.judge(uses, node_.client.clock().now())) {
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
  const std::string requested =
      allowed == 0 ? "that GPU is not allocated to it" : fmt::format("it requested {}", amount(allowed));
  switch (verdict.kind) {
    case MemoryVerdict::Kind::kOver:
      ++counts_.over;
      warn_pod(
          use, "GpuMemoryExceeded",
          fmt::format("{}; {}. Other pods on that GPU can run out of memory. Request more or use less{}",
                      used, requested,
                      rules_.policy == MemoryPolicy::kEvict ? ", otherwise the pod will be evicted" : ""));
      break;
    case MemoryVerdict::Kind::kUnrequested:
      ++counts_.over;
      report_unrequested(use, gpu);
      break;
    case MemoryVerdict::Kind::kWithinLimit: {
      const std::string message = fmt::format("{}, which is within its limit again", used);
      log::info("GPU memory within the limit again", {{"pod", pod_text(use.who)}, {"message", message}});
      node_.events.record(about_pod_of(use.who).as_normal("GpuMemoryWithinLimit", message));
      break;
    }
    case MemoryVerdict::Kind::kEvict:
      evict(use, fmt::format("{}; {}", used, requested));
      break;
  }
}

void MemoryWatch::report_unrequested(const MemoryUse& use, const std::string& gpu) {
  const std::string name = node_.pods.name_of_any(use.who.pod_uid);
  // The name is unknown for a static pod: the UID in its cgroup differs from that in the API
  // server.
  const std::string who = name.empty() ? fmt::format("a pod that requests no GPU (UID {})", use.who.pod_uid)
                                       : fmt::format("pod {}, which requests no GPU,", name);
  const std::string message = fmt::format("{} uses {} of {}", who, amount(use.used_bytes), gpu);
  log::warn("GPU used without a request", {{"message", message}});
  node_.events.record(kube::EventNote::about_node(node_.node).as_warning("UnrequestedGpuUse", message));
}

void MemoryWatch::evict(const MemoryUse& use, const std::string& why) {
  const std::string uid = use.who.pod_uid;
  if (evicted_.contains(uid) || evictions_.contains(uid)) {
    return;
  }
  kube::Request request = kube::evict_request(use.who.pod.namespace_name, use.who.pod.name, uid);
  evictions_[uid] =
      node_.client.send(std::move(request), [this, use, uid, why](const Result<kube::Reply>& reply) {
        const kube::Call finished = std::move(evictions_[uid]);  // destroyed after this callback
        evictions_.erase(uid);
        if (reply || reply.error().code() == ErrorCode::kNotFound) {
          evicted_.insert(uid);
          ++counts_.evicted;
          warn_pod(use, "GpuMemoryEvicted", "Evicted: " + why);
          return;
        }
        ++counts_.refused;
        warn_pod(use, "GpuMemoryEvictionRefused",
                 fmt::format("Eviction failed and will be retried: {} ({})", reply.error().message(), why));
      });
}

void MemoryWatch::warn_pod(const MemoryUse& use, const std::string& reason, const std::string& message) {
  log::warn("GPU memory limit exceeded",
            {{"reason", reason}, {"pod", pod_text(use.who)}, {"message", message}});
  node_.events.record(about_pod_of(use.who).as_warning(reason, message));
}

}  // namespace tessera::agent
