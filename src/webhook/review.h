// webhook/review.h
//
// Answers an AdmissionReview (admission.k8s.io/v1): sets schedulerName on pods that request
// Tessera's resources. A pure function of the body.
//
//   Result<Review> review = answer_review(request.body().text(), rules);
//   reply.send({.body = review->answer});
//
// The rules are those of the chart's MutatingAdmissionPolicy (policy-scheduler-name.yaml): a pod is
// changed if it names no scheduler, has no node, and a container or init container has a limit
// above 0 of one of the resources. Every other pod is allowed unchanged. The webhook rejects no pod.
#pragma once

#include <string>
#include <string_view>

#include "alloc/names.h"
#include "base/result.h"

namespace tessera::webhook {

struct ReviewRules {
  alloc::ResourceNames names;
  std::string scheduler_name;
  std::size_t max_bytes = 4U << 20U;
};

struct Review {
  enum class Verdict {
    kChanged,    // the answer sets schedulerName
    kUnchanged,  // the pod needs no change
    kOther,      // the request does not create a pod, or the pod cannot be read
  };
  Verdict verdict = Verdict::kOther;
  std::string answer;  // the AdmissionReview to send
  std::string pod;     // "ml/train-7", for logs; the name may be empty or a prefix
};

// Returns kInvalid if the body is not an AdmissionReview with a request, so that no answer is
// possible.
Result<Review> answer_review(std::string_view body, const ReviewRules& rules);

}  // namespace tessera::webhook
