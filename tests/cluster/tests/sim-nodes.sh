#!/usr/bin/env bash
# A thousand simulated nodes become Ready and take pods.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kwok
cluster_start --nodes 0 --sim-nodes 1000
expect "1,000 simulated nodes are Ready" 1000 "$(sim_nodes_ready)"
expect "they keep the capacity they were made with" "64 110" \
  "$(kubectl get node sim-1000 -o 'jsonpath={.status.allocatable.cpu} {.status.allocatable.pods}')"
check "status finds nothing wrong" cluster status

kubectl create deployment many --image=none --replicas=50 >/dev/null
rolled_out() { kubectl rollout status deployment/many --timeout=1s >/dev/null 2>&1; }
wait_for 60 "50 pods run on them" rolled_out || true
kubectl delete deployment many >/dev/null
no_pods() { [[ -z $(kubectl get pods -o name) ]]; }
wait_for 60 "and go when they are deleted" no_pods || true
finish
