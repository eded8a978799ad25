// cli/cluster_api.h
//
// Reading a cluster once, through its API server or from files.
#pragma once

#include <istream>
#include <string>

#include "base/result.h"
#include "cli/cluster.h"
#include "cli/cluster_store.h"
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

// Lists nodes and pods into the store, page by page.
Status list_cluster(kube::Client& client, ClusterStore& store);

// A saved list of any size.
Status read_list(std::istream& in, kube::ObjectSink& sink);
// The same as list_cluster from nodes.json and pods.json.
Status read_files(const std::string& directory, ClusterStore& store);

}  // namespace tessera::cli
