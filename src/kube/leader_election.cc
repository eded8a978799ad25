#include "kube/leader_election.h"

#include <algorithm>

namespace tessera::kube {

Result<LeaderElection> LeaderElection::create(LeaderElectionOptions options, const Clock& clock,
                                              Random random) {
  if (options.identity.empty()) {
    return fail(ErrorCode::kInvalid, "leader election: the identity is empty; use the pod's name");
  }
  if (options.retry_period <= std::chrono::seconds(0) || options.retry_period >= options.renew_deadline ||
      options.renew_deadline >= options.duration) {
    return fail(
        ErrorCode::kInvalid,
        "leader election: the retry period must be shorter than the renew deadline, and the renew deadline "
        "shorter than the lease duration (defaults: 1 s, 10 s and 15 s)");
  }
  return LeaderElection(std::move(options), clock, std::move(random));
}

LeaderElection::LeaderElection(LeaderElectionOptions options, const Clock& clock, Random random)
    : options_(std::move(options)), clock_(&clock), random_(std::move(random)) {
  next_at_ = clock_->now();
  valid_until_ = next_at_;
  valid_until_wall_ = clock_->wall();
}

bool LeaderElection::leading() const {
  // Check both clocks: when a virtual machine was paused, its steady clock may not have advanced,
  // but its wall clock has.
  return clock_->now() < valid_until_ && clock_->wall() < valid_until_wall_;
}

LeaseRecord LeaderElection::new_record(bool renewal) const {
  LeaseRecord record;
  record.holder = options_.identity;
  record.duration = options_.duration;
  record.renewed = std::chrono::floor<std::chrono::microseconds>(clock_->wall());
  record.acquired = renewal ? observed_.acquired : record.renewed;
  record.transitions = observed_.transitions + (renewal || !seen_ ? 0 : 1);
  record.resource_version = observed_.resource_version;
  return record;
}

bool LeaderElection::may_take_over() const {
  return observed_.holder.empty() || observed_.holder == options_.identity ||
         clock_->now() >= observed_at_ + observed_.duration;
}

LeaderElection::Step LeaderElection::begin() {
  sent_at_ = clock_->now();
  sent_wall_ = clock_->wall();
  resigned_ = false;
  step_ = Step{};
  if (knowledge_ == Knowledge::kAbsent) {
    step_ = Step{.action = Action::kCreate, .record = new_record(false)};
    step_.record.resource_version.clear();
  } else if (knowledge_ == Knowledge::kPresent && may_take_over()) {
    step_ = Step{.action = Action::kUpdate, .record = new_record(observed_.holder == options_.identity)};
  }
  return step_;
}

void LeaderElection::found(LeaseRecord record) {
  const bool changed = !seen_ || !record.same_write(observed_);
  if (changed) {
    observed_at_ = clock_->now();
  }
  knowledge_ = Knowledge::kPresent;
  seen_ = true;
  absent_since_.reset();
  observed_ = std::move(record);
  if (observed_.holder != options_.identity) {
    stop_leading();
  }
  if (may_take_over()) {
    next_at_ = clock_->now();
  } else {
    schedule_with_jitter();
    // The time of a possible takeover is known. A candidate that only polls would be up to one
    // period late. Candidates saw the last renewal at different times, so they do not all try at
    // once; if two do, the resourceVersion lets only one succeed.
    next_at_ = std::min(next_at_, observed_at_ + observed_.duration);
  }
}

void LeaderElection::absent() {
  // The Lease was deleted. Any process may now create a new one and lead at once, so stop leading.
  stop_leading();
  const Clock::Steady now = clock_->now();
  absent_since_ = absent_since_.value_or(now);
  // The previous holder may not have noticed yet, and may have renewed it just before the deletion,
  // after our last read. So wait for the full duration. Read in the meantime: the holder usually
  // creates the Lease again.
  const bool of_another = seen_ && !observed_.holder.empty() && observed_.holder != options_.identity;
  const Clock::Steady create_at = of_another ? *absent_since_ + observed_.duration : now;
  if (now >= create_at) {
    knowledge_ = Knowledge::kAbsent;
    next_at_ = now;
    return;
  }
  knowledge_ = Knowledge::kNone;
  schedule_with_jitter();
  next_at_ = std::min(next_at_, create_at);
}

void LeaderElection::written(const std::string& resource_version) {
  observed_ = step_.record;
  observed_.resource_version = resource_version;
  observed_at_ = clock_->now();
  seen_ = true;
  absent_since_.reset();
  knowledge_ = Knowledge::kPresent;
  extend(sent_at_, sent_wall_);
  next_at_ = sent_at_ + options_.retry_period;
}

void LeaderElection::conflicted() {
  // This need not be a new leader: another client may have changed a label. Read the Lease to find
  // out.
  knowledge_ = Knowledge::kNone;
  next_at_ = clock_->now();
  if (!leading()) {
    schedule_with_jitter();
  }
}

void LeaderElection::failed() {
  knowledge_ = Knowledge::kNone;
  schedule_with_jitter();
}

void LeaderElection::resign() {
  stop_leading();
  resigned_ = true;
}

std::optional<LeaderElection::Step> LeaderElection::release() {
  if (knowledge_ != Knowledge::kPresent || observed_.holder != options_.identity) {
    return std::nullopt;
  }
  Step step{.action = Action::kUpdate, .record = new_record(true)};
  step.record.holder.clear();
  step.record.duration = std::chrono::seconds(1);
  knowledge_ = Knowledge::kNone;
  return step;
}

void LeaderElection::stop_leading() {
  valid_until_ = std::min(valid_until_, clock_->now());
  valid_until_wall_ = std::min(valid_until_wall_, clock_->wall());
}

void LeaderElection::extend(Clock::Steady sent, Clock::Wall sent_wall) {
  if (resigned_) {
    return;  // the response to a renewal that was in flight
  }
  valid_until_ = sent + options_.renew_deadline;
  valid_until_wall_ = sent_wall + options_.renew_deadline;
}

// Schedules the next step with jitter, so that candidates do not all try at the same time.
void LeaderElection::schedule_with_jitter() {
  const auto period = std::chrono::duration_cast<std::chrono::milliseconds>(options_.retry_period);
  const auto jitter =
      std::chrono::milliseconds(below(random_, static_cast<std::uint64_t>(period.count() / 5 + 1)));
  next_at_ = clock_->now() + period + jitter;
}

}  // namespace tessera::kube
