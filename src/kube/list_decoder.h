// kube/list_decoder.h
//
// Reads a page of a list (PodList, NodeList, ...) and hands out its items one by one. Pure; one thread.
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
  std::uint64_t version = 0;   // of the whole list
  std::string continue_token;  // "" on the last page
  std::size_t items = 0;
  std::size_t remaining = 0;  // on the pages to come, where the server knows
};

class ListDecoder {
 public:
  ListDecoder();
  ListDecoder(ListDecoder&&) noexcept;
  ListDecoder& operator=(ListDecoder&&) noexcept;
  ~ListDecoder();

  // Called with each item after its decode(); `decoded` is what that returned.
  using OnItem = std::function<void(const ObjectMeta& meta, const Status& decoded)>;

  // Called with what the page says of the list before any of its items, where it stands before them, as API
  // servers write it: the next page can be on its way while this one is read.
  using OnHead = std::function<void(const ListPage& head)>;

  // kInvalid when the page is not JSON, or not a list; items before the place where it went wrong have been
  // handed out then. An item that the sink cannot read is not a fault of the page, unless it has no name.
  Result<ListPage> decode(json::PaddedView page, ObjectSink& sink, const OnItem& on_item,
                          const OnHead& on_head = {});

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tessera::kube
