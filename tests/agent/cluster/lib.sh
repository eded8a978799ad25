# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # S and DRIVER come from the cluster's library, the pids go to the tests
# For tests of the agent under a real kubelet, with the real kube-scheduler and the extender, on simulated GPUs. Sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$root/tests/cluster/lib/api.sh"

AGENT=${TESSERA_AGENT:-$root/build/dev/bin/tessera-agent}
BIN=$(dirname "$AGENT")
OTHER_PLUGIN=${TESSERA_OTHER_PLUGIN:-$(dirname "$BIN")/tests/other_plugin}
EXTENDER_PORT=39999
AGENT_PORT=39997

# agent_cluster_start UP-ARGUMENTS...: a cluster whose scheduler asks an extender, with GPUs of MACHINE on each of its NODES
# real nodes (1); K8S is another version of Kubernetes than the usual one.
agent_cluster_start() {
  cluster_require_or_skip
  local config program node
  for program in "$AGENT" "$BIN/tessera-extender" "$BIN/tessera-sim-machine"; do
    [[ -x $program ]] || { say "$TEST_NAME: skipped: $program is not built" && exit 77; }
  done
  config=$(mktemp)
  "$BIN/tessera-extender" --print-scheduler-config --attach service --url "http://127.0.0.1:$EXTENDER_PORT" >"$config"
  cluster_start --nodes "${NODES:-1}" --scheduler-config "$config" ${K8S:+--k8s "$K8S"} "$@"
  rm -f "$config"
  GPUS=$S/gpus-node-a
  for node in $(all_nodes); do
    "$BIN/tessera-sim-machine" --machine "${MACHINE:-dgx1v}" --node "$node" --dir "$S/gpus-$node" >/dev/null
  done
}

# extender_start [FLAGS...]: in node-a; its log is $S/extender.log.
extender_start() {
  (in_cluster node-a "$BIN/tessera-extender" \
    --listen "127.0.0.1:$EXTENDER_PORT" "$@" >>"$S/extender.log" 2>&1) &
  EXTENDER_PID=$!
  wait_or_finish 20 "the extender is ready" reaches "$EXTENDER_PORT" /readyz
}
# agent_start [FLAGS...]: in node-a; agent_start_on NODE [FLAGS...]: anywhere; at LISTEN, a port (AGENT_PORT). Logs are in
# $S/agent-NODE.log.
agent_start_on() {
  local node=$1
  shift
  (in_cluster "$node" "$AGENT" --node-name "$node" \
    --listen "127.0.0.1:${LISTEN:-$AGENT_PORT}" --driver-root "$S/gpus-$node" --sysfs-root "$S/gpus-$node/sys" \
    --dev-root "$S/gpus-$node/dev" --state-dir "$S/agent-state-$node" "$@" >>"$S/agent-$node.log" 2>&1) &
  AGENT_PID=$!
}
agent_start() { agent_start_on node-a "$@"; }
agent_ready() { reaches "$AGENT_PORT" /readyz; }
agent_ready_on() { (in_cluster "$1" curl -fsS --max-time 5 "http://127.0.0.1:$AGENT_PORT/readyz") >/dev/null 2>&1; }
# stop PID [SIGNAL]: the program behind a PID of the above, and wait for its end.
stop() {
  pkill "-${2:-TERM}" -P "$1"
  wait "$1" 2>/dev/null || true
}

# ask PORT PATH
ask() { (in_cluster_network curl -fsS --max-time 5 "http://127.0.0.1:$1$2"); }
reaches() { ask "$1" "$2" >/dev/null 2>&1; }

