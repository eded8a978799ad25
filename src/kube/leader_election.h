// kube/leader_election.h
//
// Leader election by a Lease, as a state machine without I/O: it says what to ask the API server and when,
// and is told what came of it. leader_elector.h connects it to a client.
//
//   while (true) {
//     wait until election.next_at();
//     LeaderElection::Step step = election.begin();
//     ... send it, then exactly one of election.found(), absent(), written(), conflicted(), failed()
//   }
//
// No two leaders at once: a candidate takes a Lease over only after it has seen it unchanged for the Lease's
// whole duration on its own clock, and a leader believes in its Lease only for renew_deadline (which is
// shorter) after it SENT the last renewal that worked. Clocks of different machines are never compared. The
// time between renew_deadline and duration is for what the leader set off just before: a Binding must be
// finished, or given up by the server too, within it.
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
  // Ours alone among all living processes: the pod's name and a random part.
  std::string identity;
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};
  // Also how late a candidate may see the last renewal, and with it take the Lease over.
  std::chrono::seconds retry_period{1};
};

class LeaderElection {
 public:
  enum class Ask { kRead, kCreate, kUpdate };
  struct Step {
    Ask ask = Ask::kRead;
    LeaseRecord record;  // what to write; for kUpdate with the resourceVersion it must still have
  };

  // kInvalid when the times do not leave room for each other (retry_period < renew_deadline < duration).
  static Result<LeaderElection> create(LeaderElectionOptions options, const Clock& clock, Random random);

  // When begin() is due. Not before the answer to the last step was given.
  [[nodiscard]] Clock::Steady next_at() const { return next_at_; }
  Step begin();

  // The answers.
  void found(LeaseRecord record);                     // kRead: there it is
  void absent();                                      // kRead, kUpdate: there is no such Lease
  void written(const std::string& resource_version);  // kCreate, kUpdate: done
  void conflicted();                                  // kCreate, kUpdate: somebody else was faster
  void failed();                                      // no answer, or none that says what happened

  // Whether we lead now. Asked before each act of a leader.
  [[nodiscard]] bool leading() const;
  // Until when, if nothing is renewed. What a leader starts must be over by then plus (duration -
  // renew_deadline); in the past when we do not lead.
  [[nodiscard]] Clock::Steady valid_until() const { return valid_until_; }
  // Who leads, as far as is known; "" for nobody.
  [[nodiscard]] const std::string& holder() const { return observed_.holder; }

  // Stop leading at once, whatever answers still come. begin() makes us a candidate again.
  void resign();
  // After that, and when no answer is due any more: the step that tells the others that they need not wait,
  // if there is anything to hand over. Its outcome need not be told.
  std::optional<Step> release();

 private:
  LeaderElection(LeaderElectionOptions options, const Clock& clock, Random random);

  [[nodiscard]] LeaseRecord claim(bool renewal) const;
  [[nodiscard]] bool may_take() const;
  void lose();
  void believe(Clock::Steady sent, Clock::Wall sent_wall);
  void wait_for_others();

  LeaderElectionOptions options_;
  const Clock* clock_;
  Random random_;

  enum class Knowledge { kNone, kAbsent, kPresent };
  Knowledge knowledge_ = Knowledge::kNone;  // kNone: read before anything else
  bool seen_ = false;                       // observed_ holds a record that was read or written
  LeaseRecord observed_;
  Clock::Steady observed_at_{};  // when it last changed

  Step step_;  // the one under way, or the last
  Clock::Steady sent_at_{};
  Clock::Wall sent_wall_{};

  bool resigned_ = false;
  Clock::Steady next_at_{};
  Clock::Steady valid_until_{};
  Clock::Wall valid_until_wall_{};
};

}  // namespace tessera::kube
