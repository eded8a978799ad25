# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # S and DRIVER come from the cluster's library, EXTENDER_PID and others go to the tests
# For tests of the extender beside a real kube-scheduler and API server, on simulated GPU nodes. Sourced.
#
# Scripts that do something to a cluster under load have a long version (make soak) and, with --short, one for every test
# run; these numbers are all that differs.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$root/tests/cluster/lib/api.sh"

EXTENDER=${TESSERA_EXTENDER:-$root/build/dev/bin/tessera-extender}
TESSERA=${TESSERA:-$(dirname "$EXTENDER")/tessera}
PROXY=${TESSERA_FAULT_PROXY:-$(dirname "$EXTENDER")/../tools/fault-proxy}
PORT=39999

# Room for exactly PODS pods on GPU_NODES nodes. Of a Lease: its duration, the time within which it must be renewed, and between two
# tries. A bind may take BIND_TIMEOUT seconds. Whoever is to be away for longer than a bind or a lease may last is so for
# PAUSE more seconds.
GPU_NODES=25 LEASE=15 RENEW=10 RETRY=1 BIND_TIMEOUT=4 PAUSE=2
if [[ ${1:-} == --short ]]; then
  GPU_NODES=5 LEASE=4 RENEW=2 RETRY=1 BIND_TIMEOUT=1 PAUSE=1
fi
PODS=$((GPU_NODES * 20))

scheduler_config() { "$EXTENDER" --print-scheduler-config --attach service --url "http://127.0.0.1:${SERVICE_PORT:-$PORT}"; }

# extender_cluster_start [--as SUFFIX] UP-ARGUMENTS...: a cluster whose scheduler asks an extender on PORT.
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

# gpu_nodes COUNT GPUS GIB: simulated nodes gpu-0001 and up, without links between their GPUs.
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

# token_kubeconfig NAME SERVER [CA]: with a token, as in a pod. (With a client certificate the API server would verify
# signatures at every request.)
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