# pod NAME CONTAINERS-JSON [POD-JSON]: a pod whose containers print their environment and then wait. A container is
# {"name", "limits", "init": true?}; POD-JSON is merged over it.
pod() {
  jq -cn --arg name "$1" --argjson containers "$2" --argjson more "${3:-{\}}" '
    def container: {name, image: "tessera.local/busybox:1", resources: {limits: (.limits // {})},
                    command: ["sh", "-c", if .init then "env" else "env; exec sleep 100000" end]};
    {apiVersion: "v1", kind: "Pod", metadata: {name: $name},
     spec: {terminationGracePeriodSeconds: 0, initContainers: [$containers[] | select(.init) | container],
            containers: [$containers[] | select(.init | not) | container]}} * $more'
}
create() { kubectl create -f - >/dev/null; }
# share NAME UNITS, whole NAME COUNT [RESOURCE]
share() { pod "$1" "[{\"name\":\"main\",\"limits\":{\"aliyun.com/gpu-mem\":\"$2\"}}]" "${3:-{\}}"; }
whole() { pod "$1" "[{\"name\":\"main\",\"limits\":{\"${3:-aliyun.com/gpu}\":\"$2\"}}]"; }

running() { kubectl get pods --no-headers 2>/dev/null | awk '$3 == "Running"' | wc -l; }
all_running() { (($(running) == $1)); }
no_pods() { [[ -z $(kubectl get pods -o name) ]]; }
record() { kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.tessera\.io/allocation}'; }
# sees POD [CONTAINER] [VARIABLE]
sees() { kubectl logs "$1" ${2:+-c "$2"} | sed -n "s/^${3:-NVIDIA_VISIBLE_DEVICES}=//p"; }
# allocatable RESOURCE [NODE], allocatable_is RESOURCE COUNT [NODE]
allocatable() { kubectl get node "${2:-node-a}" -o json | jq -r --arg name "$1" '.status.allocatable[$name]'; }
allocatable_is() { [[ $(allocatable "$1" "${3:-node-a}") == "$2" ]]; }

# capacity RESOURCE, capacity_is RESOURCE COUNT: with those that are unhealthy.
capacity() { kubectl get node node-a -o json | jq -r --arg name "$1" '.status.capacity[$name]'; }
capacity_is() { [[ $(capacity "$1") == "$2" ]]; }
# node FILTER, inventory FILTER, inventory_is FILTER TEXT: of node-a, by jq.
node() { kubectl get node node-a -o json | jq -r "$1"; }
inventory() { node ".metadata.annotations[\"tessera.io/inventory\"] | fromjson | $1"; }
inventory_is() { [[ $(inventory "$1") == "$2" ]]; }
condition_is() { [[ $(node '.status.conditions[] | select(.type == "GPUsHealthy") | "\(.status) \(.reason)"') == "$1" ]]; }
# events OBJECT REASON: their messages, told OBJECT REASON [TEXT]: whether there is one, with this text in it.
events() { kubectl get events -A --field-selector "involvedObject.name=$1,reason=$2" -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}'; }
told() { events "$1" "$2" | grep -qF -- "${3:-}"; }

# control YAML: what is wrong with the GPUs of node-a, in one step; replug YAML: and /sys and /dev follow what is removed.
control() { echo "$1" >"$GPUS/control.next" && mv "$GPUS/control.next" "$GPUS/control.yaml"; }
replug() { control "$1" && "$BIN/tessera-sim-machine" --dir "$GPUS" >/dev/null; }

# kill_container POD: ends the process of its container main; kubelet starts it again.
kill_container() {
  local id
  id=$(kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].containerID}')
  (in_cluster node-a ctr -n k8s.io task kill -s KILL "${id#containerd://}") 2>/dev/null
}

# restarts POD, restarted POD COUNT: by its container main, which runs again.
restarts() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }
restarted() { [[ $(kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "$2 true" ]]; }
# waits_saying POD TEXT: kubelet shows why a container does not start.
waits_saying() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -qF -- "$2"; }

