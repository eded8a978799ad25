#!/usr/bin/env bash
# Creates about 50 pods of equal size on 8 GPUs of two nodes, while kubelets and agents are killed
# and restarted in an order that SEED sets, each while some of the pods are placed. After each fault,
# the records of the pods and the extender's ledger must agree; at the end also every container's
# environment and its device IDs.
#
#   crowd.sh [--long]    the long version, for make soak, has more rounds, faults and kinds of faults
#
# kubelet rejects a pod that is bound while no agent runs, as with any device plugin, and the
# controller of the pod creates another one. The pods therefore belong to a Deployment, and the test
# checks the pods that run at the end. The long version also checks that a planned restart of an
# agent loses no pod.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD="kubelet-node-a kubelet-node-b"
KUBELET_KINDS=(restart-kubelet kill-kubelet restart-agent-and-kubelet)
# Pods before the first fault, pods that each fault adds, and the faults of each round in addition to
# one of KUBELET_KINDS, which takes longer than all others.
FIRST=26 STEP=8 KINDS=(kill-agent kill-agent)
if [[ ${1:-} == --long ]]; then
  ROUNDS=${ROUNDS:-3} FIRST=8 STEP=4 POLICY=spread # both nodes get pods during every fault
  KINDS=(kill-agent kill-agent restart-agent restart-agent update-agent update-agent kill-extender kill-container kill-container)
fi
SEED=${SEED:-7} ROUNDS=${ROUNDS:-1}
RANDOM=$SEED
PODS=$((FIRST + STEP * (${#KINDS[@]} + 1)))
declare -A agents ports=([node-a]=$AGENT_PORT [node-b]=$AGENT_PORT)

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
extender_start --policy-shared "${POLICY:-binpack}"
start_agent() { LISTEN=${ports[$1]} agent_start_on "$1" && agents[$1]=$AGENT_PID; }
for node in node-a node-b; do
  start_agent "$node"
  wait_or_finish 20 "the agent of $node is ready" agent_ready_on "$node"
  wait_for 10 "$node has 128 shares" allocatable_is aliyun.com/gpu-mem 128 "$node"
done

# deployment NAME COUNT
deployment() {
  jq -cn --arg name "$1" --argjson count "$2" --argjson pod "$(share x 4)" '
    {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: $name},
     spec: {replicas: $count, selector: {matchLabels: {set: $name}},
            template: {metadata: {labels: {set: $name}}, spec: $pod.spec}}}'
}
# lost: prints how many pods kubelet has rejected because no agent served it at that moment.
lost() { api_get /api/v1/namespaces/default/pods | jq -n 'input | [.items[] | select(.status.reason == "UnexpectedAdmissionError")] | length'; }
live() { pods_in_phase Running; }
all_live() { (($(live) == PODS)); }
some_live() { (($(live) >= $1)); }
nodes_in_use() { kubectl get pods -o json | jq -r '[.items[] | select(.status.phase == "Running").spec.nodeName] | unique | join(" ")'; }
# ledger_agrees: whether the pods' records and the extender's ledger say the same: which pod holds
# how much of which GPU.
ledger_agrees() {
  local records ledger
  records=$(api_get /api/v1/namespaces/default/pods | jq -r '.items[] | select(.status.phase == "Running" or .status.phase == "Pending") |
    "\(.metadata.name) \(.spec.nodeName)" as $pod | .metadata.annotations["tessera.io/allocation"] // empty | fromjson |
    .containers[][] | "\($pod) \(.gpu) \(.mem)"' | sort)
  ledger=$(ask "$EXTENDER_PORT" /gpushare-scheduler/inspect |
    jq -r '.nodes[] | .name as $node | .devs[] | .uuid as $gpu | .pods[]? | "\(.name) \($node) \($gpu) \(.usedGPU)"' | sort)
  [[ -n $records && $records == "$ledger" ]]
}
# recovered NODE: whether all pods that are wanted run, also those that were created during the fault,
# and the node offers all its shares.
recovered() { some_live "$wanted" && serves "$1"; }
serves() { agent_ready_on "$1" "${ports[$1]}" && allocatable_is aliyun.com/gpu-mem 128 "$1" && reaches "$EXTENDER_PORT" /readyz; }

# fault KIND NODE: causes the fault. restart-agent and update-agent are planned restarts.
fault() {
  local old pod
  case $1 in
    restart-kubelet) cluster restart "kubelet-$2" >/dev/null ;;
    kill-kubelet) cluster kill "kubelet-$2" >/dev/null && cluster start "kubelet-$2" >/dev/null ;;
    kill-agent) stop "${agents[$2]}" KILL && start_agent "$2" ;;
    restart-agent) stop "${agents[$2]}" TERM && start_agent "$2" ;;
    restart-agent-and-kubelet) stop "${agents[$2]}" TERM && cluster restart "kubelet-$2" >/dev/null && start_agent "$2" ;;
    update-agent) # the new agent starts before the old one ends, as in a rolling update with surge
      old=${agents[$2]}
      ports[$2]=$((ports[$2] == AGENT_PORT ? AGENT_PORT - 10 : AGENT_PORT))
      start_agent "$2"
      wait_for 20 "the new agent of $2 is ready" agent_ready_on "$2" "${ports[$2]}"
      stop "$old" TERM
      ;;
    kill-extender) stop "$EXTENDER_PID" KILL && extender_start --policy-shared "${POLICY:-binpack}" ;;
    kill-container)
      # kubelet restarts a container at once only the first time.
      pod=$(api_get "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D$2" |
        jq -r 'first(.items[] | select(any(.status.containerStatuses[]?; .ready and .restartCount == 0))) | .metadata.name')
      kill_container "$pod" "$2"
      wait_for 60 "a killed container on $2 runs again" restarted "$pod" 1
      ;;
  esac
}

