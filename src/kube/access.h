// kube/access.h
//
// Finds the API server and the credentials, in the same places as kubectl.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

struct AccessOptions {
  std::string kubeconfig;  // --kubeconfig: this file only, and it must exist
  std::string context;     // --context
  // Tests replace the next two. An empty `environment` means the environment of the process.
  std::function<std::optional<std::string>(const char*)> environment;
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// Returns the access for a command-line tool: from --kubeconfig, otherwise from the files in
// $KUBECONFIG, otherwise from ~/.kube/config. Inside a pod without any of these files, returns the
// access of the pod's service account, unless options.context is set.
Result<ClusterAccess> find_access(const AccessOptions& options);

// Returns the merged kubeconfig that find_access() would use. Returns kNotFound if there is none.
Result<Kubeconfig> find_kubeconfig(const AccessOptions& options);

// Returns the access of the pod's service account: KUBERNETES_SERVICE_HOST and _PORT, the CA and
// the token. The token is the path of a file, because kubelet rotates the token. Returns kNotFound
// outside a cluster.
Result<ClusterAccess> in_cluster_access(const AccessOptions& options);

}  // namespace tessera::kube
