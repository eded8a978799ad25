# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Simulated nodes: real Node objects whose kubelet is played by kwok. Sourced.
#
# Machines with GPUs come from `tessera inventory`. To simulate still others, create other Node objects: anything with
# the annotation kwok.x-k8s.io/node=fake is taken over, and the capacity it was created with is kept.

# A thousand nodes that renew their leases every 10 s, as kubelets do, would keep two cores busy with nothing
# else. They renew every SIM_LEASE_SECONDS / 4, and the controller manager is told to be that patient.
SIM_LEASE_SECONDS=240
SIM_GRACE_SECONDS=300

# sim_node_manifests COUNT: one JSON List of Node objects, sim-0001 and up, SIM_MACHINE each.
sim_node_manifests() {
  if [[ -n ${SIM_MACHINE:-} ]]; then
    gpu_node_manifests sim "$1" "$SIM_MACHINE"
    return
  fi
  jq -cn --argjson count "$1" '
    def name: tostring | "sim-" + ("0000" + .)[-([length, 4] | max):];
    {cpu: "64", memory: "512Gi", pods: "110", "ephemeral-storage": "1Ti"} as $has |
    {apiVersion: "v1", kind: "List", items: [range(1; $count + 1) | name | {
      apiVersion: "v1", kind: "Node",
      metadata: {
        name: ., annotations: {"kwok.x-k8s.io/node": "fake"},
        labels: {"kubernetes.io/hostname": ., "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                 "tessera.test/simulated": "true"}},
      status: {capacity: $has, allocatable: $has}}]}'
}

# gpu_node_manifests PREFIX COUNT MACHINE: nodes PREFIX-0001 and up as tessera-agent would have made them; MACHINE is
# built into `tessera inventory` or the path of a description.
gpu_node_manifests() {
  "$(tessera_program)" inventory --machine "$3" --name "$1" --count "$2" -o json | jq -c --arg prefix "$1" '
    def name: tostring | $prefix + "-" + ("0000" + .)[-([length, 4] | max):];
    (if .kind == "List" then .items else [.] end) as $nodes |
    {apiVersion: "v1", kind: "List", items: [range($nodes | length) | (. + 1 | name) as $name | $nodes[.] |
      .metadata.name = $name | .metadata.labels["kubernetes.io/hostname"] = $name |
      .metadata.labels["tessera.test/simulated"] = "true"]}'
}

# tessera_program: the command-line program of this checkout, or TESSERA.
tessera_program() {
  local root program
  root=$(cd "$CLUSTER_DIR/../.." && pwd)
  for program in "${TESSERA:-$root/build/dev/bin/tessera}" "$root/build/release/bin/tessera"; do
    [[ -x $program ]] && say "$program" && return
  done
  die "--sim-machine needs the program tessera; \"make build\" builds it, or set TESSERA to its path"
}

# sim_machine_known: refuses a machine that "tessera inventory" does not know.
sim_machine_known() {
  local program problem
  program=$(tessera_program) || exit 1
  problem=$("$program" inventory --machine "$SIM_MACHINE" 2>&1 >/dev/null) || die "--sim-machine $SIM_MACHINE: $problem"
}

# kwok has no behaviour of its own; these stages are all of it.
kwok_stages() {
  cat <<'EOF'
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-becomes-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      addresses:
      - {type: InternalIP, address: {{ NodeIP }}}
      conditions:
      - {type: Ready, status: "True", reason: KubeletReady, message: simulated, lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}}
      nodeInfo: {architecture: amd64, operatingSystem: linux, kubeletVersion: simulated, bootID: "", containerRuntimeVersion: "", kernelVersion: "", kubeProxyVersion: "", machineID: "", osImage: "", systemUUID: ""}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.podIP', operator: DoesNotExist}
    - {key: '.status.phase', operator: NotIn, values: ["Succeeded", "Failed"]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      hostIP: {{ NodeIPWith .spec.nodeName }}
      startTime: {{ $now | Quote }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: Exists}
  next:
    finalizers: {empty: true}
    delete: true
EOF
}

run_kwok() {
  kwok_stages >"$S/kwok.yaml"
  exec kwok --config="$S/kwok.yaml" --kubeconfig="$S/kube/kwok" \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake \
    --node-lease-duration-seconds="$SIM_LEASE_SECONDS" --server-address=127.0.0.1:10247
}

# create_nodes FILE: creates the Node objects of a JSON List. Four at a time, because kubectl limits itself to 50
# requests a second.
create_nodes() {
  local file pid
  local -a pids=()
  mkdir -p "$S/sim-nodes"
  jq -c '.items[]' "$1" | split -n r/4 - "$S/sim-nodes/"
  for file in "$S"/sim-nodes/*; do
    [[ ! -s $file ]] || { admin_kubectl create --validate=false -f "$file" >/dev/null & pids+=($!); }
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || die "simulated nodes could not be created"
  done
}

# sim_nodes_ready: how many simulated nodes are Ready.
sim_nodes_ready() {
  admin_kubectl get nodes -l tessera.test/simulated=true --no-headers --request-timeout=20s 2>/dev/null | awk '$2 == "Ready"' | wc -l
}
