#!/usr/bin/env bash
# Measures the extender on a real cluster (docs/extender.md has a table of the results):
#
#   measure.sh binds    binds per second, compared with a client that only posts bindings
#   measure.sh rate     pods per second through kube-scheduler with and without the extender
#   measure.sh fgd      GPUs that fgd allocates for an openb slice, compared with `tessera simulate`
#   measure.sh size     memory and start time with 5,000 nodes and 40,000 pods
#
# Needs the release build with its tool:
#   cmake --build --preset release --target tessera tessera-extender extender_load
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$here/../../.." && pwd)/build/release
export TESSERA_EXTENDER=${TESSERA_EXTENDER:-$build/bin/tessera-extender}
# shellcheck source=lib.sh
source "$here/lib.sh"
LOAD=${TESSERA_LOAD:-$build/tools/extender_load}
DATA=${TESSERA_SHARED_DATA:-$root/../shared/data}
ROUNDS=${MEASURE_ROUNDS:-5}
PERCENT=${MEASURE_PERCENT:-100}
[[ -x $LOAD ]] || { say "$TEST_NAME: skipped: $LOAD is not built" && exit 77; }

# load ARGUMENTS...: runs the tool in the network of the cluster.
load() {
  [[ -e $S/kube/load ]] || token_kubeconfig load "https://$API_IP:$API_PORT" "$S/pki/ca.crt"
  (KUBECONFIG=$S/kube/load in_cluster_network "$LOAD" "$@" 2>>"$S/load.log") || {
    say "$LOAD $*: $(tail -n 1 "$S/load.log")" >&2
    return 1
  }
}
# pods_lines NAME COUNT LIMITS-JSON [SCHEDULER]: prints one pod per line.
pods_lines() {
  pods_json "$1" "$2" "$3" | jq -c --arg scheduler "${4:-default-scheduler}" '.items[] | .spec.schedulerName = $scheduler'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
remove_pods() {
  kubectl delete pods --all --wait=false >/dev/null
  wait_until 120 "all pods to be deleted" no_pods
}

measure_binds() {
  local round count=1000 bare=() through=()
  extender_cluster_start --sim-nodes 1000 --sim-machine dgx1v
  extender_start --log-level warn
  wait_or_finish 20 "the extender is ready" extender_ready
  # Otherwise kwok would still be starting the pods of the previous round during a measurement.
  send_to_driver signal kwok STOP
  for ((round = 1; round <= ROUNDS; round++)); do
    pods_lines "bare$round" "$count" '{"aliyun.com/gpu-mem": "2"}' none | load create >/dev/null
    bare+=("$(load bind --nodes 1000 | awk '{ print $(NF - 1) }')")
    pods_lines "ours$round" "$count" '{"aliyun.com/gpu-mem": "2"}' none | load create >/dev/null
    through+=("$(load bind --nodes 1000 --extender "http://127.0.0.1:$PORT" | awk '{ print $(NF - 1) }')")
  done
  local a b
  a=$(printf '%s\n' "${bare[@]}" | median) b=$(printf '%s\n' "${through[@]}" | median)
  say "binds/s, median of $ROUNDS rounds of $count, 16 at once: bare $a (${bare[*]}), through the extender $b (${through[*]})"
  say "decision: $(metric tessera_extender_bind_decision_seconds_sum) s for $(metric tessera_extender_bind_decision_seconds_count) binds"
  check "at least 1,000 binds per second or 90% of the bare client" awk "BEGIN { exit !($b >= 1000 || $b >= 0.9 * $a) }"
}

# one_rate SET: creates 1,000 pods while the scheduler is stopped, continues it, and prints the pods
# per second from the first to the last bind.
one_rate() {
  send_to_driver signal kube-scheduler STOP
  pods_lines "$1" 1000 '{"aliyun.com/gpu-mem": "2"}' | load create >/dev/null
  load bound --count 1000 --timeout 60 >"$S/tmp/bound" &
  local watch=$!
  wait_until 10 "the watch" grep -q watching "$S/tmp/bound"
  send_to_driver signal kube-scheduler CONT
  wait "$watch"
  awk '/^bound/ { print $(NF - 1) }' "$S/tmp/bound"
}

# With the default limit of 50 writes per second, the scheduler would measure only that limit.
lift_limit() { sed -e 's/^clientConnection:$/&\n  qps: 5000\n  burst: 5000/' -e "s/^percentageOfNodesToScore: .*/percentageOfNodesToScore: $PERCENT/"; }

# The two schedulers differ only in the extender.
measure_rate() {
  local round with=() without=() bare
  eval "printed_config() $(declare -f scheduler_config | tail -n +2)"
  scheduler_config() { printed_config | lift_limit; }
  bare=$(mktemp)
  scheduler_config | sed '/^extenders:/,$d' >"$bare"
  # Both clusters exist at once and take turns, so that load on the machine affects both.
  extender_cluster_start --as with --sim-nodes 1000 --sim-machine dgx1v
  extender_start --log-level warn
  wait_or_finish 20 "the extender is ready" extender_ready
  cluster_start --as without --nodes 0 --sim-nodes 1000 --sim-machine dgx1v --scheduler-config "$bare"
  rm -f "$bare"
  for ((round = 1; round <= ROUNDS; round++)); do
    switch_cluster with
    with+=("$(one_rate "r$round")")
    remove_pods
    switch_cluster without
    without+=("$(one_rate "r$round")")
    remove_pods
  done
  local a b
  a=$(printf '%s\n' "${without[@]}" | median) b=$(printf '%s\n' "${with[@]}" | median)
  say "pods/s, 1,000 nodes, median of $ROUNDS rounds of 1,000: without $a (${without[*]}), with the extender $b (${with[*]})"
  check "at least 85% of the rate without it" awk "BEGIN { exit !($b >= 0.85 * $a) }"
}

# A slice of the openb trace: 300 nodes spread over the list, and pods in order until they request
# 130% of the GPUs.
openb_slice() {
  awk -F, 'NR == 1 || NR % 4 == 2' "$DATA/openb/openb_node_list_gpu_node.csv" | head -n 301 >"$1/nodes.csv"
  awk -F, -v gpus="$(awk -F, 'NR > 1 { n += $4 } END { print n }' "$1/nodes.csv")" '
    NR == 1 { print; next }
    asked < 1.3 * gpus { print; asked += $4 * $5 / 1000 }' "$DATA/openb/openb_pod_list_default.csv" >"$1/pods.csv"
}

# A GPU is 1,000 units of 1 MiB, as in the simulator.
openb_nodes() {
  jq -Rcn '[inputs | split(",")][1:] | {apiVersion: "v1", kind: "List", items: map(. as [$name, $cpu, $memory, $gpus, $model] |
    ($gpus | tonumber) as $n |
    {cpu: ($cpu + "m"), memory: ($memory + "Mi"), pods: "500", "aliyun.com/gpu-mem": "\($n * 1000)", "aliyun.com/gpu": $gpus,
     "aliyun.com/gpu-count": $gpus} as $has |
    {apiVersion: "v1", kind: "Node",
     metadata: {name: $name, labels: {"kubernetes.io/hostname": $name, "tessera.test/simulated": "true"},
                annotations: {"kwok.x-k8s.io/node": "fake", "tessera.io/inventory":
                  ({v: 1, unit: "MiB", driver: "550.54.15", gpus: [range($n) |
                    {uuid: "GPU-\($name)-\(.)", index: ., minor: ., model: $model, memory_mib: 1000, reserved_mib: 0}]} | tojson)}},
     status: {capacity: $has, allocatable: $has}})}' <"$1"
}

