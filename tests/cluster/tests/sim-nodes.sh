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

  # "tessera savings" reads a cluster with NVIDIA's device plugin: two nodes with four T4 each, whose
  # GPUs kube-scheduler gives to eight pods. A pod of 2048 MiB needs 2048 * 1.2 + 512 MiB, which are 3
  # units. A T4 has 15 units, enough for five pods, so eight pods need two GPUs. They fit on one node.
  jq -cn '
    {cpu: "32", memory: "128Gi", pods: "110", "nvidia.com/gpu": "4"} as $has |
    {apiVersion: "v1", kind: "List", items: [("t4-1", "t4-2") | {
      apiVersion: "v1", kind: "Node",
      metadata: {name: ., annotations: {"kwok.x-k8s.io/node": "fake"},
                 labels: {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "16384",
                          "cloud.google.com/gke-nodepool": "inference"}},
      status: {capacity: $has, allocatable: $has}}]}' | kubectl create --validate=false -f - >/dev/null
  kubectl create -f - >/dev/null <<'EOF'
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: infer}
spec:
  replicas: 8
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: infer}}
  template:
    metadata: {labels: {app: infer}}
    spec:
      containers:
      - {name: main, image: none, resources: {requests: {cpu: 500m}, limits: {nvidia.com/gpu: 1}}}
EOF
  inference_runs() { [[ $(kubectl get statefulset infer -o 'jsonpath={.status.readyReplicas}') == 8 ]]; }
  wait_for 60 "eight pods hold eight T4" inference_runs
  (
    echo namespace,pod,memory_mib,utilization_percent
    for i in 0 1 2 3 4 5 6 7; do echo "default,infer-$i,2048,5"; done
  ) >"$S/usage.csv"
  savings() { "$(tessera_program)" savings --kubeconfig "$(cluster kubeconfig)" --usage "$S/usage.csv" "$@"; }
  expect "their pods fit on two GPUs" "The pods on 8 of your 168 GPUs fit on 2." "$(savings | head -n 1)"
  expect "one of the T4 nodes would be free" "8 2 1" \
    "$(savings -o json | jq -r '.pools[] | select(.pool == "inference") | "\(.held) \(.needed) \(.freedNodes | length)"')"
  expect "without measurements all stay whole" 8 "$("$(tessera_program)" savings --kubeconfig "$(cluster kubeconfig)" -o json | jq .needed)"
fi
finish
