// kube/lease_record.h
//
// The coordination.k8s.io/v1 Lease, as far as leader election reads and writes it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tessera::kube {

struct LeaseRecord {
  std::string holder;  // "" when it was handed back
  std::chrono::seconds duration{15};
  Clock::Wall acquired{};
  Clock::Wall renewed{};
  int transitions = 0;
  std::string resource_version;

  // Whether the holder did anything between the two: what resets the wait of the others.
  [[nodiscard]] bool same_claim(const LeaseRecord& other) const {
    return holder == other.holder && duration == other.duration && renewed == other.renewed &&
           acquired == other.acquired && transitions == other.transitions;
  }
};

// A Lease object. Fields that are missing count as empty: a Lease that kubectl made has no spec at all.
Result<LeaseRecord> parse_lease(std::string_view json);

// A whole object, to be created.
std::string lease_to_create(std::string_view namespace_name, std::string_view name,
                            const LeaseRecord& record);

// A JSON merge patch that fails with 409 unless the object is still at record.resource_version; labels and
// annotations of others stay.
std::string lease_to_patch(const LeaseRecord& record);

}  // namespace tessera::kube
