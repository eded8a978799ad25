// kube/list_decoder.h
//
// Parses a page of a list (PodList, NodeList, ...) and passes on its items one by one. Does no I/O.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "json/padded_buffer.h"
#include "kube/object_sink.h"

namespace tessera::kube {

struct ListPage {
  std::uint64_t version = 0;   // resourceVersion of the list
  std::string continue_token;  // "" on the last page
  std::size_t items = 0;
  std::size_t remaining = 0;  // items on the following pages; 0 if the server does not say
};

class ListDecoder {
 public:
  ListDecoder();
  ListDecoder(ListDecoder&&) noexcept;
  ListDecoder& operator=(ListDecoder&&) noexcept;
  ~ListDecoder();

  // Called for each item after the sink's decode(); `decoded` is its result.
  using OnItem = std::function<void(const ObjectMeta& meta, const Status& decoded)>;

  // Called with the metadata of the list before any item, so that the caller can request the next
  // page while this one is parsed. Not called if the metadata follows the items, but API servers
  // write the metadata first.
  using OnHead = std::function<void(const ListPage& head)>;

  // Parses a page. Returns kInvalid if the page is not JSON or not a list. `on_item` was then
  // already called for the items before the error. An item that the sink cannot decode is not an
  // error of the page, unless the item has no name.
  Result<ListPage> decode(json::PaddedView page, ObjectSink& sink, const OnItem& on_item,
                          const OnHead& on_head = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::kube
