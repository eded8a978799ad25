#include "extender/scheduler_lease.h"

#include <utility>

#include "base/log.h"
#include "kube/object_json.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

// kube-scheduler calls itself HOSTNAME_UUID, and a pod's host name is its own, of which 63 letters are taken.
std::string identity_prefix(const std::string& pod) {
  return pod.substr(0, 63) + "_";
}

}  // namespace

SchedulerLease::SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead)
    : own_prefix_(identity_prefix(options.own_pod)),
      on_lead_(std::move(on_lead)),
      watch_(client,
             {.path = kube::lease_path(options.namespace_name, ""),
              .field_selector = "metadata.name=" + options.name},
             *this) {}

Status SchedulerLease::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  read_.clear();
  return object.judge(kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) {
    if (kube::is(key, "metadata")) {
      return kube::read_meta(value, meta);
    }
    if (kube::is(key, "spec")) {
      return kube::each_field(value, [&](kube::JsonKey field, kube::JsonValue inner) {
        return kube::is(field, "holderIdentity") ? kube::read_text(inner, read_) : simdjson::SUCCESS;
      });
    }
    return simdjson::SUCCESS;
  }));
}

void SchedulerLease::keep(const kube::ObjectMeta& /*meta*/) {
  // Renewed every few seconds; only another holder is news.
  if (std::exchange(holder_, read_) != read_ && holder_.starts_with(own_prefix_)) {
    on_lead_();
  }
}

void SchedulerLease::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  log::warn("object unreadable", {{"name", meta.namespace_name + "/" + meta.name}, {"why", error}});
}

}  // namespace tessera::extender
