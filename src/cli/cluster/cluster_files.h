// cli/cluster/cluster_files.h
//
// Reads a cluster from files that kubectl saved: nodes.json and pods.json in a directory.
#pragma once

#include <istream>
#include <string>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_store.h"

namespace tessera::cli {

// Returns the resource names and policies of the cluster. They come from the user's options, or
// else from Tessera's own pods in pods.json. If there are no such pods, the defaults apply. Fails
// if pods.json is invalid.
Result<ClusterSettings> settings_in_files(const ClusterOptions& options);

// Reads a saved list of any size into `sink`.
Status read_list(std::istream& in, kube::ObjectSink& sink);
// Reads both files into `store`.
Status read_files(const std::string& directory, ClusterStore& store);

}  // namespace tessera::cli
