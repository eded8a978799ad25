// cli/cluster/cluster_api.h
//
// Reads a cluster once through its API server.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_store.h"
#include "http/event_loop.h"
#include "kube/client.h"
#include "kube/list_decoder.h"

namespace tessera::cli {

// Creates a client for the cluster that the options name.
Result<kube::Client> connect(http::EventLoop& loop, const ClusterOptions& options);

// Returns the error of a request. If the API server cannot be reached at all, the error names the
// server and says what to try:
//
//   cannot reach the cluster at https://127.0.0.1:1 (context a of ../kc): Connection refused; try
//   "kubectl cluster-info"
Error with_cluster(const ClusterOptions& options, const Error& error);

// Return field selectors, so that the server does not send objects that ClusterStore would drop.
std::string node_fields(const ClusterQuery& query);
std::string pod_fields(const ClusterQuery& query);

// Returns a callback for the items of a list: it passes each item to sink.keep(), or the decoding
// error to sink.unreadable().
kube::ListDecoder::OnItem keep_or_report(kube::ObjectSink& sink);

// Returns the resource names and policies of the cluster. They must be known before nodes and pods
// can be decoded. They come from the user's options, or else from Tessera's own pods. If there are
// no such pods, or the user may not list them, the defaults apply.
Result<ClusterSettings> ask_settings(kube::Client& client, const ClusterOptions& options);

// Lists nodes and pods into the store, page by page. Returns what the user may not read, if the query
// of the store allows a restricted user; otherwise fails.
Result<Restriction> list_cluster(kube::Client& client, ClusterStore& store);

// Sends requests for one object each, to find out what the user may not read. Fails like list_cluster().
Result<Restriction> find_restriction(kube::Client& client, const ClusterQuery& query);

}  // namespace tessera::cli
