# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# `cluster up`: starts a cluster that can run pods. Sourced.

up_usage() {
  cat <<EOF
usage: cluster up [--name NAME] [--nodes 0|1|2] [--sim-nodes N [--sim-machine M]] [--scheduler-config FILE] [--kubelet-config FILE]
                  [--admission-config FILE] [--k8s 1.36|1.33]

  --nodes N             real nodes, node-a and node-b (default 1)
  --sim-nodes N         simulated nodes, sim-0001 and up (default 0)
  --sim-machine M       their machine, one that "tessera inventory" knows, for example dgx1v (default: no GPUs)
  --scheduler-config F  a KubeSchedulerConfiguration; clientConnection.kubeconfig is set if it is missing or kubeadm's
  --kubelet-config F    additional settings of a KubeletConfiguration for real nodes, for example
                        topologyManagerPolicy; read again when a kubelet is restarted
  --admission-config F  an AdmissionConfiguration for the API server, for example the limits of a cloud provider
  --k8s V               Kubernetes version (default $K8S_DEFAULT); others are built at first use, in about 8 minutes
EOF
}

cluster_up() {
  local begin=0
  NODES=1 SIM_NODES=0 SIM_MACHINE='' SCHEDULER_CONFIG='' KUBELET_CONFIG='' ADMISSION_CONFIG='' K8S=$K8S_DEFAULT
  while (($#)); do
    case $1 in
      --nodes) NODES=${2:-} && shift 2 ;;
      --sim-nodes) SIM_NODES=${2:-} && shift 2 ;;
      --sim-machine) SIM_MACHINE=${2:-} && shift 2 ;;
      --scheduler-config) SCHEDULER_CONFIG=${2:-} && shift 2 ;;
      --kubelet-config) KUBELET_CONFIG=${2:-} && shift 2 ;;
      --admission-config) ADMISSION_CONFIG=${2:-} && shift 2 ;;
      --k8s) K8S=${2:-} && shift 2 ;;
      -h | --help) up_usage && return ;;
      *) die "up: unknown argument \"$1\"; see \"cluster up --help\"" ;;
    esac
  done
  [[ $NODES =~ ^[012]$ ]] || die "--nodes $NODES: must be 0, 1 or 2; use --sim-nodes for more"
  [[ $SIM_NODES =~ ^[0-9]{1,5}$ ]] || die "--sim-nodes $SIM_NODES: must be a number"
  SIM_NODES=$((10#$SIM_NODES))
  [[ -z $SIM_MACHINE ]] || sim_machine_known
  [[ " $K8S_CHOICES " == *" $K8S "* ]] || die "--k8s $K8S: must be one of: $K8S_CHOICES"
  if [[ -n $SCHEDULER_CONFIG ]]; then
    [[ -r $SCHEDULER_CONFIG ]] || die "--scheduler-config $SCHEDULER_CONFIG: no such file"
    SCHEDULER_CONFIG=$(realpath "$SCHEDULER_CONFIG")
  fi
  if [[ -n $KUBELET_CONFIG ]]; then
    [[ -r $KUBELET_CONFIG ]] || die "--kubelet-config $KUBELET_CONFIG: no such file"
    KUBELET_CONFIG=$(realpath "$KUBELET_CONFIG")
  fi
  if [[ -n $ADMISSION_CONFIG ]]; then
    [[ -r $ADMISSION_CONFIG ]] || die "--admission-config $ADMISSION_CONFIG: no such file"
    ADMISSION_CONFIG=$(realpath "$ADMISSION_CONFIG")
  fi
  up_prepare
  begin=$(now_ms)
  trap 'up_failed' EXIT
  up_state_directory
  launch_driver
  DRIVER=$(driver_pid)
  up_control_plane
  up_nodes
  up_wait
  : >"$S/complete"
  trap - EXIT
  up_summary "$begin"
}

# up_prepare: checks everything that can be refused, before anything is created.
up_prepare() {
  local problem
  problem=$(host_problem)
  [[ -z $problem ]] || die "no cluster can run here: $problem"
  CNI_BIN=$(cni_directory)
  [[ ! -L $STATE_ROOT ]] || die "$STATE_ROOT is a link; set TESSERA_STATE to a directory of your own"
  (umask 077 && mkdir -p "$STATE_ROOT")
  [[ -O $STATE_ROOT ]] || die "$STATE_ROOT belongs to another user; set TESSERA_STATE to a directory of your own"
  case $(realpath "$STATE_ROOT")/ in
    /run/* | /var/run/* | /var/lib/kubelet/*) die "TESSERA_STATE=$STATE_ROOT: nodes mount their own files over this directory; choose another" ;;
  esac
  exec 8>"$STATE_ROOT/.$CLUSTER.lock"
  flock -n 8 || die "another command is changing cluster \"$CLUSTER\"; try again when it has ended"
  if driver_pid >/dev/null; then
    if [[ -e $S/complete ]]; then
      up_again
      exit 0
    fi
    # We hold the lock, so no other `up` is still working on it.
    say "cluster \"$CLUSTER\" is incomplete; starting it from scratch"
  fi
  if [[ ! -d $S && -n $(cgroup_pids "$CLUSTER") ]]; then
    die "a cluster \"$CLUSTER\" already runs, with a TESSERA_STATE other than $STATE_ROOT; choose another --name"
  fi
  remove_cluster # a crash or Ctrl-C may have left parts of it
  local -a programs
  learn_tools
  mapfile -t programs < <(needed_programs | tr ' ' '\n')
  if [[ -n $(missing_tools "${programs[@]}") ]]; then
    "$CLUSTER_DIR/build-tools" --k8s "$K8S" --only "$(IFS=,; echo "${programs[*]}")"
  fi
}

# up_again: `up` of a cluster that already runs; an error if its settings are others.
up_again() {
  local wanted
  wanted=$(cluster_settings)
  if [[ $wanted != "$(<"$S/settings")" ]]; then
    die "cluster \"$CLUSTER\" is already up with other settings; \"cluster down --name $CLUSTER\" removes it, --name OTHER starts another one"
  fi
  DRIVER=$(driver_pid)
  if ! report_dead >&2; then
    die "cluster \"$CLUSTER\" is up, but parts are dead; \"cluster restart PART\" starts a part again, \"cluster down --name $CLUSTER\" removes the cluster"
  fi
  say "cluster \"$CLUSTER\" is already up"
}

up_failed() {
  warn "cluster \"$CLUSTER\" did not start; logs are in $S until the next \"up\" or \"cluster down --name $CLUSTER\""
}

up_state_directory() {
  local program node
  mkdir -p "$S"/{bin,tmp,parts}
  # A killed test cannot clean up. From this file the next test sees that the owner is dead.
  [[ -z ${TESSERA_OWNER:-} ]] || echo "$TESSERA_OWNER" >"$S/owner"
  cluster_settings >"$S/settings"
  for program in $ALL_PROGRAMS; do
    tool_built "$program" && ln -sfn "$(tool_path "$program")" "$S/bin/$program"
  done
  make_certificates
  make_users
  : >"$S/resolv.conf"
  {
    echo "127.0.0.1 localhost"
    for node in node-a node-b; do echo "$(node_ip "$node") $node"; done
  } >"$S/hosts"
  for node in $(all_nodes); do mkdir -p "$(node_dir "$node")"; done
  host_prepare
}

up_control_plane() {
  local node
  start_part etcd
  start_part kube-apiserver
  start_part api-bridge
  for node in $(all_nodes); do
    start_part "$node"
  done
  for node in $(all_nodes); do
    wait_until 10 "the namespaces of $node" test -e "$S/parts/$node/ready"
    start_part "containerd-$node"
  done
  wait_until 10 "the bridge to the loopback" api_bridge_port >/dev/null
  api_bridge_port >"$S/api-port"
  make_outside_kubeconfigs "$(<"$S/api-port")"
  wait_until 60 "the API server" api_ready
  start_part kube-controller-manager
  start_part kube-scheduler
  ((SIM_NODES == 0)) || start_part kwok
}

api_ready() { probe kube-apiserver; }

up_nodes() {
  local node
  local -a images
  for node in $(all_nodes); do
    start_part "kubelet-$node"
    start_part "kube-proxy-$node"
  done
  for node in $(all_nodes); do
    wait_until 20 "containerd of $node" probe "containerd-$node"
    mapfile -t images < <(base_images)
    import_images "$node" "${images[@]}"
  done
  admin_kubectl create --validate=false -f - >/dev/null <<<"$(dns_service)"
  if ((SIM_NODES > 0)); then
    sim_node_manifests "$SIM_NODES" >"$S/sim-nodes.json"
    create_nodes "$S/sim-nodes.json"
  fi
}

# dns_service: the DNS server that kubelet configures in pods. It has no endpoints, so kube-proxy
# rejects its connections, and lookups fail at once instead of after a timeout.
dns_service() {
  cat <<EOF
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $DNS_IP
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]
EOF
}

# up_wait: waits until a pod can be created, is scheduled, and reaches the API server.
up_wait() {
  local node
  for node in $(all_nodes); do
    wait_until 60 "$node to be Ready" node_ready "$node"
    wait_until 30 "kube-proxy of $node" probe "kube-proxy-$node"
  done
  wait_until 60 "the default ServiceAccount" default_service_account
  ((SIM_NODES == 0)) || wait_until $((60 + SIM_NODES / 10)) "$SIM_NODES simulated nodes to be Ready" all_sim_nodes_ready
}

node_ready() {
  [[ $(admin_kubectl get node "$1" --no-headers 2>/dev/null | awk '{print $2}') == Ready ]]
}
default_service_account() { admin_kubectl get serviceaccount default >/dev/null 2>&1; }
all_sim_nodes_ready() { (($(sim_nodes_ready) == SIM_NODES)); }

up_summary() {
  local sim=''
  ((SIM_NODES == 0)) || sim=" and $SIM_NODES simulated nodes"
  say "cluster \"$CLUSTER\" is up in $(seconds_since "$1") s: Kubernetes $(tool_version kubectl), $NODES real node(s)$sim"
  say "  export KUBECONFIG=$S/kubeconfig"
}
