// topology/static_sets.h
//
// The `static` policy: an operator's own table of good sets.
//
//   {"ecs.sccgn6.24xlarge": {"2": [[0,2],[1,3],[4,6],[5,7]], "4": [[0,1,2,3],[4,5,6,7]]},
//    "*":                   {"2": [[0,1],[2,3]]}}
//
// machine type -> how many GPUs -> sets, best first. "*" stands for every type that has no entry. A topology
// design before us shipped files of this form; they work unchanged.
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
  // Refuses sets whose length is not their key, repeated or impossible indices, and says where they stand.
  static Result<StaticSets> from_json(const JsonReader& reader);

  // The first listed set of the count that is free; else the best part, by choose_ring, of a larger listed
  // set that is entirely free, smaller sets first. Fails with kNotFound, and a reason that is the same for
  // all nodes of a type, when the table does not know the machine type, and with kExhausted when it lists
  // nothing that is free. Neither is an error of the pod: the caller may go on with another policy or node.
  [[nodiscard]] Result<SetChoice> choose(const SetTables& tables, std::string_view machine_type,
                                         const SetQuery& query) const;

  // Which of two names of a machine the table lists, the first where it lists both or neither.
  [[nodiscard]] std::string_view listed(std::string_view type, std::string_view other) const;

  [[nodiscard]] bool empty() const { return machines_.empty(); }

 private:
  using SetsByCount = std::map<unsigned, std::vector<GpuMask>>;

  [[nodiscard]] const SetsByCount* find(std::string_view machine_type) const;

  std::map<std::string, SetsByCount, std::less<>> machines_;
};

}  // namespace tessera::topology
