// kube/access.h
//
// Where the API server is and who we are, found the way users expect.
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
  // Environment and file system, so that a test can say what they hold.
  std::function<std::optional<std::string>(const char*)> environment;  // the process's own if empty
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// For people's tools: --kubeconfig, else the files of $KUBECONFIG, else ~/.kube/config; inside a pod, where
// there is none of these, the pod's service account. A context that is named is never ignored.
Result<ClusterAccess> find_access(const AccessOptions& options);

// The pod's service account: KUBERNETES_SERVICE_HOST and _PORT, its CA, and its token, which kubelet rotates
// and which is therefore given as a file. kNotFound outside of a cluster.
Result<ClusterAccess> in_cluster_access(const AccessOptions& options);

}  // namespace tessera::kube