openb_pods() {
  jq -Rc 'select(startswith("name,") | not) | split(",") | . as [$name, $cpu, $memory, $gpus, $milli, $models] |
    {apiVersion: "v1", kind: "Pod",
     metadata: {name: $name, annotations: (if $models == "" then {} else {"tessera.io/gpu-model": ($models | gsub("\\|"; ","))} end)},
     spec: {terminationGracePeriodSeconds: 0, containers: [{name: "main", image: "none", resources: {
       requests: {cpu: ($cpu + "m"), memory: ($memory + "Mi")},
       limits: (if $gpus == "0" then {} elif $milli == "1000" then {"aliyun.com/gpu": $gpus} else {"aliyun.com/gpu-mem": $milli} end)}}]}}' <"$1"
}

measure_fgd() {
  extender_cluster_start
  local slice=$S/tmp
  mkdir -p "$slice"
  openb_slice "$slice"
  openb_nodes "$slice/nodes.csv" >"$slice/openb.json"
  kubectl delete node sim-0001 >/dev/null
  create_nodes "$slice/openb.json"
  extender_start --policy-shared fgd --unit MiB --log-level warn
  wait_or_finish 20 "the extender is ready" extender_ready
  local pods
  pods=$(openb_pods "$slice/pods.csv" | tee "$slice/pods.jsonl" | wc -l)
  load bound --count "$pods" --timeout 170 --quiet 8 >"$slice/bound" &
  local watch=$!
  wait_until 10 "the watch" grep -q watching "$slice/bound"
  load create --at-once 1 <"$slice/pods.jsonl"
  wait "$watch" || true
  cat "$slice/bound"
  check_ledger "annotations, ledger and inventory agree"
  local real simulated
  real=$(ask /metrics | awk '$1 == "tessera_extender_memory_units" { all = $2 } $1 == "tessera_extender_memory_units_free" { free = $2 }
    END { printf "%.2f", 100 * (all - free) / all }')
  simulated=$("$TESSERA" simulate --nodes "$slice/nodes.csv" --pods "$slice/pods.csv" --policy fgd --seeds 10 --at 130 --typical recent -o json |
    tee "$slice/simulated.json" | jq -r '.policies[0].mean.allocated_percent["130"]')
  say "fgd on $(($(wc -l <"$slice/nodes.csv") - 1)) nodes, $pods pods in order: $real% of the GPUs allocated, simulated $simulated%"
  check "within 1 percentage point of the simulation" awk "BEGIN { d = $real - $simulated; exit !(d < 1 && d > -1) }"
}

measure_size() {
  extender_cluster_start --sim-nodes 5000 --sim-machine dgx1v
  kubectl get nodes -o json | jq -c '[.items[] | {name: .metadata.name,
    gpus: (.metadata.annotations["tessera.io/inventory"] // "{\"gpus\":[]}" | fromjson | [.gpus[].uuid])}] | map(select(.gpus != [])) |
    . as $nodes | range(40000) | $nodes[. / 8 | floor] as $node | {apiVersion: "v1", kind: "Pod", metadata: {name: "p-\(.)",
      annotations: {"tessera.io/allocation": ({v: 1, containers: {main: [{gpu: $node.gpus[. % 8], mem: 2}]}} | tojson)}},
     spec: {nodeName: $node.name, containers: [{name: "main", image: "none", resources: {limits: {"aliyun.com/gpu-mem": "2"}}}]}}' |
    load create --at-once 32
  # Otherwise kwok would still be starting 40,000 pods during the measurement, which takes minutes.
  send_to_driver signal kwok STOP
  local nodes begin took lists
  nodes=$(kubectl get nodes -o name | wc -l)
  sleep 5
  begin=$(now_ms)
  extender_start --log-level info
  wait_or_finish 60 "ready with $nodes nodes and 40,000 pods" extender_ready
  took=$(seconds_since "$begin")
  say "ready in $took s: $(grep ' ready' "$S/extender.log" | tail -n 1)"
  # The share of the API server: the same lists, discarded.
  begin=$(now_ms)
  kubectl get --raw '/api/v1/pods' >/dev/null &
  lists=$!
  kubectl get --raw '/api/v1/nodes' >/dev/null
  wait "$lists"
  say "kubectl needs $(seconds_since "$begin") s for the same lists"
  check "ready within 5 s" awk "BEGIN { exit !($took <= 5) }"
  local kib
  kib=$(awk '/^VmHWM/ { print $2 }' "/proc/$EXTENDER_PID/status")
  say "peak RSS $((kib * 1024 / 1000000)) MB"
  check "at most 64 MB" test "$kib" -le 62500
}

case ${1:-} in
  binds | rate | fgd | size) "measure_$1" ;;
  *) die "usage: measure.sh binds|rate|fgd|size" ;;
esac
[[ -z ${EXTENDER_PID:-} ]] || kill "$EXTENDER_PID" 2>/dev/null || true
finish
