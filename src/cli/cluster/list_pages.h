// cli/cluster/list_pages.h
//
// Splits a saved list of API objects (`kubectl get pods -A -o json`) into pages, so that a list of
// any size can be read with little memory: 10,000 pods are about 100 MB of JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>

#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::cli {

struct PageLimits {
  std::size_t page_bytes = 1U << 20U;   // a page ends after the item that reaches this size
  std::size_t item_bytes = 16U << 20U;  // limit for one item; no object of an API server is larger
};

// Splits the list in `in` into smaller lists and calls `page` with each of them, in order. Stops
// when `page` fails, and returns the error of `page`. Does not parse the items. Checks the JSON
// between the items only as far as needed to find them.
//
// Returns kInvalid if `in` is truncated, is not a JSON object with an array `items`, or has an item
// over limits.item_bytes.
Status each_page(std::istream& in, const PageLimits& limits,
                 const std::function<Status(json::PaddedView)>& page);

}  // namespace tessera::cli
