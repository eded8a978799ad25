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
        "leader election: the retry period must be shorter than the renew deadline, and that shorter than "
        "the lease's duration (1 s, 10 s and 15 s are the default)");
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
  // Both clocks must agree: a virtual machine that was paused finds its steady clock standing where it was,
  // but its calendar moved on.
  return clock_->now() < valid_until_ && clock_->wall() < valid_until_wall_;
}

LeaseRecord LeaderElection::claim(bool renewal) const {
  LeaseRecord record;
  record.holder = options_.identity;
  record.duration = options_.duration;
  record.renewed = std::chrono::floor<std::chrono::microseconds>(clock_->wall());
  record.acquired = renewal ? observed_.acquired : record.renewed;
  record.transitions = observed_.transitions + (renewal || !seen_ ? 0 : 1);
  record.resource_version = observed_.resource_version;
  return record;
}

bool LeaderElection::may_take() const {
  return observed_.holder.empty() || observed_.holder == options_.identity ||
         clock_->now() >= observed_at_ + observed_.duration;
}

LeaderElection::Step LeaderElection::begin() {
  sent_at_ = clock_->now();
  sent_wall_ = clock_->wall();
  resigned_ = false;
  step_ = Step{};
  if (knowledge_ == Knowledge::kAbsent) {
    step_ = Step{.ask = Ask::kCreate, .record = claim(false)};
    step_.record.resource_version.clear();
  } else if (knowledge_ == Knowledge::kPresent && may_take()) {
    step_ = Step{.ask = Ask::kUpdate, .record = claim(observed_.holder == options_.identity)};
  }
  return step_;
}

void LeaderElection::found(LeaseRecord record) {
  const bool changed = !seen_ || !record.same_claim(observed_);
  if (changed) {
    observed_at_ = clock_->now();
  }
  knowledge_ = Knowledge::kPresent;
  seen_ = true;
  observed_ = std::move(record);
  if (observed_.holder != options_.identity) {
    lose();
  }
  if (may_take()) {
    next_at_ = clock_->now();
  } else {
    wait_for_others();
    // The moment from which it may be taken is known: a candidate that asks by its period alone comes up to a
    // period late. Each saw the last renewal at a moment of its own, so they do not come together, and of two
    // that do one is refused for its version.
    next_at_ = std::min(next_at_, observed_at_ + observed_.duration);
  }
}

void LeaderElection::absent() {
  // Somebody deleted it: from now on anybody may make a new one and lead at once, so we do not.
  lose();
  knowledge_ = Knowledge::kAbsent;
  // Who held it may not have noticed yet, and may have renewed it until a moment ago: what we saw of it can
  // be old.
  const bool of_another = seen_ && !observed_.holder.empty() && observed_.holder != options_.identity;
  next_at_ = of_another ? clock_->now() + observed_.duration : clock_->now();
}

void LeaderElection::written(const std::string& resource_version) {
  observed_ = step_.record;
  observed_.resource_version = resource_version;
  observed_at_ = clock_->now();
  seen_ = true;
  knowledge_ = Knowledge::kPresent;
  believe(sent_at_, sent_wall_);
  next_at_ = sent_at_ + options_.retry_period;
}

void LeaderElection::conflicted() {
  // Not lost yet: it may be a label that was changed. Reading tells.
  knowledge_ = Knowledge::kNone;
  next_at_ = clock_->now();
  if (!leading()) {
    wait_for_others();
  }
}

void LeaderElection::failed() {
  knowledge_ = Knowledge::kNone;
  wait_for_others();
}

void LeaderElection::resign() {
  lose();
  resigned_ = true;
}

std::optional<LeaderElection::Step> LeaderElection::release() {
  if (knowledge_ != Knowledge::kPresent || observed_.holder != options_.identity) {
    return std::nullopt;
  }
  Step step{.ask = Ask::kUpdate, .record = claim(true)};
  step.record.holder.clear();
  step.record.duration = std::chrono::seconds(1);
  knowledge_ = Knowledge::kNone;
  return step;
}

void LeaderElection::lose() {
  valid_until_ = std::min(valid_until_, clock_->now());
  valid_until_wall_ = std::min(valid_until_wall_, clock_->wall());
}

void LeaderElection::believe(Clock::Steady sent, Clock::Wall sent_wall) {
  if (resigned_) {
    return;  // the answer to a renewal that was on its way
  }
  valid_until_ = sent + options_.renew_deadline;
  valid_until_wall_ = sent_wall + options_.renew_deadline;
}

// Candidates spread their questions, so that they do not all try in the same moment.
void LeaderElection::wait_for_others() {
  const auto period = std::chrono::duration_cast<std::chrono::milliseconds>(options_.retry_period);
  const auto jitter =
      std::chrono::milliseconds(below(random_, static_cast<std::uint64_t>(period.count() / 5 + 1)));
  next_at_ = clock_->now() + period + jitter;
}

}  // namespace tessera::kube
