// kube/request.h
//
// The requests that Tessera makes, built in one place so that paths, bodies and what may be repeated are
// right everywhere.
//
//   Request r = TRY(bind_request({.namespace_name = "ml", .pod = "train-7", .uid = uid, .node = "gpu-a",
//                                 .annotations = record}));
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
  std::string path;   // "/api/v1/nodes", its parts percent-encoded
  std::string query;  // "limit=500&...", encoded, without "?"
  std::string body;
  std::string_view content_type = "application/json";  // a literal
  RetryRequest retry;
  // For everything together: credentials, connection, all attempts and the waits between them.
  std::chrono::milliseconds deadline{30'000};
  int max_attempts = 6;
  std::size_t max_response_bytes = 64U << 20U;
  // Stands before errors: "pod ml/train-7: bind to gpu-a". If empty, method and path do.
  std::string what;
  // Memory for the answer, to be used again.
  json::PaddedBuffer buffer;
};

// Paths of the resources we touch. An empty name is the collection, an empty namespace all of them.
std::string node_path(std::string_view name);
std::string pod_path(std::string_view namespace_name, std::string_view name);
std::string config_map_path(std::string_view namespace_name, std::string_view name);
std::string event_path(std::string_view namespace_name, std::string_view name);
// Of the whole cluster.
std::string disruption_budgets_path();
std::string lease_path(std::string_view namespace_name, std::string_view name);

// Percent-encodes what may not stand in a path segment or a query value.
std::string percent_encoded(std::string_view text);

Request get_request(std::string path);
// A new object. Not repeated when it may have been created.
Request create_request(std::string collection_path, std::string body);
// With a UID only that very object is deleted, never one of the same name made since.
Request delete_request(std::string path, std::string_view uid = "");

enum class PatchKind { kJsonMerge, kStrategicMerge };
// A patch of plain values is the same done twice, and is repeated. One that carries a resourceVersion is not.
Request patch_request(std::string path, std::string body, PatchKind kind = PatchKind::kJsonMerge);
Request patch_request_at_version(std::string path, std::string body, PatchKind kind = PatchKind::kJsonMerge);

struct Binding {
  std::string namespace_name;
  std::string pod;
  std::string uid;  // the API server refuses (409) to bind another pod of that name
  std::string node;
  // Merged into the pod in the same write that sets its node.
  std::vector<std::pair<std::string, std::string>> annotations;
};

// kInvalid for annotations that Kubernetes would not accept on a pod: the binding subresource does not check
// them, and a pod with a bad one can never be updated again.
Result<Request> bind_request(const Binding& binding);

// Asks to end a pod, within its PodDisruptionBudgets: 429 when these forbid it for now.
Request evict_request(std::string_view namespace_name, std::string_view pod, std::string_view uid);

// Names and texts of all annotations of an object together.
inline constexpr std::size_t kMaxAnnotationBytes = 256U << 10U;
// The rules of Kubernetes for annotations: qualified names, 256 KiB in all. What an object has already, and
// these are merged into, is for the caller to know.
Status check_annotations(const std::vector<std::pair<std::string, std::string>>& annotations);

}  // namespace tessera::kube
