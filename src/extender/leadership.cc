#include "extender/leadership.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "kube/backoff.h"

namespace tessera::extender {

Leadership::Leadership(kube::Client& client, const Config& config, OwnPod own_pod, kube::Reflector& pods)
    : client_(client),
      config_(config),
      own_pod_(std::move(own_pod)),
      freshness_(client.loop(), client.clock(), pods),
      label_(client, own_pod_.namespace_name, own_pod_.name) {}

Status Leadership::prepare() {
  return config_.attach == Attach::kSidecar ? prepare_sidecar() : prepare_replica();
}

Status Leadership::prepare_sidecar() {
  if (config_.scheduler_lease_name.empty()) {
    return {};
  }
  if (own_pod_.name.empty()) {
    return fail(ErrorCode::kInvalid,
                "schedulerLease: needs the name of the pod to recognize the scheduler next to this extender; "
                "set the environment variable POD_NAME to metadata.name");
  }
  scheduler_lease_ = std::make_unique<SchedulerLease>(
      client_,
      SchedulerLease::Options{.namespace_name = config_.scheduler_lease_namespace,
                              .name = config_.scheduler_lease_name,
                              .own_pod = own_pod_.name,
                              .write_time = write_time()},
      [this] { freshness_.require_list("the kube-scheduler in the same pod started to lead"); });
  return {};
}

Status Leadership::prepare_replica() {
  const kube::Random random = kube::default_random();
  const std::string name = own_pod_.name.empty() ? "tessera-extender" : own_pod_.name;
  const std::string fallback = own_pod_.namespace_name.empty() ? "kube-system" : own_pod_.namespace_name;
  elector_ = TRY(kube::LeaderElector::create(
      client_,
      {.namespace_name = config_.lease_namespace.empty() ? fallback : config_.lease_namespace,
       .lease = config_.lease_name,
       .election = {.identity = fmt::format("{}_{:016x}", name, random()),
                    .duration = config_.lease_duration,
                    .renew_deadline = config_.renew_deadline,
                    .retry_period = config_.retry_period}},
      [this](bool leading) {
        if (leading) {
          freshness_.require_list(
              "this replica started to lead, and another one may have bound pods until now");
        }
        label_.set(leading);
      }));
  return {};
}

void Leadership::start() {
  freshness_.start();
  if (scheduler_lease_ != nullptr) {
    scheduler_lease_->start();
  }
  if (elector_ != nullptr) {
    // A container that crashed while it led has left the label on its pod.
    label_.set(false);
    elector_->start();
  }
}

void Leadership::refresh_label() {
  if (elector_ != nullptr && elector_->leading()) {
    label_.set(true);
  }
}

void Leadership::release(const std::function<void()>& done) {
  if (elector_ == nullptr) {
    done();
  } else {
    elector_->hand_over(done);
  }
}

std::chrono::milliseconds Leadership::write_time() const {
  // A replica releases its own Lease only after its writes have ended. A kube-scheduler releases
  // its Lease at once, so the next extender has to wait for our writes, and they must be short: see
  // SchedulerLease::begin_to_lead().
  return config_.scheduler_lease_name.empty() ? config_.bind_timeout : config_.bind_timeout / 2;
}

std::chrono::milliseconds Leadership::lead_time_left() const {
  if (elector_ != nullptr) {
    return std::min(write_time(), elector_->time_left());
  }
  // A sidecar leads while its scheduler leads. Without `schedulerLease`, any scheduler that calls
  // is the leader.
  return scheduler_lease_ != nullptr ? std::min(write_time(), scheduler_lease_->time_left()) : write_time();
}

std::chrono::milliseconds Leadership::time_left() {
  return freshness_.current() ? lead_time_left() : std::chrono::milliseconds(0);
}

bool Leadership::starts_soon() const {
  return (scheduler_lease_ != nullptr && scheduler_lease_->waits()) || (freshness_.awaits_list() && leads());
}

std::string Leadership::not_known() const {
  return scheduler_lease_ == nullptr ? "" : scheduler_lease_->not_known();
}

const kube::Reflector* Leadership::lease_watch() const {
  return scheduler_lease_ == nullptr ? nullptr : &scheduler_lease_->watch();
}

}  // namespace tessera::extender
