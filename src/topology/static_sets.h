// topology/static_sets.h
//
// The `static` policy: an operator's own table of good sets.
//
//   {"ecs.sccgn6.24xlarge": {"2": [[0,2],[1,3],[4,6],[5,7]], "4": [[0,1,2,3],[4,5,6,7]]},
//    "*":                   {"2": [[0,1],[2,3]]}}
//
// Maps machine type -> number of GPUs -> sets, best first. "*" applies to every type without an
// entry. The files of the original GPU topology scheduler have this format and work unchanged.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "base/result.h"
#include "topology/set_search.h"

namespace tessera::topology {

class StaticSets {
 public:
  // Reads the table. Returns kInvalid, with the position, for a set whose length differs from the
  // number that it is listed under, and for repeated or invalid indices.
  static Result<StaticSets> from_json(const JsonReader& reader);

  // Returns the first listed set of `query.count` GPUs that is free and contains `query.required`.
  // If there is none, takes the first such set of the next larger size that has one, and returns
  // its best `query.count` GPUs (choose_ring). Returns kNotFound if the table has no entry for the
  // machine type, and kExhausted if no listed set is free. Neither is an error of the pod: the
  // caller may try another policy or node.
  [[nodiscard]] Result<SetChoice> choose(const SetTables& tables, std::string_view machine_type,
                                         const SetQuery& query) const;

  // A machine may have two names, `type` and `other`. Returns the name that the table lists.
  // Returns `type` if the table lists both names or neither.
  [[nodiscard]] std::string_view listed(std::string_view type, std::string_view other) const;

  [[nodiscard]] bool empty() const { return machines_.empty(); }

 private:
  using SetsByCount = std::map<unsigned, std::vector<GpuMask>>;

  [[nodiscard]] const SetsByCount* find(std::string_view machine_type) const;

  std::map<std::string, SetsByCount, std::less<>> machines_;
};

}  // namespace tessera::topology
