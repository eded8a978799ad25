# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # S and DRIVER come from the cluster's library, the pids go to the tests
# Functions for tests of the agent under a real kubelet, with the real kube-scheduler and the
# extender, on simulated GPUs. Source this file.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=../../cluster/lib/api.sh
source "$root/tests/cluster/lib/api.sh"

AGENT=${TESSERA_AGENT:-$root/build/dev/bin/tessera-agent}
BIN=$(dirname "$AGENT")
OTHER_PLUGIN=${TESSERA_OTHER_PLUGIN:-$(dirname "$BIN")/tests/other_plugin}
EXTENDER_PORT=39999
AGENT_PORT=39997

# agent_cluster_start UP-ARGUMENTS...: starts a cluster whose scheduler calls an extender.
# Variables:
#   NODES    number of real nodes (default 1)
#   MACHINE  machine that each node simulates (default dgx1v)
#   K8S      another version of Kubernetes than the default
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

# extender_start [FLAGS...]: starts the extender in node-a and waits until it is ready. Its log is
# $S/extender.log.
extender_start() {
  (in_cluster node-a "$BIN/tessera-extender" \
    --listen "127.0.0.1:$EXTENDER_PORT" "$@" >>"$S/extender.log" 2>&1) &
  EXTENDER_PID=$!
  wait_or_finish 20 "the extender is ready" reaches "$EXTENDER_PORT" /readyz
}
# agent_start_on NODE [FLAGS...]: starts an agent on the port LISTEN (default AGENT_PORT) of the
# address LISTEN_ON (default 127.0.0.1). Its log is $S/agent-NODE.log.
# agent_start [FLAGS...]: the same in node-a.
agent_start_on() {
  local node=$1
  shift
  (in_cluster "$node" "$AGENT" --node-name "$node" \
    --listen "${LISTEN_ON:-127.0.0.1}:${LISTEN:-$AGENT_PORT}" --driver-root "$S/gpus-$node" --sysfs-root "$S/gpus-$node/sys" \
    --dev-root "$S/gpus-$node/dev" --state-dir "$S/agent-state-$node" "$@" >>"$S/agent-$node.log" 2>&1) &
  AGENT_PID=$!
}
agent_start() { agent_start_on node-a "$@"; }
# agent_pod: prints a pod "agent" that runs the agent of node-a, with the files of the node, and with
# the probes and the memory limit that it has in the chart.
agent_pod() {
  local limit
  limit=$(agent_limit_mib) || return 1
  jq -cn --arg agent "$AGENT" --arg s "$S" --arg port "$AGENT_PORT" --arg limit "${limit}Mi" '
    def probe($path): {httpGet: {path: $path, host: "127.0.0.1", port: ($port | tonumber)}};
    {apiVersion: "v1", kind: "Pod", metadata: {name: "agent", labels: {app: "agent"}},
     spec: {nodeName: "node-a", hostNetwork: true, terminationGracePeriodSeconds: 5, volumes: [{name: "root", hostPath: {path: "/"}}], containers: [
       {name: "agent", image: "tessera.local/busybox:1", securityContext: {privileged: true}, volumeMounts: [{name: "root", mountPath: "/host"}],
        command: ["chroot", "/host", $agent, "--node-name", "node-a", "--listen", "127.0.0.1:\($port)", "--kubeconfig", "\($s)/kube/admin",
          "--driver-root", "\($s)/gpus-node-a", "--sysfs-root", "\($s)/gpus-node-a/sys", "--dev-root", "\($s)/gpus-node-a/dev",
          "--state-dir", "\($s)/agent-state-node-a"],
        resources: {limits: {memory: $limit}},
        livenessProbe: (probe("/healthz") + {periodSeconds: 10, failureThreshold: 6}),
        readinessProbe: (probe("/readyz") + {periodSeconds: 1})}]}}'
}
# agent_limit_mib: prints the memory limit of the agent in the chart.
agent_limit_mib() {
  awk '/^[a-z]/ { section = $1 } section == "agent:" && /limits: .memory: [0-9]+Mi/ { gsub(/[^0-9]/, ""); print; found = 1 } END { exit !found }' \
    "$root/deploy/helm/tessera/values.yaml"
}
agent_ready() { reaches "$AGENT_PORT" /readyz; }
# agent_ready_on NODE [PORT]
agent_ready_on() { (in_cluster "$1" curl -fsS --max-time 5 "http://127.0.0.1:${2:-$AGENT_PORT}/readyz") >/dev/null 2>&1; }
# stop PID [SIGNAL]: sends SIGNAL (default TERM) to the program behind AGENT_PID, EXTENDER_PID or
# OTHER_PID, and waits for its end.
stop() {
  pkill "-${2:-TERM}" -P "$1"
  wait "$1" 2>/dev/null || true
}

# ask PORT PATH: prints the response. reaches PORT PATH: whether there is one.
ask() { (in_cluster_network curl -fsS --max-time 5 "http://127.0.0.1:$1$2"); }
reaches() { ask "$1" "$2" >/dev/null 2>&1; }

