// Bodies of every verb, through reading and deciding: whatever comes, the answer is JSON.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "extender/args.h"
#include "extender/books.h"
#include "extender/decisions.h"

using namespace tessera;

namespace {

void must_be_json(const std::string& text) {
  boost::json::error_code error;
  boost::json::parse(text, error);
  if (error) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static extender::Books books{{}};
  static extender::ArgsReader reader{alloc::ResourceNames(), books.node_index()};
  static extender::Decisions decisions(books);
  static const bool filled = [] {
    alloc::NodeSpec node;
    node.name = "a";
    node.gpu_memory_units = 32;
    node.gpu_count = 2;
    books.keep_node(node);
    return true;
  }();
  static_cast<void>(filled);
  json::PaddedBuffer body(std::string_view(reinterpret_cast<const char*>(data), size));
  if (const auto args = reader.node_args(body.view())) {
    std::string filter;
    decisions.filter(**args, filter);
    must_be_json(filter);
    std::string best;
    decisions.filter_best(**args, 128, best);
    must_be_json(best);
    std::string prioritize;
    decisions.prioritize(**args, 128, prioritize);
    must_be_json(prioritize);
  }
  if (const auto args = reader.preempt_args(body.view())) {
    std::string preempt;
    decisions.preempt(*args, preempt);
    must_be_json(preempt);
  }
  static_cast<void>(reader.bind_args(body.view()));
  return 0;
}
