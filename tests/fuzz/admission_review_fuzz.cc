// Calls of the API server: every answer allows the pod, is valid JSON, and sets nothing but
// schedulerName.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/base64.h"
#include "webhook/review.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  static const webhook::ReviewRules rules{.names = {}, .scheduler_name = "tessera-scheduler"};
  const auto review =
      webhook::answer_review(std::string_view(reinterpret_cast<const char*>(data), size), rules);
  if (!review) {
    return 0;
  }
  boost::json::error_code error;
  const boost::json::value answer = boost::json::parse(review->answer, error);
  if (error || answer.at("response").at("allowed") != true) {
    std::abort();
  }
  const boost::json::value* patch = answer.at("response").as_object().if_contains("patch");
  const bool changed = review->verdict == webhook::Review::Verdict::kChanged;
  if (changed != (patch != nullptr) ||
      (changed && kube::decode_base64(std::string_view(patch->as_string())).value() !=
                      R"([{"op":"add","path":"/spec/schedulerName","value":"tessera-scheduler"}])")) {
    std::abort();
  }
  return 0;
}
