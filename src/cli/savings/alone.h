// cli/savings/alone.h
//
// Finds out why a pod that may share a GPU has one for itself. Private to cli/savings.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/savings/packing.h"
#include "cli/savings/plan.h"

namespace tessera::cli {

// Returns what keeps the pod from the GPUs of other pods. `position` is that of the pod in
// PackInput::sharing; the pod must have a place and be alone there. If different GPUs lack
// different things, only the GPUs that lack the fewest things count. The result is sorted and not empty.
std::vector<Alone> why_alone(const PackInput& input, const Packing& packing, std::size_t position);

}  // namespace tessera::cli