# disturb KIND NODE: causes the fault, waits until all pods run, and counts the pods that were lost
# meanwhile.
disturb() {
  local before begin now
  before=$(lost)
  begin=$(now_ms)
  fault "$1" "$2"
  count_fault "$1"
  # A kubelet that finds many old containers needs a minute until it listens to device plugins.
  try_wait_for 180 "$1 on $2: all $wanted pods run" recovered "$2" && count_recovery "$1" $(($(now_ms) - begin))
  try_wait_for 15 "$1 on $2: records and the extender's ledger agree" ledger_agrees || violation "$1: records and ledger"
  now=$(lost)
  count_lost "$1" $((now - before))
  ((now == before)) || say "      kubelet rejected $((now - before)) pods"
  if [[ $1 == restart-agent || $1 == update-agent ]]; then
    if ((now == before)); then pass "$1 on $2: no pod is lost"; else
      fail "$1 on $2: no pod is lost" "kubelet rejected $((now - before)) pods"
      violation "$1: a planned restart lost $((now - before)) pods"
    fi
  fi
}

for ((round = 1; round <= ROUNDS; round++)); do
  wanted=$FIRST
  deployment "round$round" "$wanted" | create
  for kind in $(SEED=$((SEED * 1000 + round)) shuffled "${KINDS[@]}" "${KUBELET_KINDS[(SEED + round) % ${#KUBELET_KINDS[@]}]}"); do
    wait_for 120 "round $round: half of $wanted pods run" some_live $((wanted / 2))
    wanted=$((wanted + STEP))
    kubectl scale deployment "round$round" --replicas="$wanted" >/dev/null
    node="node-a"
    ((RANDOM % 2)) || node="node-b"
    disturb "$kind" "$node"
  done
  wait_for 400 "round $round: all $PODS pods run" all_live
  expect "round $round: pods run on both nodes" "node-a node-b" "$(nodes_in_use)"
  check_agreement "round $round: records, containers and kubelets agree"
  try_wait_for 15 "round $round: records and the extender's ledger agree" ledger_agrees || violation "round $round: records and ledger"
  count_pods "$(kubectl get pods -o name | wc -l)"
  kubectl delete deployment "round$round" --wait=false >/dev/null
  kubectl delete pods --all --wait=false >/dev/null
  wait_for 120 "round $round: all pods are gone" no_pods
done
for node in node-a node-b; do
  say "      memory of the agent of $node: $(awk '/VmRSS/ { print $2, $3 }' "/proc/$(pgrep -P "${agents[$node]}")/status")"
done
say "      response times to Allocate calls of kubelet on node-a since its agent last started, in seconds:"
ask "${ports[node-a]}" /metrics | grep '^tessera_agent_kubelet_call_duration_seconds_bucket.*call="allocate".*gpu-mem"' | sed 's/^.*le=/      le=/' || true
stop "${agents[node-a]}"
stop "${agents[node-b]}"
stop "$EXTENDER_PID"
rm -f "$machine"
finish
