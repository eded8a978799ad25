// cli/cluster/cluster_files.h
//
// Reading a cluster from what kubectl has saved of it: nodes.json and pods.json of a directory.
#pragma once

#include <istream>
#include <string>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_store.h"

namespace tessera::cli {

// As ask_settings() of cluster_api.h.
Result<ClusterSettings> settings_in_files(const ClusterOptions& options);

// A saved list of any size.
Status read_list(std::istream& in, kube::ObjectSink& sink);
// Both files.
Status read_files(const std::string& directory, ClusterStore& store);

}  // namespace tessera::cli
