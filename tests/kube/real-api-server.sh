#!/usr/bin/env bash
# Runs kube_real_test (the argument) with a real API server and etcd, which the test may kill.
set -euo pipefail
# shellcheck source=../cluster/lib/api.sh
source "$(dirname "$0")/../cluster/lib/api.sh"
cluster_require_or_skip
cluster_start --nodes 0
# Quoted for a shell, because paths may contain spaces.
TESSERA_TEST_CLUSTER=$(printf '%q --name %q' "$CLUSTER_DIR/cluster" "$CLUSTER")
export TESSERA_TEST_CLUSTER
TESSERA_TEST_KUBECONFIG=$(cluster kubeconfig)
TESSERA_TEST_TOKEN_KUBECONFIG=$(cluster kubeconfig --token)
export TESSERA_TEST_KUBECONFIG TESSERA_TEST_TOKEN_KUBECONFIG
export TESSERA_TEST_PKI=$S/pki
# For requests to etcd, which listens only inside the network namespace.
export TESSERA_TEST_INSIDE="nsenter --target $DRIVER --net --"
"$@"
