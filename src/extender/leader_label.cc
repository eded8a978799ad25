#include "extender/leader_label.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <utility>

#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

constexpr std::chrono::seconds kRetryAfter{1};

std::string label_patch(bool leading) {
  return fmt::format(R"({{"metadata":{{"labels":{{"{}":{}}}}}}})", alloc::key::kLeader,
                     leading ? R"("true")" : "null");
}

Result<std::vector<std::string>> names_of(std::string_view pod_list) {
  const boost::json::value document = TRY(parse_json(pod_list));
  std::vector<std::string> names;
  const JsonReader root(document, "the list of pods");
  for (const JsonReader& pod : TRY(root.array("items", 10'000))) {
    const JsonReader metadata = TRY(pod.object("metadata"));
    names.push_back(TRY(metadata.text("name")));
  }
  return names;
}

}  // namespace

LeaderLabel::LeaderLabel(kube::Client& client, std::string namespace_name, std::string pod)
    : client_(client), namespace_name_(std::move(namespace_name)), pod_(std::move(pod)) {}

void LeaderLabel::set(bool leading) {
  if (pod_.empty() || namespace_name_.empty()) {
    return;
  }
  leading_ = leading;
  retry_timer_.cancel();
  list_call_ = {};
  other_calls_.clear();
  write_own();
  if (leading) {
    list_others();
  }
}

void LeaderLabel::write_own() {
  kube::Request request = kube::patch_request(kube::pod_path(namespace_name_, pod_), label_patch(leading_));
  own_call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) {
    if (!reply) {
      log::error("cannot update the leader label of the own pod; retrying",
                 {{"leading", leading_}, {"error", reply.error()}});
      // While the Service selects no pod, kube-scheduler reaches no extender. So retry until the
      // label is set or the state changes.
      retry_timer_ = client_.loop().after(kRetryAfter, [this] { write_own(); });
    }
  });
}

void LeaderLabel::list_others() {
  kube::Request request = kube::get_request(kube::pod_path(namespace_name_, ""));
  request.query = "labelSelector=" + kube::percent_encoded(fmt::format("{}=true", alloc::key::kLeader));
  list_call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) {
    const Result<std::vector<std::string>> pods = reply ? names_of(reply->body.text()) : fail(reply.error());
    if (!pods) {
      log::warn("cannot list pods with the leader label; the Service may still select a dead one",
                {{"error", pods.error()}});
      return;
    }
    for (const std::string& pod : *pods) {
      if (pod != pod_) {
        remove_from(pod);
      }
    }
  });
}

void LeaderLabel::remove_from(const std::string& pod) {
  log::info("removing the leader label from a pod that no longer leads", {{"pod", pod}});
  other_calls_.push_back(
      client_.send(kube::patch_request(kube::pod_path(namespace_name_, pod), label_patch(false)),
                   [pod](const Result<kube::Reply>& reply) {
                     if (!reply && reply.error().code() != ErrorCode::kNotFound) {
                       log::warn("cannot remove the leader label from a pod that no longer leads",
                                 {{"pod", pod}, {"error", reply.error()}});
                     }
                   }));
}

}  // namespace tessera::extender
