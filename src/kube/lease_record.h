// kube/lease_record.h
//
// The fields of a coordination.k8s.io/v1 Lease that leader election uses.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tessera::kube {

struct LeaseRecord {
  std::string holder;  // "" after it was released
  std::chrono::seconds duration{15};
  Clock::Wall acquired{};
  Clock::Wall renewed{};
  int transitions = 0;
  std::string resource_version;

  // Returns whether both records are from the same write of the holder. After a new write, other
  // candidates wait for the full duration again. Ignores the resourceVersion, because a change of a
  // label is not a renewal.
  [[nodiscard]] bool same_write(const LeaseRecord& other) const {
    return holder == other.holder && duration == other.duration && renewed == other.renewed &&
           acquired == other.acquired && transitions == other.transitions;
  }
};

// Parses a Lease. Missing fields are empty: a Lease created by kubectl may have no spec.
Result<LeaseRecord> parse_lease(std::string_view json);

// Returns a complete Lease object as JSON, for a create request.
std::string lease_to_create(std::string_view namespace_name, std::string_view name,
                            const LeaseRecord& record);

// Returns a JSON merge patch that keeps labels and annotations. The API server responds 409 to it
// unless the object is still at record.resource_version.
std::string lease_to_patch(const LeaseRecord& record);

}  // namespace tessera::kube
