// kube/leader_election.h
//
// Leader election with a Lease, as a state machine without I/O: it decides which request to send
// and when, and receives the outcome. leader_elector.h connects it to a client.
//
//   while (true) {
//     wait until election.next_at();
//     LeaderElection::Step step = election.begin();
//     ... send it, then call exactly one of found(), absent(), written(), conflicted(), failed()
//   }
//
// There are never two leaders at once, for two reasons. A candidate takes over a Lease only after
// the Lease has not changed for its whole duration, measured on the candidate's own clock. A leader
// considers its Lease valid only for renew_deadline, which is shorter, after it SENT the last
// successful renewal. Clocks of different machines are never compared.
//
// A leader may send a request just before renew_deadline. The server must finish or abort that
// request before another process can lead, that is within (duration - renew_deadline).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/backoff.h"
#include "kube/lease_record.h"

namespace tessera::kube {

struct LeaderElectionOptions {
  // Unique among all running processes: the pod's name and a random part.
  std::string identity;
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};
  // The interval at which the leader renews the Lease and a candidate reads it. A candidate notices
  // a renewal up to this much later, which delays a takeover by the same time.
  std::chrono::seconds retry_period{1};
};

class LeaderElection {
 public:
  enum class Action { kRead, kCreate, kUpdate };
  struct Step {
    Action action = Action::kRead;
    LeaseRecord record;  // what to write; for kUpdate with the expected resourceVersion
  };

  // Returns kInvalid unless retry_period < renew_deadline < duration.
  static Result<LeaderElection> create(LeaderElectionOptions options, const Clock& clock, Random random);

  // Returns when to call begin().
  [[nodiscard]] Clock::Steady next_at() const { return next_at_; }
  // Returns the next step. The outcome of the previous step must have been reported.
  Step begin();

  // Report the outcome of a step. The comments name the actions that each one can follow.
  void found(LeaseRecord record);                     // kRead: the Lease exists
  void absent();                                      // kRead, kUpdate: the Lease does not exist
  void written(const std::string& resource_version);  // kCreate, kUpdate: success
  void conflicted();                                  // kCreate, kUpdate: another process was first
  void failed();                                      // any action: no response, or an unclear one

  // Returns whether this process leads now. Check it before each action of a leader.
  [[nodiscard]] bool leading() const;
  // Returns the time at which leadership ends unless the Lease is renewed. The time is in the past
  // if this process does not lead. Everything that a leader starts must end at most (duration -
  // renew_deadline) after this time.
  [[nodiscard]] Clock::Steady valid_until() const { return valid_until_; }
  // Returns the last known holder; "" if there is none.
  [[nodiscard]] const std::string& holder() const { return observed_.holder; }

  // Stops leading immediately, even if responses still arrive. begin() makes this process a candidate
  // again.
  void resign();
  // Returns the step that releases the Lease, so that other candidates need not wait for it to
  // expire. Returns nullopt if this process does not hold the Lease. Call it after resign(), when
  // no step is in flight. The outcome of the step need not be reported.
  std::optional<Step> release();

 private:
  LeaderElection(LeaderElectionOptions options, const Clock& clock, Random random);

  [[nodiscard]] LeaseRecord new_record(bool renewal) const;
  [[nodiscard]] bool may_take_over() const;
  void stop_leading();
  void extend(Clock::Steady sent, Clock::Wall sent_wall);
  void schedule_with_jitter();

  LeaderElectionOptions options_;
  const Clock* clock_;
  Random random_;

  enum class Knowledge { kNone, kAbsent, kPresent };
  Knowledge knowledge_ = Knowledge::kNone;  // kNone: the next step must read the Lease
  bool seen_ = false;                       // observed_ is a record that was read or written
  LeaseRecord observed_;
  Clock::Steady observed_at_{};                // when observed_ last changed
  std::optional<Clock::Steady> absent_since_;  // set while the Lease does not exist

  Step step_;  // the current or last step
  Clock::Steady sent_at_{};
  Clock::Wall sent_wall_{};

  bool resigned_ = false;
  Clock::Steady next_at_{};
  Clock::Steady valid_until_{};
  Clock::Wall valid_until_wall_{};
};

}  // namespace tessera::kube
