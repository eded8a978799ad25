#include "webhook/review.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/quantity.h"
#include "kube/base64.h"

namespace tessera::webhook {

namespace {

using boost::json::object;
using boost::json::value;

constexpr std::string_view kVersion = "admission.k8s.io/v1";
constexpr std::string_view kKind = "AdmissionReview";
// The API server sends UUIDs.
constexpr std::size_t kMaxUidBytes = 128;

const value* find(const value* parent, std::string_view key) {
  const object* fields = parent == nullptr ? nullptr : parent->if_object();
  return fields == nullptr ? nullptr : fields->if_contains(key);
}

// Returns the string at `key`; "" if there is none.
std::string_view text(const value* parent, std::string_view key) {
  const value* found = find(parent, key);
  return found == nullptr || !found->is_string() ? std::string_view() : std::string_view(found->get_string());
}

bool is_text_or_missing(const value* parent, std::string_view key) {
  const value* found = find(parent, key);
  return found == nullptr || found->is_null() || found->is_string();
}

bool is_positive(const value& amount) {
  if (const std::int64_t* number = amount.if_int64()) {
    return *number > 0;
  }
  if (!amount.is_string()) {
    return false;
  }
  const Result<Quantity> quantity = Quantity::parse(std::string_view(amount.get_string()));
  return quantity && *quantity > Quantity();
}

bool requests_gpus(const value& container, const alloc::ResourceNames& names) {
  const value* limits = find(find(&container, "resources"), "limits");
  return limits != nullptr && limits->is_object() &&
         std::ranges::any_of(limits->get_object(), [&](const auto& limit) {
           return names.find(limit.key()).has_value() && is_positive(limit.value());
         });
}

bool any_requests_gpus(const value* spec, std::string_view list, const alloc::ResourceNames& names) {
  const value* containers = find(spec, list);
  return containers != nullptr && containers->is_array() &&
         std::ranges::any_of(containers->get_array(),
                             [&](const value& container) { return requests_gpus(container, names); });
}

// Returns whether this is the creation of a pod, and not, for example, of its binding.
bool creates_pod(const value* request) {
  const value* kind = find(request, "kind");
  return text(request, "operation") == "CREATE" && text(request, "subResource").empty() &&
         text(kind, "group").empty() && text(kind, "version") == "v1" && text(kind, "kind") == "Pod";
}

Review::Verdict judge(const value* request, const ReviewRules& rules) {
  const value* spec = find(find(request, "object"), "spec");
  if (!creates_pod(request) || spec == nullptr || !spec->is_object() ||
      !is_text_or_missing(spec, "schedulerName") || !is_text_or_missing(spec, "nodeName")) {
    return Review::Verdict::kOther;
  }
  const std::string_view scheduler = text(spec, "schedulerName");
  const bool wanted = (scheduler.empty() || scheduler == "default-scheduler") &&
                      text(spec, "nodeName").empty() &&
                      (any_requests_gpus(spec, "containers", rules.names) ||
                       any_requests_gpus(spec, "initContainers", rules.names));
  return wanted ? Review::Verdict::kChanged : Review::Verdict::kUnchanged;
}

std::string pod_name(const value* request) {
  const value* metadata = find(find(request, "object"), "metadata");
  const std::string_view name = text(metadata, "name");
  return std::string(text(request, "namespace"))
      .append("/")
      .append(name.empty() ? text(metadata, "generateName") : name);
}

}  // namespace

Result<Review> answer_review(std::string_view body, const ReviewRules& rules) {
  const value document = TRY(with_context(parse_json(body, rules.max_bytes), std::string(kKind)));
  if (text(&document, "apiVersion") != kVersion || text(&document, "kind") != kKind) {
    return fail(ErrorCode::kInvalid, "the body is not an AdmissionReview of admission.k8s.io/v1");
  }
  const value* request = find(&document, "request");
  const std::string_view uid = text(request, "uid");
  if (uid.empty() || uid.size() > kMaxUidBytes) {
    return fail(ErrorCode::kInvalid, "the AdmissionReview has no request with a uid");
  }
  Review review{.verdict = judge(request, rules), .answer = "", .pod = pod_name(request)};
  object response{{"uid", uid}, {"allowed", true}};
  if (review.verdict == Review::Verdict::kChanged) {
    // "add" also replaces an existing value.
    const boost::json::array patch{
        object{{"op", "add"}, {"path", "/spec/schedulerName"}, {"value", rules.scheduler_name}}};
    response["patchType"] = "JSONPatch";
    response["patch"] = kube::encode_base64(boost::json::serialize(patch));
  }
  review.answer = boost::json::serialize(
      object{{"apiVersion", kVersion}, {"kind", kKind}, {"response", std::move(response)}});
  return review;
}

}  // namespace tessera::webhook
