// kube/request.h
//
// Builds the requests that Tessera sends: paths, bodies and retry rules in one place.
//
//   Request r = TRY(bind_request({.namespace_name = "ml", .pod = "train-7", .uid = uid,
//                                 .node = "gpu-a", .annotations = record}));
//   client.send(std::move(r), ...);
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "json/padded_buffer.h"
#include "kube/retry.h"

namespace tessera::kube {

struct Request {
  Method method = Method::kGet;
  std::string path;   // "/api/v1/nodes", percent-encoded
  std::string query;  // "limit=500&...", percent-encoded, without "?"
  std::string body;
  std::string_view content_type = "application/json";  // must be a literal
  std::string_view accept = "application/json";        // must be a literal
  RetryRequest retry;
  // The limit for the whole request: credentials, connection, all attempts and the waits between
  // them.
  std::chrono::milliseconds deadline{30'000};
  int max_attempts = 6;
  std::size_t max_response_bytes = 64U << 20U;
  // Whether a response that exceeds max_response_bytes is cut off instead of treated as an error. For
  // writes whose response is not read: an API object may be larger than what the caller is willing to keep.
  bool cut_response = false;
  // Prefix of errors: "pod ml/train-7: bind to gpu-a". Empty: method and path.
  std::string what;
  // Memory to reuse for the response.
  json::PaddedBuffer buffer;
};

// Paths of the resources that Tessera uses. An empty name means the collection, an empty namespace
// means all namespaces.
std::string node_path(std::string_view name);
std::string pod_path(std::string_view namespace_name, std::string_view name);
std::string config_map_path(std::string_view namespace_name, std::string_view name);
std::string event_path(std::string_view namespace_name, std::string_view name);
// The PodDisruptionBudgets of all namespaces.
std::string disruption_budgets_path();
std::string lease_path(std::string_view namespace_name, std::string_view name);
std::string secret_path(std::string_view namespace_name, std::string_view name);
std::string mutating_webhook_path(std::string_view name);

// Percent-encodes a path segment or a query value.
std::string percent_encoded(std::string_view text);

Request get_request(std::string path);
// Creates an object. The request is not retried if the object may have been created.
Request create_request(std::string collection_path, std::string body);
// Deletes an object. With a UID, an object of the same name that was created later is not deleted.
Request delete_request(std::string path, std::string_view uid = "");

enum class PatchKind { kJsonMerge, kStrategicMerge };
// Patches an object. The request is retried, because a patch that only sets values is idempotent.
// For a patch that contains a resourceVersion, use patch_request_at_version(); that request is not
// retried.
Request patch_request(std::string path, std::string body, PatchKind kind = PatchKind::kJsonMerge);
Request patch_request_at_version(std::string path, std::string body, PatchKind kind = PatchKind::kJsonMerge);

// Creates the object by server-side apply. Unlike create_request(), RBAC can allow it for one name
// only. The API server responds 409 if another `manager` has created the object with other values.
Request apply_request(std::string path, std::string body, std::string_view manager);

struct Binding {
  std::string namespace_name;
  std::string pod;
  std::string uid;  // the API server refuses (409) to bind another pod of the same name
  std::string node;
  // Merged into the pod by the same write that sets its node.
  std::vector<std::pair<std::string, std::string>> annotations;
};

// Binds a pod to a node. Returns kInvalid for annotations that are invalid on a pod. The API server
// does not check annotations in a Binding, and a pod with an invalid annotation can never be
// updated again.
Result<Request> bind_request(const Binding& binding);

// Evicts a pod. The API server responds 429 if a PodDisruptionBudget currently forbids it.
Request evict_request(std::string_view namespace_name, std::string_view pod, std::string_view uid);

// Limit for the keys and values of all annotations of an object together.
inline constexpr std::size_t kMaxAnnotationBytes = 256U << 10U;
// Returns kInvalid if the annotations violate the rules of Kubernetes: qualified names, 256 KiB in
// total. The existing annotations of the object are not counted.
Status check_annotations(const std::vector<std::pair<std::string, std::string>>& annotations);

}  // namespace tessera::kube