# pod NAME CONTAINERS-JSON [POD-JSON]: prints a pod whose containers print their environment and
# then wait. A container is {"name", "limits", "init": true?}. POD-JSON is merged into the pod.
pod() {
  jq -cn --arg name "$1" --argjson containers "$2" --argjson more "${3:-{\}}" '
    def container: {name, image: "tessera.local/busybox:1", resources: {limits: (.limits // {})},
                    command: ["sh", "-c", if .init then "env" else "env; exec sleep 100000" end]};
    {apiVersion: "v1", kind: "Pod", metadata: {name: $name},
     spec: {terminationGracePeriodSeconds: 0, initContainers: [$containers[] | select(.init) | container],
            containers: [$containers[] | select(.init | not) | container]}} * $more'
}
create() {
  local objects
  objects=$(cat)
  count_pods "$(grep -c '^{"apiVersion":"v1","kind":"Pod"' <<<"$objects" || true)"
  kubectl create -f - >/dev/null <<<"$objects"
}
# share NAME UNITS [POD-JSON]: prints a pod with a share of a GPU.
# whole NAME COUNT [RESOURCE]: prints a pod with whole GPUs.
share() { pod "$1" "[{\"name\":\"main\",\"limits\":{\"aliyun.com/gpu-mem\":\"$2\"}}]" "${3:-{\}}"; }
whole() { pod "$1" "[{\"name\":\"main\",\"limits\":{\"${3:-aliyun.com/gpu}\":\"$2\"}}]"; }

running() { kubectl get pods --no-headers 2>/dev/null | awk '$3 == "Running"' | wc -l; }
all_running() { (($(running) == $1)); }
no_pods() { prints_nothing kubectl get pods -o name; }
# rejected_pods: prints the pods that kubelet did not admit, and other failed pods.
rejected_pods() { kubectl get pods --field-selector status.phase=Failed -o name; }
record() { kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.tessera\.io/allocation}'; }
# sees POD [CONTAINER] [VARIABLE]: the value of VARIABLE (default NVIDIA_VISIBLE_DEVICES) in the
# container's log. Fails if it is not there.
sees() {
  kubectl logs "$1" ${2:+-c "$2"} | awk -v name="${3:-NVIDIA_VISIBLE_DEVICES}=" \
    'index($0, name) == 1 { print substr($0, length(name) + 1); found = 1 } END { exit !found }'
}
# allocatable RESOURCE [NODE], allocatable_is RESOURCE COUNT [NODE]
allocatable() { kubectl get node "${2:-node-a}" -o json | jq -r --arg name "$1" '.status.allocatable[$name]'; }
allocatable_is() { [[ $(allocatable "$1" "${3:-node-a}") == "$2" ]]; }

# capacity RESOURCE, capacity_is RESOURCE COUNT: of node-a, including unhealthy devices.
capacity() { kubectl get node node-a -o json | jq -r --arg name "$1" '.status.capacity[$name]'; }
capacity_is() { [[ $(capacity "$1") == "$2" ]]; }
# node FILTER, inventory FILTER, inventory_is FILTER TEXT: of node-a. FILTER is a jq filter.
node() { kubectl get node node-a -o json | jq -r "$1"; }
inventory() { node ".metadata.annotations[\"tessera.io/inventory\"] | fromjson | $1"; }
inventory_is() { [[ $(inventory "$1") == "$2" ]]; }
condition_is() { [[ $(node '.status.conditions[] | select(.type == "GPUsHealthy") | "\(.status) \(.reason)"') == "$1" ]]; }
# events OBJECT REASON: prints the messages of these Events.
# has_event OBJECT REASON [TEXT]: whether there is such an Event, with TEXT in its message.
events() { kubectl get events -A --field-selector "involvedObject.name=$1,reason=$2" -o 'jsonpath={range .items[*]}{.message}{"\n"}{end}'; }
has_event() { events "$1" "$2" | grep -qF -- "${3:-}"; }

# control YAML: replaces the control file of the simulated driver of node-a, atomically.
# replug YAML: the same, and updates /sys and /dev for GPUs that are added or removed.
control() { echo "$1" >"$GPUS/control.next" && mv "$GPUS/control.next" "$GPUS/control.yaml"; }
replug() { control "$1" && "$BIN/tessera-sim-machine" --dir "$GPUS" >/dev/null; }

# kill_container POD [NODE]: kills the process of the pod's first container. kubelet restarts it.
kill_container() {
  local id
  id=$(kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].containerID}')
  (in_cluster "${2:-node-a}" ctr -n k8s.io task kill -s KILL "${id#containerd://}") 2>/dev/null
}

# restarts POD: how often the pod's first container was restarted.
# restarted POD COUNT: whether it was restarted COUNT times and is ready.
restarts() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }
restarted() { [[ $(kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "$2 true" ]]; }
# waits_saying POD TEXT: whether the status says why the container does not start, with TEXT in it.
waits_saying() { kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -qF -- "$2"; }

# bind_as_gpushare NAME UNITS INDEX [DEV]: binds a pod as gpushare's extender does: the annotations
# name the GPU by index, and ASSIGNED is "false" until the device plugin has served the pod.
bind_as_gpushare() {
  jq -cn --arg name "$1" --arg units "$2" --arg index "$3" --arg dev "${4:-32}" '{apiVersion: "v1", kind: "Binding",
    metadata: {name: $name, annotations: {ALIYUN_COM_GPU_MEM_IDX: $index, ALIYUN_COM_GPU_MEM_POD: $units, ALIYUN_COM_GPU_MEM_DEV: $dev,
      ALIYUN_COM_GPU_MEM_ASSIGNED: "false", ALIYUN_COM_GPU_MEM_ASSUME_TIME: "1"}},
    target: {apiVersion: "v1", kind: "Node", name: "node-a"}}' |
    kubectl create --raw "/api/v1/namespaces/default/pods/$1/binding" -f - >/dev/null
}

