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

// kube-scheduler calls itself HOSTNAME_UUID, and a pod's host name is its own, of which 63 letters are taken.
std::string identity_prefix(const std::string& pod) {
  return pod.substr(0, 63) + "_";
}

constexpr std::chrono::seconds kLongest{3600};

// How long a Lease that was renewed is good for: a scheduler gives up after 10 of 15 seconds by default, and
// another one waits for all of them. What is under way at the end of this time has the rest to be finished.
std::chrono::milliseconds window(std::chrono::seconds duration) {
  return std::chrono::milliseconds(duration) * 2 / 3;
}

}  // namespace

SchedulerLease::SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead)
    : loop_(client.loop()),
      clock_(client.clock()),
      write_time_(options.write_time + kLateNews),
      lease_(options.namespace_name + "/" + options.name),
      own_prefix_(identity_prefix(options.own_pod)),
      on_lead_(std::move(on_lead)),
      watch_(client,
             {.path = kube::lease_path(options.namespace_name, ""),
              .field_selector = "metadata.name=" + options.name},
             *this) {}

Status SchedulerLease::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  read_ = {};
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
            return kube::read_text(inner, read_.holder);
          }
          if (kube::is(field, "renewTime")) {
            return kube::read_text(inner, read_.renewed);
          }
          return kube::is(field, "leaseDurationSeconds") ? inner.get_int64().get(seconds) : simdjson::SUCCESS;
        });
      });
  read_.duration = std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLongest.count()));
  return object.judge(error);
}

void SchedulerLease::keep(const kube::ObjectMeta& /*meta*/) {
  const bool is_own = read_.holder.starts_with(own_prefix_);
  const bool is_news = std::exchange(holder_, read_.holder) != read_.holder;
  const Clock::Steady now = clock_.now();
  until_ = {};
  until_wall_ = {};
  if (const Result<Clock::Wall> renewed = kube::parse_rfc3339(read_.renewed); is_own && renewed) {
    until_ = now + window(read_.duration);
    until_wall_ = *renewed + window(read_.duration);
  }
  if (!is_own && !read_.holder.empty()) {
    others_until_ = now + window(read_.duration);
  } else if (is_news) {
    // Given back, or taken: no other scheduler asks for anything from now on. After a gap of the watch what
    // was seen last may be older than what others wrote last.
    const Clock::Steady last_write = now + write_time_;
    others_until_ = watch_.listing() ? last_write : std::min(others_until_, last_write);
  }
  // Renewed every few seconds; only another holder is news.
  if (is_news) {
    others_end_.cancel();
    if (is_own) {
      begin_to_lead();
    }
  }
}

// The pods have to be read after the last write of another, so that is waited for before on_lead_. Waiting
// for the whole of bindTimeout would be simpler, but with the reading it would not end within 5 s of the
// Lease's being free; so beside a scheduler a write has only half of bindTimeout (Extender), which is over
// about when the next scheduler, which looks every 1 to 2.2 s, takes the Lease anyway.
void SchedulerLease::begin_to_lead() {
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(others_until_ - clock_.now());
  if (wait <= std::chrono::milliseconds(0)) {
    on_lead_();
    return;
  }
  log::info("waiting for writes of the extender that led before to be over",
            {{"lease", lease_}, {"for_ms", wait.count()}});
  others_end_ = loop_.after(wait, [this] { on_lead_(); });
}

void SchedulerLease::stop_leading() {
  holder_.clear();
  others_end_.cancel();
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
  std::string text = fmt::format("the Lease {} of the kube-scheduler beside it is still being read", lease_);
  if (watch_.problem()) {
    text += ": " + watch_.problem()->text();
  }
  return text;
}

std::chrono::milliseconds SchedulerLease::time_left() const {
  if (others_end_.pending()) {
    return std::chrono::milliseconds(0);
  }
  return std::min(std::chrono::duration_cast<std::chrono::milliseconds>(until_ - clock_.now()),
                  std::chrono::duration_cast<std::chrono::milliseconds>(until_wall_ - clock_.wall()));
}

void SchedulerLease::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  stop_leading();
  others_until_ = Clock::Steady::max();  // somebody may hold it whom this does not tell
  log::warn("object unreadable", {{"name", meta.namespace_name + "/" + meta.name}, {"why", error}});
}

}  // namespace tessera::extender
