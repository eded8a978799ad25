#include "kube/leader_elector.h"

#include <algorithm>

#include "base/log.h"
#include "kube/lease_record.h"
#include "kube/request.h"

namespace tessera::kube {

namespace {

std::chrono::milliseconds until(Clock::Steady when, const Clock& clock) {
  // One more, because what is left is rounded down.
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
  switch (step.ask) {
    case LeaderElection::Ask::kRead:
      request = get_request(lease_path(space, options_.lease));
      break;
    case LeaderElection::Ask::kCreate:
      request = create_request(lease_path(space, ""), lease_to_create(space, options_.lease, step.record));
      break;
    case LeaderElection::Ask::kUpdate:
      request = patch_request_at_version(lease_path(space, options_.lease), lease_to_patch(step.record));
      break;
  }
  // The election itself tries again; an answer that comes later than that is of no use.
  request.deadline =
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.election.renew_deadline) / 2;
  request.max_attempts = 1;
  return request;
}

void LeaderElector::step() {
  const LeaderElection::Step step = election_.begin();
  call_ = client_.send(request_for(step),
                       [this, ask = step.ask](const Result<Reply>& reply) { answered(ask, reply); });
}

void LeaderElector::answered(LeaderElection::Ask ask, const Result<Reply>& reply) {
  if (reply) {
    auto record = parse_lease(reply->body.text());
    if (!record) {
      log::warn("lease not understood", {{"lease", options_.lease}, {"error", record.error()}});
      election_.failed();
    } else if (ask == LeaderElection::Ask::kRead) {
      election_.found(std::move(*record));
    } else {
      election_.written(record->resource_version);
    }
  } else if (reply.error().code() == ErrorCode::kNotFound && ask != LeaderElection::Ask::kCreate) {
    election_.absent();
  } else if (reply.error().code() == ErrorCode::kConflict) {
    election_.conflicted();
  } else {
    log::warn("lease not reached", {{"lease", options_.lease}, {"error", reply.error()}});
    election_.failed();
  }
  tell();
  if (on_released_) {
    release();
  } else {
    schedule();
  }
}

void LeaderElector::schedule() {
  timer_ = client_.loop().after(until(election_.next_at(), client_.clock()), [this] { step(); });
  if (election_.leading()) {
    expiry_ = client_.loop().after(until(election_.valid_until(), client_.clock()), [this] { tell(); });
  }
}

void LeaderElector::tell() {
  const bool now = election_.leading();
  if (now == told_) {
    return;
  }
  told_ = now;
  log::info(now ? "leading" : "no longer leading",
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
  tell();
  // A renewal that is on its way changes the version; the answer brings the one to release.
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
