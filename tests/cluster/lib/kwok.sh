# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Simulated nodes: real Node objects; kwok acts as their kubelet. Sourced.
#
# `tessera inventory` describes machines with GPUs. To simulate other machines, create other Node
# objects: kwok handles every Node with the annotation kwok.x-k8s.io/node=fake and keeps the
# capacity it was created with.

# A thousand nodes that renew their leases every 10 s, as kubelets do, would use two cores
# completely. They renew every SIM_LEASE_SECONDS / 4, and the controller manager gets a longer grace
# period.
SIM_LEASE_SECONDS=240
SIM_GRACE_SECONDS=300

# sim_node_manifests COUNT: prints a JSON List of Nodes sim-0001 and up; each is a SIM_MACHINE.
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

# gpu_node_manifests PREFIX COUNT MACHINE: prints Nodes PREFIX-0001 and up as tessera-agent would
# have labelled and annotated them. MACHINE is a name that `tessera inventory` knows, or the path of
# a description.
gpu_node_manifests() {
  "$(tessera_program)" inventory --machine "$3" --name "$1" --count "$2" -o json | jq -c --arg prefix "$1" '
    def name: tostring | $prefix + "-" + ("0000" + .)[-([length, 4] | max):];
    (if .kind == "List" then .items else [.] end) as $nodes |
    {apiVersion: "v1", kind: "List", items: [range($nodes | length) | (. + 1 | name) as $name | $nodes[.] |
      .metadata.name = $name | .metadata.labels["kubernetes.io/hostname"] = $name |
      .metadata.labels["tessera.test/simulated"] = "true"]}'
}

# tessera_program: prints the path of the program tessera: TESSERA, or that of this checkout.
tessera_program() {
  local root program
  root=$(cd "$CLUSTER_DIR/../.." && pwd)
  for program in "${TESSERA:-$root/build/dev/bin/tessera}" "$root/build/release/bin/tessera"; do
    [[ -x $program ]] && say "$program" && return
  done
  die "--sim-machine needs the program tessera; \"make build\" builds it, or set TESSERA to its path"
}

# sim_machine_known: ends the script if "tessera inventory" does not know SIM_MACHINE.
sim_machine_known() {
  local program problem
  program=$(tessera_program) || exit 1
  problem=$("$program" inventory --machine "$SIM_MACHINE" 2>&1 >/dev/null) || die "--sim-machine $SIM_MACHINE: $problem"
}

# kwok_stages: prints the whole behaviour of kwok; it has no other.
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
metadata: {name: pod-is-deleted}
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

# create_nodes FILE: creates the Node objects of a JSON List. Runs four kubectl at a time, because
# each limits itself to 50 requests a second.
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

# sim_nodes_ready: prints how many simulated nodes are Ready.
sim_nodes_ready() {
  admin_kubectl get nodes -l tessera.test/simulated=true --no-headers --request-timeout=20s 2>/dev/null | awk '$2 == "Ready"' | wc -l
}
