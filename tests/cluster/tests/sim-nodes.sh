#!/usr/bin/env bash
# A thousand simulated nodes become Ready and take pods.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kwok
cluster_start --nodes 0 --sim-nodes 1000
expect "1,000 simulated nodes are Ready" 1000 "$(sim_nodes_ready)"
expect "nodes keep the capacity they were created with" "64 110" \
  "$(kubectl get node sim-1000 -o 'jsonpath={.status.allocatable.cpu} {.status.allocatable.pods}')"
check "status finds nothing wrong" cluster status

kubectl create deployment many --image=none --replicas=50 >/dev/null
rolled_out() { kubectl rollout status deployment/many --timeout=1s >/dev/null 2>&1; }
wait_for 60 "50 pods run on them" rolled_out
kubectl delete deployment many >/dev/null
no_pods() { prints_nothing kubectl get pods -o name; }
wait_for 60 "pods disappear when they are deleted" no_pods
cluster down >/dev/null

# Machines with GPUs, as "tessera inventory" prints them; only if it is built.
if (tessera_program) >/dev/null 2>&1; then
  expect_match "an unknown machine is refused" 'sim-machine nothing: .*nothing' \
    "$(cluster up --nodes 0 --sim-nodes 1 --sim-machine nothing 2>&1 || true)"
  cluster_start --as gpu --nodes 0 --sim-nodes 20 --sim-machine dgx1v
  expect "20 DGX-1V are Ready" 20 "$(sim_nodes_ready)"
  expect "a DGX-1V has 8 GPUs of 32 GiB" "8 256" \
    "$(kubectl get node sim-0020 -o 'jsonpath={.status.allocatable.aliyun\.com/gpu} {.status.allocatable.aliyun\.com/gpu-mem}')"
  expect "each GPU has its own UUID in the inventories" 160 \
    "$(kubectl get nodes -o json | jq '[.items[].metadata.annotations["tessera.io/inventory"] | fromjson | .gpus[].uuid] | unique | length')"
fi
finish
