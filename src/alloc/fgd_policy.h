// alloc/fgd_policy.h
//
// The policy `fgd` as the placer uses it: on the ledger's nodes.
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
  // Refers to the ledger, which must live longer.
  explicit FgdPolicy(const Ledger& ledger) : ledger_(&ledger) {}

  void set_typical(std::vector<TypicalRequest> typical);

  // Takes in nodes that have come, gone or become others, and other typical pods. To be called before the
  // questions below. True when their answers may be others than before.
  bool refresh();

  // The best GPUs of `may` for one part.
  [[nodiscard]] std::optional<Fgd::Choice> choose_share(const NodeView& view, GpuMask may,
                                                      const SharePart& share, std::int64_t cpu_milli) const;
  // How good it is to take these GPUs whole.
  [[nodiscard]] std::int32_t level_of_whole(const NodeView& view, GpuMask taken,
                                            std::int64_t cpu_milli) const;
  // How good a choice of several parts is.
  [[nodiscard]] std::int32_t level_of(const Query& query, const NodeView& view, const GpuChoice& choice) const;

 private:
  const Ledger* ledger_;
  std::vector<TypicalRequest> typical_;
  std::optional<Fgd> fgd_;
  std::uint64_t inventory_version_ = 0;
};

}  // namespace tessera::alloc
