// cli/diagnose/why_target.h
//
// The subject of `tessera why`: one pod, the pods of a controller, or all pods that wait.
#pragma once

#include <string>
#include <string_view>

#include "alloc/pod.h"
#include "base/result.h"
#include "objects/pod_details.h"

namespace tessera::cli {

struct WhyTarget {
  std::string kind{};            // "pod", or the kind of a controller in lower case: "job"; empty: all
  std::string namespace_name{};  // empty: that of the options
  std::string name{};

  // Parses "train-7", "ml/train-7", "pod/train-7", "deploy/web", "deployment.apps/web" or
  // "sts/ml/db". "" stands for all pods. Returns kInvalid if a name is missing.
  static Result<WhyTarget> parse(std::string_view text);

  // Returns the target that the user probably meant, "job/train" for "jb/train", if the target is a
  // pod and its namespace looks like a misspelt kind. Otherwise returns "".
  [[nodiscard]] std::string meant() const;

  [[nodiscard]] bool is_pod() const { return kind == "pod"; }
  [[nodiscard]] bool is_all() const { return kind.empty(); }
  // Returns whether the pod may belong to the target, judged by its name only. Used to select the
  // pods to read.
  [[nodiscard]] bool may_include(std::string_view pod_name) const;
  // Returns whether the pod belongs to the target. Its namespace is not compared. The pods of a
  // Deployment and of a CronJob are recognized by the name of their ReplicaSet or Job, so that no
  // permission to read those is needed.
  [[nodiscard]] bool includes(const alloc::PodSpec& pod, const objects::PodDetails& details) const;
};

}  // namespace tessera::cli
