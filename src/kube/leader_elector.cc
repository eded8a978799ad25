#include "kube/leader_elector.h"

#include <algorithm>

#include "base/log.h"
#include "kube/lease_record.h"
#include "kube/request.h"

namespace tessera::kube {

namespace {

std::chrono::milliseconds until(Clock::Steady when, const Clock& clock) {
  // Add 1 ms, because the remaining time is rounded down.
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(when - clock.now());
  return std::max(left + std::chrono::milliseconds(1), std::chrono::milliseconds(0));
}

}  // namespace

Result<std::unique_ptr<LeaderElector>> LeaderElector::create(Client& client, LeaderElectorOptions options,
                                                             OnChange on_change) {
  if (options.namespace_name.empty() || options.lease.empty()) {
    return fail(ErrorCode::kInvalid, "leader election: the Lease needs a namespace and a name");
  }
  LeaderElection election = TRY(LeaderElection::create(options.election, client.clock(), client.random()));
  return std::unique_ptr<LeaderElector>(
      new LeaderElector(client, std::move(options), std::move(election), std::move(on_change)));
}

LeaderElector::LeaderElector(Client& client, LeaderElectorOptions options, LeaderElection election,
                             OnChange on_change)
    : client_(client),
      options_(std::move(options)),
      election_(std::move(election)),
      on_change_(std::move(on_change)) {}

void LeaderElector::start() {
  timer_ = client_.loop().after(std::chrono::nanoseconds(0), [this] { step(); });
}

std::chrono::milliseconds LeaderElector::time_left() const {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(election_.valid_until() - client_.clock().now());
  return leading() ? std::max(left, std::chrono::milliseconds(0)) : std::chrono::milliseconds(0);
}

Request LeaderElector::request_for(const LeaderElection::Step& step) const {
  const std::string& space = options_.namespace_name;
  Request request;
  switch (step.action) {
    case LeaderElection::Action::kRead:
      request = get_request(lease_path(space, options_.lease));
      break;
    case LeaderElection::Action::kCreate:
      request = create_request(lease_path(space, ""), lease_to_create(space, options_.lease, step.record));
      break;
    case LeaderElection::Action::kUpdate:
      request = patch_request_at_version(lease_path(space, options_.lease), lease_to_patch(step.record));
      break;
  }
  // The election itself retries, so a later response would be useless.
  request.deadline =
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.election.renew_deadline) / 2;
  request.max_attempts = 1;
  return request;
}

void LeaderElector::step() {
  const LeaderElection::Step step = election_.begin();
  call_ = client_.send(request_for(step),
                       [this, action = step.action](const Result<Reply>& reply) { on_reply(action, reply); });
}

void LeaderElector::on_reply(LeaderElection::Action action, const Result<Reply>& reply) {
  if (reply) {
    auto record = parse_lease(reply->body.text());
    if (!record) {
      log::warn("cannot parse the lease", {{"lease", options_.lease}, {"error", record.error()}});
      election_.failed();
    } else if (action == LeaderElection::Action::kRead) {
      election_.found(std::move(*record));
    } else {
      election_.written(record->resource_version);
    }
  } else if (reply.error().code() == ErrorCode::kNotFound && action != LeaderElection::Action::kCreate) {
    election_.absent();
  } else if (reply.error().code() == ErrorCode::kConflict) {
    election_.conflicted();
  } else {
    log::warn("cannot read or write the lease", {{"lease", options_.lease}, {"error", reply.error()}});
    election_.failed();
  }
  report_change();
  if (on_released_) {
    release();
  } else {
    schedule();
  }
}

void LeaderElector::schedule() {
  timer_ = client_.loop().after(until(election_.next_at(), client_.clock()), [this] { step(); });
  if (election_.leading()) {
    expiry_ =
        client_.loop().after(until(election_.valid_until(), client_.clock()), [this] { report_change(); });
  }
}

void LeaderElector::report_change() {
  const bool now = election_.leading();
  if (now == reported_) {
    return;
  }
  reported_ = now;
  log::info(now ? "started leading" : "stopped leading",
            {{"lease", options_.lease}, {"holder", election_.holder()}});
  if (on_change_) {
    on_change_(now);
  }
}

void LeaderElector::hand_over(std::function<void()> done) {
  timer_ = {};
  expiry_ = {};
  on_released_ = std::move(done);
  election_.resign();
  report_change();
  // A renewal in flight changes the resourceVersion. Its response has the version that release()
  // needs.
  if (!call_.active()) {
    release();
  }
}

void LeaderElector::release() {
  const auto step = election_.release();
  if (!step) {
    timer_ = client_.loop().after(std::chrono::nanoseconds(0), std::move(on_released_));
    return;
  }
  call_ =
      client_.send(request_for(*step), [then = std::move(on_released_)](const Result<Reply>&) { then(); });
}

}  // namespace tessera::kube
