#!/usr/bin/env bash
# 50 equal-sized pods at once on 8 GPUs, while kubelet and agent are killed and restarted at random: in the end every
# container's environment, its device IDs, its annotations and the books agree. ROUNDS rounds (one in CI, ten in make soak).
#
# A pod that is bound while no agent is there fails at once (kubelet asks nobody), as under any device plugin; its
# controller makes another. So the pods belong to a Deployment, and what is held to is what runs in the end.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD=kubelet-node-a
ROUNDS=${ROUNDS:-1}
PODS=${PODS:-50}
RANDOM=${SEED:-7}

agent_cluster_start
extender_start
agent_start
wait_for 20 "the agent is ready" agent_ready || finish
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256 || true

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
books_agree() {
  local held books
  held=$(kubectl get pods -o json | jq '[.items[] | select(.status.phase == "Running" or .status.phase == "Pending") |
    .metadata.annotations["tessera.io/allocation"] // empty | fromjson | .containers[][].mem] | add // 0')
  books=$(ask "$EXTENDER_PORT" /gpushare-scheduler/inspect | jq '[.nodes[].devs[].pods[]?.usedGPU] | add // 0')
  [[ $held == "$books" ]]
}

for ((round = 1; round <= ROUNDS; round++)); do
  deployment "round$round" | create
  for part in 1 2 3; do
    wait_for 120 "round $round: $((part * 8)) pods run" some_live $((part * 8)) || true
    case $((RANDOM % 3)) in
      0) cluster restart kubelet-node-a >/dev/null ;;
      1) stop "$AGENT_PID" KILL && agent_start ;;
      2) stop "$AGENT_PID" TERM && cluster restart kubelet-node-a >/dev/null && agent_start ;;
    esac
  done
  wait_for 400 "round $round: all $PODS run" all_live || true
  check_agreement "round $round: records, containers and kubelet agree"
  wait_for 15 "round $round: so do the extender's books" books_agree || true
  say "      $(failed) pods were refused by kubelet while the agent was away"
  kubectl delete deployment "round$round" --wait=false >/dev/null
  kubectl delete pods --all --wait=false >/dev/null
  wait_for 120 "round $round: all go" no_pods || true
done
say "      memory of the agent: $(awk '/VmRSS/ { print $2, $3 }' "/proc/$(pgrep -P "$AGENT_PID")/status")"
say "      answers to kubelet since its last start, by seconds:"
ask "$AGENT_PORT" /metrics | grep '^tessera_agent_kubelet_call_duration_seconds_bucket.*call="allocate".*gpu-mem"' | sed 's/^.*le=/      le=/' || true
stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