# other_plugin_start RESOURCE SOCKET IDS [ENV]: starts a device plugin that is not Tessera's in
# node-a (other_plugin.cc). IDS has one device ID per line. ENV is a file with the environment that
# the plugin gives to containers. Its log is $S/other-SOCKET.log.
other_plugin_start() {
  local log=$S/other-$2.log
  mkdir -p "$S/tmp"
  echo "$3" >"$S/tmp/ids-$2"
  : >"$log"
  (in_cluster node-a "$OTHER_PLUGIN" "$1" "$2" "$S/tmp/ids-$2" ${4:+"$4"} >>"$log" 2>&1) &
  OTHER_PID=$!
  wait_or_finish 20 "another device plugin serves $1" grep -qF "registered $1" "$log"
}

# checkpoint [NODE]: prints kubelet's checkpoint, which says which pod holds which device IDs.
checkpoint() { (in_cluster "${1:-node-a}" cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint); }

# listed RESOURCE: the healthy device IDs that kubelet knows. kubelet writes its checkpoint whenever
# it receives a list.
# listed_is COUNT: whether kubelet knows this many healthy shares.
listed() { checkpoint | jq -rn --arg name "$1" 'input | .Data.RegisteredDevices[$name] // [] | .[]' | sort; }
# listed_with RESOURCE TEXT: prints those that contain TEXT.
listed_with() { listed "$1" | awk -v text="$2" 'index($0, text)'; }
listed_is() { (($(listed aliyun.com/gpu-mem | wc -l) == $1)); }
# tag UUID: the prefix of the device IDs of this GPU.
tag() { local uuid=${1#GPU-} && echo "${uuid:0:8}"; }
# kubelet_delay_ms: milliseconds from the last control() to kubelet's last write of its checkpoint.
kubelet_delay_ms() {
  local file=/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
  echo "$( (in_cluster node-a stat -c %.9Y "$file") ) $(stat -c %.9Y "$GPUS/control.yaml")" | awk '{ printf "%d\n", ($1 - $2) * 1000 }'
}

# disagreements: for every running pod with a record, prints what differs between three sources: the
# record, the environment of its containers, and the device IDs in kubelet's checkpoint (which start
# like the UUID of their GPU). Also prints device IDs that two pods hold. Fails if it cannot compare
# them.
disagreements() {
  local at=$S/tmp/agree name container sees node
  mkdir -p "$at"
  rm -f "$at"/*
  kubectl get pods -o json >"$at/pods.json" || { echo "cannot read the pods" && return 1; }
  jq -r '.items[] | select(.status.phase == "Running" and .metadata.annotations["tessera.io/allocation"]) |
    .metadata.name as $pod | .metadata.annotations["tessera.io/allocation"] | fromjson | .containers | keys[] | "\($pod) \(.)"' \
    "$at/pods.json" >"$at/containers" || { echo "cannot read the records of the pods" && return 1; }
  : >"$at/seen.json"
  while read -r name container; do
    sees=$(sees "$name" "$container") || { echo "cannot read the environment of $name/$container" && return 1; }
    jq -cn --arg key "$name/$container" --arg sees "$sees" '{($key): $sees}' >>"$at/seen.json" || return 1
  done <"$at/containers"
  for node in $(all_nodes); do
    checkpoint "$node" >>"$at/checkpoint.json" || { echo "cannot read the checkpoint of kubelet on $node" && return 1; }
  done
  jq -rn --slurpfile pods "$at/pods.json" --slurpfile seen "$at/seen.json" --slurpfile checkpoint "$at/checkpoint.json" \
    --argjson nodes "$(all_nodes | wc -w)" -f "$root/tests/agent/cluster/agree.jq" ||
    { echo "agree.jq cannot compare records, containers and checkpoints" && return 1; }
}
# check_agreement WHAT: checks that there are no disagreements. If there are, prints them and the
# lines of the agents' logs about these pods.
check_agreement() {
  try_wait_for 20 "$1" prints_nothing disagreements && return
  violation "$1"
  disagreements >"$S/tmp/disagreements" || true
  grep -hF -e "no known pod matches" -f <(sed 's/[ /].*//' "$S/tmp/disagreements" | sort -u) "$S"/agent-node-?.log | tail -n 30 || true
}
