# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # S and DRIVER come from the cluster's library, EXTENDER_PID and others go to the tests
# Library for tests of the extender with a real kube-scheduler and API server, on simulated GPU
# nodes. Sourced.
#
# Scripts that disturb a cluster under load have three versions. They differ in these numbers and in
# the number of faults:
#   --short   for every test run: a few faults
#   --dense   for make soak: as many faults as possible per minute, with short Leases and timeouts
#   neither   for make soak: every fault once, with the times that are the default in production
# SEED sets the order of the faults.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$root/tests/cluster/lib/api.sh"

EXTENDER=${TESSERA_EXTENDER:-$root/build/dev/bin/tessera-extender}
TESSERA=${TESSERA:-$(dirname "$EXTENDER")/tessera}
PROXY=${TESSERA_FAULT_PROXY:-$(dirname "$EXTENDER")/../tools/fault-proxy}
PORT=39999

# Exactly PODS pods fit on GPU_NODES nodes. LEASE, RENEW and RETRY are the duration, renew deadline
# and retry period of a Lease, by default those of kube-scheduler (except the retry period). A bind
# may take BIND_TIMEOUT seconds. A process that is paused past a bind or a Lease stays paused for
# PAUSE more seconds.
GPU_NODES=10 LEASE=15 RENEW=10 RETRY=1 BIND_TIMEOUT=4 PAUSE=2
case ${1:-} in
  --short) GPU_NODES=5 LEASE=4 RENEW=2 BIND_TIMEOUT=1 PAUSE=1 ;;
  --dense) GPU_NODES=12 LEASE=4 RENEW=2 BIND_TIMEOUT=1 PAUSE=1 ;;
esac
PODS=$((GPU_NODES * 20))

scheduler_config() { "$EXTENDER" --print-scheduler-config --attach service --url "http://127.0.0.1:${SERVICE_PORT:-$PORT}"; }

# extender_cluster_start [--as SUFFIX] UP-ARGUMENTS...: starts a cluster whose scheduler calls an
# extender on PORT.
extender_cluster_start() {
  local -a as=()
  if [[ ${1:-} == --as ]]; then as=(--as "$2") && shift 2; fi
  cluster_require_or_skip kwok
  local config program
  for program in "$EXTENDER" "$TESSERA"; do
    [[ -x $program ]] || { say "$TEST_NAME: skipped: $program is not built" && exit 77; }
  done
  config=$(mktemp)
  scheduler_config >"$config"
  cluster_start "${as[@]}" --nodes 0 --sim-nodes 1 --scheduler-config "$config" "$@"
  rm -f "$config"
}

# gpu_nodes COUNT GPUS GIB: creates simulated nodes gpu-0001 and up, without links between GPUs.
gpu_nodes() {
  local machine=$S/tmp/machine-$2-$3.yaml
  mkdir -p "$S/tmp"
  cat >"$machine" <<EOF
v: 1
about: $2 GPUs of $3 GiB
driver: "550.54.15"
cuda: "12.4"
cpus: 96
memory_gib: 512
pods: 250
gpus:
  - {count: $2, model: Tesla V100-SXM2-32GB, memory_mib: $(($3 * 1024)), reserved_mib: 0, compute: "7.0"}
links: {rules: [{pcie: SYS}]}
EOF
  gpu_node_manifests gpu "$1" "$machine" >"$S/tmp/gpu-nodes.json"
  create_nodes "$S/tmp/gpu-nodes.json"
}

# token_kubeconfig NAME SERVER [CA]: writes a kubeconfig with a token, as a pod has. (With a client
# certificate the API server would verify a signature for every request.)
token_kubeconfig() {
  cat >"$S/kube/$1" <<EOF
apiVersion: v1
kind: Config
current-context: $1
clusters: [{name: $1, cluster: {server: $2${3:+, certificate-authority: $3}}}]
users: [{name: admin, user: {token: $(<"$S/pki/admin-token.token")}}]
contexts: [{name: $1, context: {cluster: $1, user: admin}}]
EOF
}

