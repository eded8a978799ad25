#!/usr/bin/env bash
# Creates 50 pods of equal size at once on 8 GPUs of two nodes, while kubelets and agents are killed
# and restarted at random. At the end, every container's environment, its device IDs, its
# annotations and the extender's ledger must agree. Runs ROUNDS rounds (one in CI, ten in make
# soak).
#
# kubelet rejects a pod that is bound while no agent runs, as with any device plugin, and the
# controller of the pod creates another one. The pods therefore belong to a Deployment, and the test
# checks only the pods that run at the end.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD="kubelet-node-a kubelet-node-b"
ROUNDS=${ROUNDS:-1}
PODS=${PODS:-50}
RANDOM=${SEED:-7}
declare -A agents

machine=$(mktemp --suffix .yaml)
cat >"$machine" <<'YAML'
v: 1
about: half a DGX-1
driver: "535.161.08"
cuda: "12.2"
cpus: 40
memory_gib: 256
gpus:
  - {count: 4, model: Tesla V100-SXM2-32GB, memory_mib: 32768, reserved_mib: 450, compute: "7.0"}
numa:
  - {id: 0, cpus: "0-39", gpus: "0-3"}
links:
  nvlink_generation: 2
  rules: [{nvlink: 1}, {pcie: PHB}]
  pcie_generation: 3
  socket_mbps: 6000
YAML
# shellcheck disable=SC2034 # for agent_cluster_start
MACHINE=$machine NODES=2
agent_cluster_start
extender_start
start_agent() { agent_start_on "$1" && agents[$1]=$AGENT_PID; }
for node in node-a node-b; do
  start_agent "$node"
  wait_or_finish 20 "the agent of $node is ready" agent_ready_on "$node"
  wait_for 10 "$node has 128 shares" allocatable_is aliyun.com/gpu-mem 128 "$node"
done

deployment() {
  jq -cn --arg name "$1" --argjson count "$PODS" --argjson pod "$(share x 4)" '
    {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: $name},
     spec: {replicas: $count, selector: {matchLabels: {set: $name}},
            template: {metadata: {labels: {set: $name}}, spec: $pod.spec}}}'
}
failed() { kubectl get pods --field-selector status.phase=Failed -o name | wc -l; }
live() { kubectl get pods --field-selector status.phase=Running -o name | wc -l; }
all_live() { (($(live) == PODS)); }
some_live() { (($(live) >= $1)); }
nodes_in_use() { kubectl get pods -o json | jq -r '[.items[] | select(.status.phase == "Running").spec.nodeName] | unique | join(" ")'; }
# ledger_agrees: whether the pods' records and the extender's ledger say the same: which pod holds
# how much of which GPU.
ledger_agrees() {
  local records ledger
  records=$(kubectl get pods -o json | jq -r '.items[] | select(.status.phase == "Running" or .status.phase == "Pending") |
    "\(.metadata.name) \(.spec.nodeName)" as $pod | .metadata.annotations["tessera.io/allocation"] // empty | fromjson |
    .containers[][] | "\($pod) \(.gpu) \(.mem)"' | sort)
  ledger=$(ask "$EXTENDER_PORT" /gpushare-scheduler/inspect |
    jq -r '.nodes[] | .name as $node | .devs[] | .uuid as $gpu | .pods[]? | "\(.name) \($node) \($gpu) \(.usedGPU)"' | sort)
  [[ -n $records && $records == "$ledger" ]]
}
# kubelet_dies NODE: kills kubelet without a chance to shut down, and starts it again.
kubelet_dies() { cluster kill "kubelet-$1" >/dev/null && cluster start "kubelet-$1" >/dev/null; }

for ((round = 1; round <= ROUNDS; round++)); do
  deployment "round$round" | create
  for part in 1 2 3; do
    wait_for 120 "round $round: $((part * 8)) pods run" some_live $((part * 8))
    node="node-a"
    ((RANDOM % 2)) || node="node-b"
    case $((RANDOM % 4)) in
      0) say "      kubelet of $node restarts" && cluster restart "kubelet-$node" >/dev/null ;;
      1) say "      the agent of $node is killed and started again" && stop "${agents[$node]}" KILL && start_agent "$node" ;;
      2) say "      kubelet and agent of $node restart" && stop "${agents[$node]}" TERM && cluster restart "kubelet-$node" >/dev/null && start_agent "$node" ;;
      3) say "      kubelet of $node is killed and started again" && kubelet_dies "$node" ;;
    esac
  done
  wait_for 400 "round $round: all $PODS pods run" all_live
  expect "round $round: pods run on both nodes" "node-a node-b" "$(nodes_in_use)"
  check_agreement "round $round: records, containers and kubelets agree"
  wait_for 15 "round $round: records and the extender's ledger agree" ledger_agrees
  say "      kubelet rejected $(failed) pods while no agent was running"
  kubectl delete deployment "round$round" --wait=false >/dev/null
  kubectl delete pods --all --wait=false >/dev/null
  wait_for 120 "round $round: all pods are gone" no_pods
done
for node in node-a node-b; do
  say "      memory of the agent of $node: $(awk '/VmRSS/ { print $2, $3 }' "/proc/$(pgrep -P "${agents[$node]}")/status")"
done
say "      response times to Allocate calls of kubelet on node-a since its agent last started, in seconds:"
ask "$AGENT_PORT" /metrics | grep '^tessera_agent_kubelet_call_duration_seconds_bucket.*call="allocate".*gpu-mem"' | sed 's/^.*le=/      le=/' || true
stop "${agents[node-a]}"
stop "${agents[node-b]}"
stop "$EXTENDER_PID"
rm -f "$machine"
finish
