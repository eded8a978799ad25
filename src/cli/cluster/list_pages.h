// cli/cluster/list_pages.h
//
// Cuts a saved list of API objects (`kubectl get pods -A -o json`) into pages, so that a list of any size is
// read with little memory: 10,000 pods as the API server prints them are 100 MB of text.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>

#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::cli {

struct PageLimits {
  std::size_t page_bytes = 1U << 20U;   // a page ends behind the item that reaches this
  std::size_t item_bytes = 16U << 20U;  // no object of an API server is as large
};

// Calls `page` with lists of their own that hold the items of the list in `in`, in order. Stops when `page`
// fails. What is between the items is only looked at as far as is needed to find them; the items themselves
// are not read at all.
//
// kInvalid when `in` is not a JSON object with an array `items`, or ends early.
Status each_page(std::istream& in, const PageLimits& limits,
                 const std::function<Status(json::PaddedView)>& page);

}  // namespace tessera::cli
