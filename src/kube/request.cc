#include "kube/request.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"

namespace tessera::kube {

namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The part after the slash: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at
// both ends.
bool is_name_part(std::string_view name) {
  return !name.empty() && name.size() <= 63 && is_alphanumeric(name.front()) &&
         is_alphanumeric(name.back()) && std::ranges::all_of(name, [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

// The part before the slash: a DNS subdomain with lower-case or upper-case letters.
bool is_prefix_part(std::string_view prefix) {
  return prefix.size() <= 253 && std::ranges::all_of(split(prefix, '.'), [](std::string_view label) {
           return !label.empty() && is_alphanumeric(label.front()) && is_alphanumeric(label.back()) &&
                  std::ranges::all_of(label, [](char c) { return is_alphanumeric(c) || c == '-'; });
         });
}

std::string resource_path(std::string_view api, std::string_view namespace_name, std::string_view resource,
                          std::string_view name) {
  std::string path(api);
  if (!namespace_name.empty()) {
    path += "/namespaces/" + percent_encoded(namespace_name);
  }
  path += "/";
  path += resource;
  if (!name.empty()) {
    path += "/" + percent_encoded(name);
  }
  return path;
}

boost::json::object metadata(std::string_view namespace_name, std::string_view name) {
  return {{"name", name}, {"namespace", namespace_name}};
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_alphanumeric(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded.push_back(c);
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string node_path(std::string_view name) {
  return resource_path("/api/v1", "", "nodes", name);
}
std::string pod_path(std::string_view namespace_name, std::string_view name) {
  return resource_path("/api/v1", namespace_name, "pods", name);
}
std::string config_map_path(std::string_view namespace_name, std::string_view name) {
  return resource_path("/api/v1", namespace_name, "configmaps", name);
}
std::string event_path(std::string_view namespace_name, std::string_view name) {
  return resource_path("/api/v1", namespace_name, "events", name);
}
std::string disruption_budgets_path() {
  return resource_path("/apis/policy/v1", "", "poddisruptionbudgets", "");
}
std::string lease_path(std::string_view namespace_name, std::string_view name) {
  return resource_path("/apis/coordination.k8s.io/v1", namespace_name, "leases", name);
}
std::string secret_path(std::string_view namespace_name, std::string_view name) {
  return resource_path("/api/v1", namespace_name, "secrets", name);
}
std::string mutating_webhook_path(std::string_view name) {
  return resource_path("/apis/admissionregistration.k8s.io/v1", "", "mutatingwebhookconfigurations", name);
}

Request get_request(std::string path) {
  Request request;
  request.path = std::move(path);
  request.retry.repeat = Repeat::kSafe;
  return request;
}

Request create_request(std::string collection_path, std::string body) {
  Request request;
  request.method = Method::kPost;
  request.path = std::move(collection_path);
  request.body = std::move(body);
  return request;
}

Request delete_request(std::string path, std::string_view uid) {
  Request request;
  request.method = Method::kDelete;
  request.path = std::move(path);
  if (!uid.empty()) {
    request.body =
        boost::json::serialize(boost::json::object{{"apiVersion", "v1"},
                                                   {"kind", "DeleteOptions"},
                                                   {"preconditions", boost::json::object{{"uid", uid}}}});
    request.retry.repeat = Repeat::kSafe;
  }
  return request;
}

Request patch_request(std::string path, std::string body, PatchKind kind) {
  Request request = patch_request_at_version(std::move(path), std::move(body), kind);
  request.retry = {.repeat = Repeat::kSafe, .repeat_conflict = true};
  return request;
}

Request patch_request_at_version(std::string path, std::string body, PatchKind kind) {
  Request request;
  request.method = Method::kPatch;
  request.path = std::move(path);
  request.body = std::move(body);
  request.content_type = kind == PatchKind::kJsonMerge ? "application/merge-patch+json"
                                                       : "application/strategic-merge-patch+json";
  return request;
}

Request apply_request(std::string path, std::string body, std::string_view manager) {
  Request request;
  request.method = Method::kPatch;
  request.path = std::move(path);
  request.query = "fieldManager=" + percent_encoded(manager);
  request.body = std::move(body);
  request.content_type = "application/apply-patch+yaml";  // JSON is valid YAML
  return request;
}

Status check_annotations(const std::vector<std::pair<std::string, std::string>>& annotations) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : annotations) {
    const std::size_t slash = key.find('/');
    const bool good = slash == std::string::npos ? is_name_part(key)
                                                 : is_prefix_part(std::string_view(key).substr(0, slash)) &&
                                                       is_name_part(std::string_view(key).substr(slash + 1));
    if (!good) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("annotation {}: Kubernetes does not accept this key", in_quotes(key)));
    }
    bytes += key.size() + value.size();
  }
  if (bytes > kMaxAnnotationBytes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the annotations have {} bytes, but Kubernetes accepts only {}", bytes,
                            kMaxAnnotationBytes));
  }
  return {};
}

Result<Request> bind_request(const Binding& binding) {
  const std::string what =
      fmt::format("pod {}/{}: bind to {}", binding.namespace_name, binding.pod, binding.node);
  if (binding.pod.empty() || binding.namespace_name.empty() || binding.node.empty() || binding.uid.empty()) {
    return fail(ErrorCode::kInvalid, what + ": namespace, pod, UID and node are required");
  }
  TRY(with_context(check_annotations(binding.annotations), what));
  boost::json::object about = metadata(binding.namespace_name, binding.pod);
  about["uid"] = binding.uid;
  if (!binding.annotations.empty()) {
    boost::json::object annotations;
    for (const auto& [key, value] : binding.annotations) {
      annotations[key] = value;
    }
    about["annotations"] = std::move(annotations);
  }
  const boost::json::object body{
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", std::move(about)},
      {"target", boost::json::object{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", binding.node}}}};
  Request request = create_request(pod_path(binding.namespace_name, binding.pod) + "/binding",
                                   boost::json::serialize(body));
  request.what = what;
  return request;
}

Request evict_request(std::string_view namespace_name, std::string_view pod, std::string_view uid) {
  boost::json::object body{
      {"apiVersion", "policy/v1"}, {"kind", "Eviction"}, {"metadata", metadata(namespace_name, pod)}};
  if (!uid.empty()) {
    body["deleteOptions"] = boost::json::object{{"preconditions", boost::json::object{{"uid", uid}}}};
  }
  Request request = create_request(pod_path(namespace_name, pod) + "/eviction", boost::json::serialize(body));
  request.what = fmt::format("pod {}/{}: evict", namespace_name, pod);
  return request;
}

}  // namespace tessera::kube
