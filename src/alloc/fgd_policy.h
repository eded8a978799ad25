// alloc/fgd_policy.h
//
// Applies the policy `fgd` to the nodes of the ledger.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alloc/fgd.h"
#include "alloc/ledger.h"
#include "alloc/query.h"
#include "alloc/typical.h"

namespace tessera::alloc {

class FgdPolicy {
 public:
  // The ledger must outlive this object.
  explicit FgdPolicy(const Ledger& ledger) : ledger_(&ledger) {}

  void set_typical(std::vector<TypicalRequest> typical);

  // Adapts the policy to the ledger's current nodes and to the current typical pods. Call it before
  // the functions below. Returns whether their results may differ from earlier results.
  bool refresh();

  // Returns the best GPUs for one part of the request, chosen from the allowed GPUs `may`. Returns
  // nullopt if the part does not fit.
  [[nodiscard]] std::optional<Fgd::Choice> choose_share(const NodeView& view, GpuMask may,
                                                        const SharePart& share, std::int64_t cpu_milli) const;
  // Returns the level (fgd.h) that results if a pod takes the GPUs `taken` whole.
  [[nodiscard]] std::int32_t level_of_whole(const NodeView& view, GpuMask taken,
                                            std::int64_t cpu_milli) const;
  // Returns the level of a choice with several parts.
  [[nodiscard]] std::int32_t level_of(const Query& query, const NodeView& view,
                                      const GpuChoice& choice) const;

 private:
  const Ledger* ledger_;
  std::vector<TypicalRequest> typical_;
  std::optional<Fgd> fgd_;
  std::uint64_t inventory_version_ = 0;
};

}  // namespace tessera::alloc
