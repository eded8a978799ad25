// Request bodies of every verb, parsed and decided: the response is valid JSON for any input.
#include <fmt/core.h>

#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "extender/args.h"
#include "extender/cluster_state.h"
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
  static extender::ClusterState state{{}};
  static extender::ArgsReader reader{alloc::ResourceNames(), state.node_index()};
  static extender::Decisions decisions(state);
  static const bool filled = [] {
    alloc::NodeSpec node;
    node.name = "a";
    node.gpu_memory_units = 32;
    node.gpu_count = 2;
    state.keep_node(node);
    // A node with possible victims: whole GPUs and shares, one of them with a disruption budget.
    node = {};
    node.name = "b";
    node.inventory =
        R"({"v":1,"unit":"GiB","driver":"550","gpus":[)"
        R"({"uuid":"GPU-0","index":0,"minor":0,"model":"V100","memory_mib":16384,"reserved_mib":0},)"
        R"({"uuid":"GPU-1","index":1,"minor":1,"model":"V100","memory_mib":16384,"reserved_mib":0}]})";
    state.keep_node(node);
    for (int i = 0; i < 5; ++i) {
      const bool whole = i == 4;
      json::PaddedBuffer text(fmt::format(
          R"({{"metadata":{{"name":"v{0}","namespace":"d","uid":"u{0}","resourceVersion":"1","annotations":{{"tessera.io/allocation":)"
          R"("{{\"v\":1,\"containers\":{{\"m\":[{{\"gpu\":\"GPU-{1}\",{2}}}]}}}}"}}}},"spec":{{"nodeName":"b","priority":{0},)"
          R"("containers":[{{"name":"m","resources":{{"limits":{{"aliyun.com/{3}"}}}}}}]}}}})",
          i, whole ? 1 : 0, whole ? R"(\"whole\":true)" : R"(\"mem\":4)",
          whole ? R"(gpu":"1)" : R"(gpu-mem":"4)"));
      alloc::PodSpec pod;
      if (!reader.pod(text.view(), pod)) {
        std::abort();
      }
      state.keep_pod(pod);
    }
    if (state.ledger().pod_count() != 5) {
      std::abort();
    }
    const std::array labels{objects::hash_of_label("app", "web")};
    state.budgets().keep_labels("u0", labels);
    objects::DisruptionBudget budget;
    state.budgets().keep("d", "one", budget);
    state.budgets().set_known();
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
