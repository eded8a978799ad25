// cli/cluster/cluster_api.h
//
// Reading a cluster once, through its API server.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_store.h"
#include "http/event_loop.h"
#include "kube/client.h"
#include "kube/list_decoder.h"

namespace tessera::cli {

// The client that the user's options mean.
Result<kube::Client> connect(http::EventLoop& loop, const ClusterOptions& options);

// Field selectors that spare the server and us what the store would drop anyway.
std::string node_fields(const ClusterQuery& query);
std::string pod_fields(const ClusterQuery& query);

// What to do with each item of a list: the sink keeps it, or is told why it cannot.
kube::ListDecoder::OnItem keep_or_tell(kube::ObjectSink& sink);

// What the cluster is told to call its resources and how it decides: it must be known before anything else is
// read. From the user's options, else from Tessera's own pods; the usual settings where these are not there
// or may not be listed.
Result<ClusterSettings> ask_settings(kube::Client& client, const ClusterOptions& options);

// Lists nodes and pods into the store, page by page.
Status list_cluster(kube::Client& client, ClusterStore& store);

}  // namespace tessera::cli
