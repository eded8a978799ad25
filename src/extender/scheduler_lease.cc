#include "extender/scheduler_lease.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kube/object_json.h"
#include "kube/request.h"
#include "kube/rfc3339.h"

namespace tessera::extender {

namespace {

// The identity of kube-scheduler is HOSTNAME_UUID, and the host name of a pod is the first 63
// characters of its name.
std::string identity_prefix(const std::string& pod) {
  return pod.substr(0, 63) + "_";
}

constexpr std::chrono::seconds kMaxDuration{3600};

// Returns how long a renewed Lease allows its holder to act. By default, a scheduler stops leading
// 10 s after its last renewal, and another scheduler takes the Lease after 15 s. Writes in progress
// have the time between to finish.
std::chrono::milliseconds window(std::chrono::seconds duration) {
  return std::chrono::milliseconds(duration) * 2 / 3;
}

}  // namespace

SchedulerLease::SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead)
    : loop_(client.loop()),
      clock_(client.clock()),
      write_time_(options.write_time + kWatchDelay),
      lease_(options.namespace_name + "/" + options.name),
      own_prefix_(identity_prefix(options.own_pod)),
      on_lead_(std::move(on_lead)),
      watch_(client,
             {.path = kube::lease_path(options.namespace_name, ""),
              .field_selector = "metadata.name=" + options.name},
             *this) {}

Status SchedulerLease::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  decoded_ = {};
  std::int64_t seconds = 0;
  const kube::JsonError error =
      kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) -> kube::JsonError {
        if (kube::is(key, "metadata")) {
          return kube::read_meta(value, meta);
        }
        if (!kube::is(key, "spec")) {
          return simdjson::SUCCESS;
        }
        return kube::each_field(value, [&](kube::JsonKey field, kube::JsonValue inner) -> kube::JsonError {
          if (kube::is(field, "holderIdentity")) {
            return kube::read_text(inner, decoded_.holder);
          }
          if (kube::is(field, "renewTime")) {
            return kube::read_text(inner, decoded_.renewed);
          }
          return kube::is(field, "leaseDurationSeconds") ? inner.get_int64().get(seconds) : simdjson::SUCCESS;
        });
      });
  decoded_.duration = std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kMaxDuration.count()));
  return object.judge(error);
}

void SchedulerLease::keep(const kube::ObjectMeta& meta) {
  const bool is_own = decoded_.holder.starts_with(own_prefix_);
  const bool holder_changed = std::exchange(holder_, decoded_.holder) != decoded_.holder;
  const std::string uid_before = std::exchange(uid_, meta.uid);
  const bool recreated = !uid_before.empty() && uid_before != uid_;
  const Clock::Steady now = clock_.now();
  until_ = {};
  until_wall_ = {};
  if (const Result<Clock::Wall> renewed = kube::parse_rfc3339(decoded_.renewed); is_own && renewed) {
    until_ = now + window(decoded_.duration);
    until_wall_ = *renewed + window(decoded_.duration);
  }
  if (!is_own && !decoded_.holder.empty()) {
    others_write_until_ = now + window(decoded_.duration);
  } else if (holder_changed) {
    // The Lease was released, or our scheduler took it, so no other scheduler requests binds from
    // now on. The holder of a deleted Lease does not know that, and requests binds until its time
    // ends. After a gap in the watch, others_write_until_ may be older than the last write of
    // others, so do not use it.
    const Clock::Steady last_write = now + (recreated ? window(decoded_.duration) : write_time_);
    others_write_until_ = watch_.listing() ? last_write : std::min(others_write_until_, last_write);
  }
  // Ignore renewals; only a new holder matters here.
  if (holder_changed) {
    others_write_timer_.cancel();
    if (is_own) {
      begin_to_lead();
    }
  }
}

// on_lead_ lists the pods. The list must start after the last write of another extender, so wait
// for that write first. If a write could take all of bindTimeout, a takeover could take more than
// 5 s from the release of the Lease, including the list. So a sidecar uses only half of bindTimeout
// for a write (Leadership::write_time). Most of that time has passed when the next scheduler, which
// checks every 1 to 2.2 s, takes the Lease.
void SchedulerLease::begin_to_lead() {
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(others_write_until_ - clock_.now());
  if (wait <= std::chrono::milliseconds(0)) {
    on_lead_();
    return;
  }
  log::info("waiting until writes of the previous leader have ended",
            {{"lease", lease_}, {"wait_ms", wait.count()}});
  others_write_timer_ = loop_.after(wait, [this] { on_lead_(); });
}

void SchedulerLease::stop_leading() {
  holder_.clear();
  others_write_timer_.cancel();
  until_ = {};
  until_wall_ = {};
}

void SchedulerLease::forget(const kube::ObjectMeta& /*meta*/) {
  stop_leading();
}

std::string SchedulerLease::not_known() const {
  if (watch_.synced()) {
    return "";
  }
  std::string text =
      fmt::format("the Lease {} of the kube-scheduler in the same pod has not been read yet", lease_);
  if (watch_.problem()) {
    text += ": " + watch_.problem()->text();
  }
  return text;
}

std::chrono::milliseconds SchedulerLease::time_left() const {
  if (others_write_timer_.pending()) {
    return std::chrono::milliseconds(0);
  }
  return std::min(std::chrono::duration_cast<std::chrono::milliseconds>(until_ - clock_.now()),
                  std::chrono::duration_cast<std::chrono::milliseconds>(until_wall_ - clock_.wall()));
}

void SchedulerLease::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  stop_leading();
  others_write_until_ = Clock::Steady::max();  // the holder is unknown
  log::warn("cannot decode Lease", {{"name", meta.namespace_name + "/" + meta.name}, {"error", error}});
}

}  // namespace tessera::extender