# bind_as_old NAME UNITS INDEX [DEV]: as the original extender does, by index, waiting for the plugin to say that it took it.
bind_as_old() {
  jq -cn --arg name "$1" --arg units "$2" --arg index "$3" --arg dev "${4:-32}" '{apiVersion: "v1", kind: "Binding",
    metadata: {name: $name, annotations: {ALIYUN_COM_GPU_MEM_IDX: $index, ALIYUN_COM_GPU_MEM_POD: $units, ALIYUN_COM_GPU_MEM_DEV: $dev,
      ALIYUN_COM_GPU_MEM_ASSIGNED: "false", ALIYUN_COM_GPU_MEM_ASSUME_TIME: "1"}},
    target: {apiVersion: "v1", kind: "Node", name: "node-a"}}' |
    kubectl create --raw "/api/v1/namespaces/default/pods/$1/binding" -f - >/dev/null
}

# other_plugin_start RESOURCE SOCKET IDS [ENV]: a device plugin of somebody else in node-a (other_plugin.cc); IDS is a text of
# lines, ENV a file. Its log is $S/other-SOCKET.log.
other_plugin_start() {
  local log=$S/other-$2.log
  mkdir -p "$S/tmp"
  echo "$3" >"$S/tmp/ids-$2"
  : >"$log"
  (in_cluster node-a "$OTHER_PLUGIN" "$1" "$2" "$S/tmp/ids-$2" ${4:+"$4"} >>"$log" 2>&1) &
  OTHER_PID=$!
  wait_or_finish 20 "a plugin of somebody else serves $1" grep -qF "registered $1" "$log"
}

# checkpoint [NODE]: kubelet's own file of what it gave to whom.
checkpoint() { (in_cluster "${1:-node-a}" cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint); }

# listed RESOURCE: the healthy IDs that kubelet was told, as it writes them down whenever it is sent a list; listed_is COUNT: of
# shares.
listed() { checkpoint | jq -r --arg name "$1" '.Data.RegisteredDevices[$name] // [] | .[]' | sort; }
listed_is() { (($(listed aliyun.com/gpu-mem | wc -l) == $1)); }
# tag UUID: how the IDs of its shares begin.
tag() { local uuid=${1#GPU-} && echo "${uuid:0:8}"; }
# told_kubelet_ms: from the last control() to the last list that kubelet wrote down.
told_kubelet_ms() {
  local file=/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
  echo "$( (in_cluster node-a stat -c %.9Y "$file") ) $(stat -c %.9Y "$GPUS/control.yaml")" | awk '{ printf "%d\n", ($1 - $2) * 1000 }'
}

# disagreements: for every running pod with a record, what differs between the record, what its containers see, and the
# IDs that kubelet gave by its own file (which begin as the UUID of their GPU does); and IDs that two pods hold.
disagreements() {
  local seen=$S/tmp/seen name container node
  mkdir -p "$S/tmp"
  kubectl get pods -o json >"$S/tmp/pods.json"
  jq -r '.items[] | select(.status.phase == "Running" and .metadata.annotations["tessera.io/allocation"]) |
    .metadata.name as $pod | .metadata.annotations["tessera.io/allocation"] | fromjson | .containers | keys[] | "\($pod) \(.)"' \
    "$S/tmp/pods.json" | while read -r name container; do
    jq -cn --arg key "$name/$container" --arg sees "$(sees "$name" "$container")" '{($key): $sees}'
  done | jq -cs 'add // {}' >"$seen"
  for node in $(all_nodes); do checkpoint "$node"; done >"$S/tmp/checkpoint.json"
  jq -rn --slurpfile pods "$S/tmp/pods.json" --slurpfile seen "$seen" --slurpfile checkpoint "$S/tmp/checkpoint.json" -f "$root/tests/agent/cluster/agree.jq"
}
agree() { [[ -z $(disagreements) ]]; }
# check_agreement WHAT: with what the agents did with the pods that do not agree.
check_agreement() {
  try_wait_for 20 "$1" agree && return
  disagreements | tee "$S/tmp/disagreements"
  grep -hF -e "no pod that fits" -f <(sed 's/[ /].*//' "$S/tmp/disagreements" | sort -u) "$S"/agent-node-?.log | tail -n 30 || true
}