# extender_start [FLAGS...]: starts an extender in the network of the cluster and sets EXTENDER_PID.
# Its log is $S/extender.log. EXTENDER_KUBECONFIG overrides the kubeconfig.
extender_start() {
  [[ -n ${EXTENDER_KUBECONFIG:-} ]] || token_kubeconfig extender "https://$API_IP:$API_PORT" "$S/pki/ca.crt"
  (KUBECONFIG=${EXTENDER_KUBECONFIG:-$S/kube/extender} in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$PORT" "$@" >>"$S/extender.log" 2>&1) &
  EXTENDER_PID=$!
}

# scheduler_start NAME PORT: starts another kube-scheduler in the cluster's network and sets
# SCHEDULER_PID. Its configuration is $S/NAME-scheduler.yaml (which names a kubeconfig, for example
# $S/kube/extender), its host name NAME, its log $S/NAME-scheduler.log.
scheduler_start() {
  # shellcheck disable=SC2016 # for the inner shell
  (in_cluster_network setpriv --pdeathsig KILL -- unshare --uts bash -c 'hostname "$0" && exec "$@"' "$1" \
    "$S/bin/kube-scheduler" --config="$S/$1-scheduler.yaml" --secure-port="$2" --bind-address=127.0.0.1 \
    --cert-dir="$S/tmp/$1" --authorization-always-allow-paths=/healthz,/readyz >>"$S/$1-scheduler.log" 2>&1) &
  SCHEDULER_PID=$!
}

# proxy_start: makes extenders reach the API server only through the fault proxy. The scheduler and
# kwok still connect directly.
proxy_start() {
  (in_cluster_network setpriv --pdeathsig KILL -- "$PROXY" --upstream "https://$API_IP:$API_PORT" --upstream-ca "$S/pki/ca.crt" \
    >"$S/proxy.log" 2>&1) &
  proxy_is_up() { grep -q '^control' "$S/proxy.log"; }
  wait_or_finish 10 "the fault proxy is up" proxy_is_up
  token_kubeconfig through-proxy "$(awk '/^proxy/ { print $2 }' "$S/proxy.log")"
  EXTENDER_KUBECONFIG=$S/kube/through-proxy
  PROXY_CONTROL=$(awk '/^control/ { print $2 }' "$S/proxy.log")
}
# proxy METHOD COMMAND [BODY], inject FAULT-JSON: see tests/proxy/fault_proxy_main.cc.
proxy() { (in_cluster_network curl -fsS --max-time 5 -X "$1" "$PROXY_CONTROL/$2" -d "${3:-}") >/dev/null; }
inject() { proxy POST faults "$1"; }
# seen_faulty: prints how many calls the proxy has disturbed.
seen_faulty() { (in_cluster_network curl -fsS --max-time 5 "$PROXY_CONTROL/seen") | awk '/"faulty":true/ { n++ } END { print n + 0 }'; }

# ask PATH [PORT]: sends a GET to the extender.
ask() { (in_cluster_network curl -fsS --max-time 5 "http://127.0.0.1:${2:-$PORT}$1"); }
# send VERB BODY [PORT]: sends a POST to the extender.
send() {
  (in_cluster_network curl -sS --max-time 12 -d "$2" "http://127.0.0.1:${3:-$PORT}/gpushare-scheduler/$1")
}
extender_ready() { ask /readyz "${1:-$PORT}" >/dev/null 2>&1; }

# metric NAME-WITH-LABELS [PORT]: fails if there is no such metric.
metric() { ask /metrics "${2:-$PORT}" | awk -v name="$1" 'index($0, name " ") == 1 { print $NF; found = 1 } END { exit !found }'; }

# failed_binds: prints how many binds of this extender failed and had to be retried.
failed_binds() {
  local result count sum=0
  for result in no_room refused unknown; do
    count=$(metric "tessera_extender_binds_total{result=\"$result\"}") || return 1
    sum=$((sum + count))
  done
  echo "$sum"
}

# pods_json NAME COUNT LIMITS-JSON [FIRST]: prints a List of pods with one container, NAME-0001 (or
# number FIRST) and up, for the scheduler SCHEDULER_NAME.
pods_json() {
  jq -cn --arg name "$1" --argjson count "$2" --argjson limits "$3" --argjson first "${4:-1}" \
    --arg scheduler "${SCHEDULER_NAME:-default-scheduler}" '
    {apiVersion: "v1", kind: "List", items: [range($first; $first + $count) | tostring | ("0000" + .)[-4:] |
      {apiVersion: "v1", kind: "Pod", metadata: {name: "\($name)-\(.)", labels: {set: $name}},
       spec: {terminationGracePeriodSeconds: 0, schedulerName: $scheduler,
              containers: [{name: "main", image: "none", resources: {limits: $limits}}]}}]}'
}

# create_in_background SET COUNT LIMITS-JSON [FIRST]: creates pods in the background, so that a test
# can disturb the cluster meanwhile, even the API server. The process CREATION_PID ends when all
# pods exist.
create_in_background() {
  local file=$S/tmp/$1-${4:-1}.json
  pods_json "$@" >"$file"
  count_pods "$2"
  (
    until kubectl create -f "$file" >/dev/null 2>&1 || kubectl get -f "$file" >/dev/null 2>&1; do
      sleep 1
    done
  ) &
  CREATION_PID=$!
}

# running SET: prints how many pods of a set run.
running() { pods_in_phase Running "set=$1"; }
all_running() { (($(running "$1") == $2)); }
no_pods() { prints_nothing kubectl get pods -o name; }
some_running() { (($(running "$1") >= $2)); }
none_left() { prints_nothing kubectl get pods -l "set=$1" -o name; }

# under_load NAME COMMAND FAULT...: fills the cluster with pods until it is exactly full. Meanwhile
# calls `COMMAND FAULT` for each fault, when some pods of a part run and half of the part does not
# exist yet. After each fault all pods must run, and ledger and cluster must agree. Calls
# `after_fault FAULT` if the script has such a function. In the end, the ledger must be that of a
# new extender, and once all pods are deleted it must be empty. PART is the number of pods that are
# created during the fault.
under_load() {
  local name=$1 command=$2 limits='{"aliyun.com/gpu-mem": "2"}' fault part made=0 left begin
  local -a creations
  shift 2
  left=$#
  for fault; do
    part=$(((PODS - made) / left / 2)) left=$((left - 1))
    create_in_background "$name" "$part" "$limits" $((made + 1))
    creations=("$CREATION_PID")
    wait_for 120 "$name, $fault: the first pods run" some_running "$name" $((made + part / 5))
    made=$((made + part))
    ((left > 0)) || part=$((PODS - made))
    PART=$part
    create_in_background "$name" "$part" "$limits" $((made + 1))
    creations+=("$CREATION_PID")
    made=$((made + part))
    begin=$(now_ms)
    "$command" "$fault"
    count_fault "$fault"
    wait "${creations[@]}"
    try_wait_for 300 "$name, $fault: all $made pods run" all_running "$name" "$made" && count_recovery "$fault" $(($(now_ms) - begin))
    PORT=$(answering_port) check_ledger "$name, $fault: annotations, ledger and inventory agree"
    ! declare -F after_fault >/dev/null || after_fault "$fault"
  done
  PORT=$(answering_port) check_rebuild "$name: a new extender builds the same ledger"
  kubectl delete pods -l "set=$name" --wait=false >/dev/null
  wait_for 120 "$name: all pods are deleted" none_left "$name"
  PORT=$(answering_port) check_ledger "$name: the ledger is empty again"
}
# answering_port: prints the port of the leading extender. Scripts with several extenders override
# it.
answering_port() { echo "$PORT"; }

# lease_free_at NAMESPACE NAME: prints the time in ms at which the Lease expires if it is not
# renewed.
lease_free_at() {
  kubectl -n "$1" get lease "$2" -o json | jq '.spec |
    (.renewTime[0:19] + "Z" | fromdate) * 1000 + (.renewTime[20:23] | tonumber) + .leaseDurationSeconds * 1000'
}
leads() { [[ $(metric tessera_extender_leading "$1") == 1 ]]; }
bound() { metric 'tessera_extender_binds_total{result="bound"}' "$1"; }
# expect_hand_over WHAT PORT FREE-AT BEGIN: checks that the extender on PORT leads within 5 s after
# the Lease became free. BEGIN is the time of the fault. Prints how long each phase took, until the
# extender has bound a pod.
expect_hand_over() {
  local took before led i
  before=$(bound "$2") || before=0
  wait_for $((LEASE + 30)) "$1: the other replica leads" leads "$2"
  led=$(now_ms)
  took=$((led - $3))
  # Before the Lease is free, no other extender may bind.
  check "$1: it leads within 5 s after the Lease is free, and not before ($took ms)" test "$took" -ge 0 -a "$took" -le 5000
  # kube-scheduler may still wait for an answer of a stopped extender.
  [[ $1 != *-stopped ]] || return 0
  for ((i = 0; i < 100; i++)); do
    (($(bound "$2") == before)) || break
    sleep 0.05
  done
  say "      $1: the Lease was free after $(($3 - $4)) ms, another replica led $took ms later, and bound a pod $(($(now_ms) - led)) ms after that"
}

# ledger_problems: prints differences between ledger, pods and inventories, if there are any. Fails
# if it cannot compare them.
ledger_problems() {
  local at=$S/tmp/ledger
  mkdir -p "$at"
  rm -f "$at"/*
  if ! { api_get /api/v1/nodes >"$at/nodes.json" && api_get /api/v1/pods >"$at/pods.json" &&
    ask /gpushare-scheduler/inspect >"$at/inspect.json"; }; then
    echo "cannot read nodes, pods or the ledger"
    return 1
  fi
  if ! jq -rn --slurpfile nodes "$at/nodes.json" --slurpfile pods "$at/pods.json" --slurpfile inspect "$at/inspect.json" \
    -f "$root/tests/extender/cluster/ledger.jq" >"$at/problems"; then
    echo "ledger.jq cannot compare nodes, pods and the ledger"
    return 1
  fi
  head -n 20 "$at/problems"
}

# check_ledger WHAT: checks that they agree. Retries for a while: the cluster may still change.
check_ledger() { try_wait_for 15 "$1" prints_nothing ledger_problems || violation "$1"; }

# rebuild_problems PORT: prints differences between the ledger of the extender and that of another
# one on PORT, which built it from lists.
rebuild_problems() {
  local at=$S/tmp/rebuild port
  mkdir -p "$at"
  for port in "$PORT" "$1"; do
    if ! ask /gpushare-scheduler/inspect "$port" | jq -Sn 'input | [.nodes[] | {name, devs: [.devs[] | {uuid, usedGPU,
      pods: ([.pods[] | {namespace, name, usedGPU}] | sort)}]}] | sort | if . == [] then error("no nodes") else .[] end' >"$at/$port"; then
      echo "cannot read the ledger on port $port"
      return 1
    fi
  done
  diff "$at/$PORT" "$at/$1" >"$at/differences" || (($? == 1)) || return 1
  head -n 20 "$at/differences"
}

# check_rebuild WHAT: starts another extender for a moment and compares its ledger.
check_rebuild() {
  local port=39990 pid
  token_kubeconfig rebuild "https://$API_IP:$API_PORT" "$S/pki/ca.crt"
  (KUBECONFIG=$S/kube/rebuild in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$port" >"$S/rebuild.log" 2>&1) &
  pid=$!
  wait_for 20 "$1: it is ready" extender_ready "$port"
  try_wait_for 10 "$1" prints_nothing rebuild_problems "$port" || violation "$1"
  kill "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
