# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # S and DRIVER come from the cluster's library, EXTENDER_PID goes to the tests
# For tests of the extender beside a real kube-scheduler and API server, on simulated GPU nodes. Sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$root/tests/cluster/lib/api.sh"

EXTENDER=${TESSERA_EXTENDER:-$root/build/dev/bin/tessera-extender}
PORT=39999

# extender_cluster_start UP-ARGUMENTS...: a cluster whose scheduler asks an extender on PORT.
extender_cluster_start() {
  cluster_require_or_skip kwok
  [[ -x $EXTENDER ]] || { say "$TEST_NAME: skipped: $EXTENDER is not built" && exit 77; }
  local config
  config=$(mktemp)
  "$EXTENDER" --print-scheduler-config --attach service --url "http://127.0.0.1:$PORT" >"$config"
  cluster_start --nodes 0 --sim-nodes 1 --scheduler-config "$config" "$@"
  rm -f "$config"
}

# gpu_nodes COUNT GPUS GIB: simulated nodes gpu-0001 and up, without links between their GPUs.
gpu_nodes() {
  jq -cn --argjson count "$1" --argjson gpus "$2" --argjson gib "$3" '
    def number: tostring | ("0000" + .)[-4:];
    {apiVersion: "v1", kind: "List", items: [range(1; $count + 1) | "gpu-" + number | . as $name |
      {v: 1, unit: "GiB", driver: "550.54.15", gpus: [range($gpus) |
        {uuid: "GPU-\($name)-\(.)", index: ., minor: ., model: "Tesla V100-SXM2-32GB", memory_mib: ($gib * 1024),
         reserved_mib: 0}]} as $inventory |
      {cpu: "96", memory: "512Gi", pods: "250", "aliyun.com/gpu-mem": "\($gpus * $gib)", "aliyun.com/gpu": "\($gpus)",
       "aliyun.com/gpu-count": "\($gpus)"} as $has |
      {apiVersion: "v1", kind: "Node",
       metadata: {name: $name, labels: {"kubernetes.io/hostname": $name, "tessera.test/simulated": "true"},
                  annotations: {"kwok.x-k8s.io/node": "fake", "tessera.io/inventory": ($inventory | tojson)}},
       status: {capacity: $has, allocatable: $has}}]}' | kubectl create -f - >/dev/null
}

# extender_start [FLAGS...]: in the network of the cluster; its log is $S/extender.log. EXTENDER_PID is the program's.
extender_start() {
  (KUBECONFIG=$S/kube/admin in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$PORT" "$@" >>"$S/extender.log" 2>&1) &
  EXTENDER_PID=$!
}

# ask PATH [PORT]: GET from the extender.
ask() { (in_cluster_network curl -fsS --max-time 5 "http://127.0.0.1:${2:-$PORT}$1"); }
# send VERB BODY [PORT]: POST to it.
send() {
  (in_cluster_network curl -sS --max-time 12 -d "$2" "http://127.0.0.1:${3:-$PORT}/gpushare-scheduler/$1")
}
extender_ready() { ask /readyz "${1:-$PORT}" >/dev/null 2>&1; }

# metric NAME-WITH-LABELS [PORT]
metric() { ask /metrics "${2:-$PORT}" | awk -v name="$1" 'index($0, name " ") == 1 { print $NF }'; }

# pods_json NAME COUNT LIMITS-JSON: a List of pods NAME-0001 and up with one container.
pods_json() {
  jq -cn --arg name "$1" --argjson count "$2" --argjson limits "$3" '
    {apiVersion: "v1", kind: "List", items: [range(1; $count + 1) | tostring | ("0000" + .)[-4:] |
      {apiVersion: "v1", kind: "Pod", metadata: {name: "\($name)-\(.)", labels: {set: $name}},
       spec: {terminationGracePeriodSeconds: 0,
              containers: [{name: "main", image: "none", resources: {limits: $limits}}]}}]}'
}

# running SET: how many pods of a set run. unbound: how many pods have no node.
running() { kubectl get pods -l "set=$1" --no-headers 2>/dev/null | awk '$3 == "Running"' | wc -l; }
all_running() { (($(running "$1") == $2)); }
no_pods() { [[ -z $(kubectl get pods -o name) ]]; }

# books_problems: what the checker finds; nothing is right.
books_problems() {
  local at=$S/tmp/books
  mkdir -p "$at"
  if ! { kubectl get nodes -o json >"$at/nodes.json" && kubectl get pods -A -o json >"$at/pods.json" &&
    ask /gpushare-scheduler/inspect >"$at/inspect.json"; }; then
    echo "a view is missing"
    return
  fi
  jq -rn --slurpfile nodes "$at/nodes.json" --slurpfile pods "$at/pods.json" --slurpfile inspect "$at/inspect.json" \
    -f "$root/tests/extender/cluster/books.jq" | jq -r '.[]' | head -n 20
}
books_are_right() { [[ -z $(books_problems) ]]; }

# check_books WHAT: the cluster may still be moving, so the views get a moment to agree.
check_books() { wait_for 15 "$1" books_are_right || books_problems; }