# extender_start [FLAGS...]: in the network of the cluster; its log is $S/extender.log. EXTENDER_PID is the program's.
# EXTENDER_KUBECONFIG: another way to the API server.
extender_start() {
  [[ -n ${EXTENDER_KUBECONFIG:-} ]] || token_kubeconfig extender "https://$API_IP:$API_PORT" "$S/pki/ca.crt"
  (KUBECONFIG=${EXTENDER_KUBECONFIG:-$S/kube/extender} in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$PORT" "$@" >>"$S/extender.log" 2>&1) &
  EXTENDER_PID=$!
}

# scheduler_start NAME PORT: one more kube-scheduler in the cluster's network, with the configuration $S/NAME-scheduler.yaml (which
# names a kubeconfig, $S/kube/extender for example) and the host name NAME; its log is $S/NAME-scheduler.log. SCHEDULER_PID is the program's.
scheduler_start() {
  # shellcheck disable=SC2016 # for the inner shell
  (in_cluster_network setpriv --pdeathsig KILL -- unshare --uts bash -c 'hostname "$0" && exec "$@"' "$1" \
    "$S/bin/kube-scheduler" --config="$S/$1-scheduler.yaml" --secure-port="$2" --bind-address=127.0.0.1 \
    --cert-dir="$S/tmp/$1" --authorization-always-allow-paths=/healthz,/readyz >>"$S/$1-scheduler.log" 2>&1) &
  SCHEDULER_PID=$!
}

# proxy_start: from now on extenders see the API server through the fault proxy alone (scheduler and kwok do not).
proxy_start() {
  (in_cluster_network setpriv --pdeathsig KILL -- "$PROXY" --upstream "https://$API_IP:$API_PORT" --upstream-ca "$S/pki/ca.crt" \
    >"$S/proxy.log" 2>&1) &
  proxy_is_up() { grep -q '^control' "$S/proxy.log"; }
  wait_or_finish 10 "the fault proxy is up" proxy_is_up
  token_kubeconfig through-proxy "$(awk '/^proxy/ { print $2 }' "$S/proxy.log")"
  EXTENDER_KUBECONFIG=$S/kube/through-proxy
  PROXY_CONTROL=$(awk '/^control/ { print $2 }' "$S/proxy.log")
}
# proxy METHOD COMMAND [BODY], inject FAULT-JSON: as tests/proxy/fault_proxy_main.cc says.
proxy() { (in_cluster_network curl -fsS --max-time 5 -X "$1" "$PROXY_CONTROL/$2" -d "${3:-}") >/dev/null; }
inject() { proxy POST faults "$1"; }
# seen_faulty: how many calls it has failed.
seen_faulty() { (in_cluster_network curl -fsS --max-time 5 "$PROXY_CONTROL/seen") | grep -c '"faulty":true' || true; }

# ask PATH [PORT]: GET from the extender.
ask() { (in_cluster_network curl -fsS --max-time 5 "http://127.0.0.1:${2:-$PORT}$1"); }
# send VERB BODY [PORT]: POST to it.
send() {
  (in_cluster_network curl -sS --max-time 12 -d "$2" "http://127.0.0.1:${3:-$PORT}/gpushare-scheduler/$1")
}
extender_ready() { ask /readyz "${1:-$PORT}" >/dev/null 2>&1; }

# metric NAME-WITH-LABELS [PORT]
metric() { ask /metrics "${2:-$PORT}" | awk -v name="$1" 'index($0, name " ") == 1 { print $NF }'; }

# failed_binds: how many binds of this extender have to be tried again.
failed_binds() {
  for result in no_room refused unknown; do metric "tessera_extender_binds_total{result=\"$result\"}"; done |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# pods_json NAME COUNT LIMITS-JSON [FIRST]: a List of pods NAME-0001 (or from number FIRST) and up with one container, for the
# scheduler SCHEDULER_NAME.
pods_json() {
  jq -cn --arg name "$1" --argjson count "$2" --argjson limits "$3" --argjson first "${4:-1}" \
    --arg scheduler "${SCHEDULER_NAME:-default-scheduler}" '
    {apiVersion: "v1", kind: "List", items: [range($first; $first + $count) | tostring | ("0000" + .)[-4:] |
      {apiVersion: "v1", kind: "Pod", metadata: {name: "\($name)-\(.)", labels: {set: $name}},
       spec: {terminationGracePeriodSeconds: 0, schedulerName: $scheduler,
              containers: [{name: "main", image: "none", resources: {limits: $limits}}]}}]}'
}

# create_in_background SET COUNT LIMITS-JSON [FIRST]: so that something can happen in the middle of it, even to the API server.
# CREATION_PID ends when all of these exist.
create_in_background() {
  local file=$S/tmp/$1-${4:-1}.json
  pods_json "$@" >"$file"
  (
    until kubectl create -f "$file" >/dev/null 2>&1 || kubectl get -f "$file" >/dev/null 2>&1; do
      sleep 1
    done
  ) &
  CREATION_PID=$!
}

# running SET: how many pods of a set run. unbound: how many pods have no node.
running() { kubectl get pods -l "set=$1" --no-headers 2>/dev/null | awk '$3 == "Running"' | wc -l; }
all_running() { (($(running "$1") == $2)); }
no_pods() { [[ -z $(kubectl get pods -o name) ]]; }
some_running() { (($(running "$1") >= $2)); }
none_left() { [[ -z $(kubectl get pods -l "set=$1" -o name) ]]; }

# under_load NAME COMMAND...: pods are placed where exactly so many fit, and the command runs in the middle of it: some run, and
# half of them have yet to come. Afterwards books and cluster agree, and when all have gone nothing stays in the books.
under_load() {
  local name=$1 half=$((PODS / 2)) limits='{"aliyun.com/gpu-mem": "2"}'
  local -a creations
  shift
  create_in_background "$name" "$half" "$limits"
  creations=("$CREATION_PID")
  wait_for 120 "$name: pods begin to run" some_running "$name" $((PODS / 10))
  create_in_background "$name" $((PODS - half)) "$limits" $((half + 1))
  creations+=("$CREATION_PID")
  "$@"
  wait "${creations[@]}"
  wait_for 300 "$name: all $PODS run" all_running "$name" "$PODS"
  PORT=$(answering_port) check_books "$name: annotations, books and inventory agree"
  kubectl delete pods -l "set=$name" --wait=false >/dev/null
  wait_for 120 "$name: and all go" none_left "$name"
  PORT=$(answering_port) check_books "$name: and nothing stays in the books"
}
# answering_port: of the extender that leads; scripts with several say which that is.
answering_port() { echo "$PORT"; }

# lease_free_at NAMESPACE NAME: when, in ms, the Lease is free if nobody renews it any more.
lease_free_at() {
  kubectl -n "$1" get lease "$2" -o json | jq '.spec |
    (.renewTime[0:19] + "Z" | fromdate) * 1000 + (.renewTime[20:23] | tonumber) + .leaseDurationSeconds * 1000'
}
leads() { [[ $(metric tessera_extender_leading "$1") == 1 ]]; }
# expect_hand_over WHAT PORT FREE-AT: the extender on PORT binds within 5 s after the lease was free.
expect_hand_over() {
  local took
  wait_for $((LEASE + 30)) "$1: the other one leads" leads "$2"
  took=$(($(now_ms) - $3))
  # Before it is free nobody else may bind.
  check "$1: within 5 s after the lease is free, and not before ($took ms)" test "$took" -ge 0 -a "$took" -le 5000
}

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
check_books() { try_wait_for 15 "$1" books_are_right || books_problems; }
