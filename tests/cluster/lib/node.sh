# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Real nodes: their namespaces, network, containerd, kubelet and kube-proxy. Sourced.
#
# A node has its own mount namespace, because the paths of kubelet's device-plugin directory and of
# containerd's sockets are fixed: each node needs its own /var/lib/kubelet and /run. node-b also has
# its own network namespace. node-a shares the network of the control plane, like the only machine
# of a small cluster, so that the scheduler reaches programs there on 127.0.0.1 or through a
# Service.

all_nodes() {
  case $NODES in
    0) ;;
    1) say node-a ;;
    2) say node-a node-b ;;
  esac
}

node_index() {
  case $1 in
    node-a) printf 1 ;;
    node-b) printf 2 ;;
    *) die "there is no node \"$1\"; real nodes are: $(all_nodes)" ;;
  esac
}
node_ip() { printf '10.77.0.%d' "$(node_index "$1")"; }
node_pods() { printf '10.88.%d.0/24' "$(node_index "$1")"; }

# node_dir NODE: prints its directory in the state directory.
node_dir() { printf '%s/%s' "$S" "$1"; }

# Directories of the machine that a node covers with its own mounts. They must exist; host.sh
# creates and removes them.
NODE_MOUNT_POINTS="/var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers"

# run_node NODE: sets up the node's namespaces and keeps them open: ends in exec of a process that
# sleeps and that represents the node in the list of parts.
run_node() {
  if [[ $1 == node-a ]]; then
    exec unshare --mount --propagation private -- "$CLUSTER_DIR/lib/node-namespace" "$1"
  fi
  exec unshare --mount --net --uts --propagation private -- "$CLUSTER_DIR/lib/node-namespace" "$1"
}

# node_holder NODE: prints the pid, as the cluster sees it, of the process that keeps the
# namespaces.
node_holder() { cat "$S/parts/$1/pid"; }

# in_node NODE COMMAND...: replaces this shell by the command, inside the node.
in_node() {
  local node=$1
  shift
  exec nsenter --target "$(node_holder "$node")" --mount --root --net --uts -- "$@"
}

node_mounts() {
  local dir point
  dir=$(node_dir "$1")
  mount -t tmpfs -o mode=755 run /run
  for point in $NODE_MOUNT_POINTS; do
    mkdir -p "$dir$point"
    mount --bind "$dir$point" "$point"
  done
  # Names must resolve without a DNS server, or kubelet would wait 20 s for one when it registers.
  mkdir -p /run/lock /run/netns
  bind_file "$S/hosts" /etc/hosts
  bind_file "$S/resolv.conf" /etc/resolv.conf
  mount --make-rshared / # the node must see what pods mount with "Bidirectional"
}

# bind_file FILE TARGET: TARGET may be a link into /run, which node_mounts has just replaced.
bind_file() {
  local target
  target=$(readlink -m "$2")
  if [[ ! -e $target && $target == /run/* ]]; then
    mkdir -p "${target%/*}"
    : >"$target"
  fi
  [[ ! -e $target ]] || mount --bind "$1" "$target"
}

# node_network NODE: connects node-b to the bridge of the cluster through a veth pair.
node_network() {
  echo 1 >/proc/sys/net/ipv4/ip_forward
  [[ $1 != node-a ]] || return 0
  ip link set lo up
  ip link add eth0 type veth peer name "veth-$1" netns 1
  nsenter --target 1 --net -- sh -ec "
    ip link set veth-$1 master hostbr
    ip link set veth-$1 up
    ip route add $(node_pods "$1") via $(node_ip "$1")"
  ip addr add "$(node_ip "$1")/24" dev eth0
  ip link set eth0 up
  ip route add default via "$API_IP"
  hostname "$1"
}

run_containerd() {
  local dir
  dir=$(node_dir "$1")
  mkdir -p "$dir/cni" "$dir/containerd"
  node_cni_config "$1" >"$dir/cni/10-tessera.conflist"
  node_containerd_config "$dir" >"$dir/containerd.toml"
  in_node "$1" containerd --config "$dir/containerd.toml"
}

# restrict_oom_score_adj: without it no pod sandbox starts where root may not lower oom_score_adj,
# which is so in many containers, because they lack CAP_SYS_RESOURCE.
node_containerd_config() {
  cat <<EOF
version = 3
root = "$1/containerd"
state = "/run/containerd"
temp = "$S/tmp"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "$SNAPSHOTTER"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "$PAUSE_IMAGE"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$CNI_BIN"]
    conf_dir = "$1/cni"
EOF
}

node_cni_config() {
  cat <<EOF
{"cniVersion": "1.0.0", "name": "tessera", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam",
    "ranges": [[{"subnet": "$(node_pods "$1")"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
EOF
}

run_kubelet() {
  local dir
  dir=$(node_dir "$1")
  cgroup_make_root "$1"
  node_kubelet_config "$1" >"$dir/kubelet.yaml"
  [[ -z $KUBELET_CONFIG ]] || cat "$KUBELET_CONFIG" >>"$dir/kubelet.yaml"
  in_node "$1" kubelet --config="$dir/kubelet.yaml" --kubeconfig="$S/kube/kubelet-$1" \
    --hostname-override="$1" --node-ip="$(node_ip "$1")" --cert-dir="$dir/kubelet-certs"
}

node_kubelet_config() {
  cat <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $S/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $S/pki/server.crt
tlsPrivateKeyFile: $S/pki/server.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$1
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [pods]
nodeStatusUpdateFrequency: 2s
resolvConf: $S/resolv.conf
clusterDNS: [$DNS_IP]
clusterDomain: cluster.local
volumePluginDir: $(node_dir "$1")/volume-plugins
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 24h
makeIPTablesUtilChains: false
shutdownGracePeriod: 0s
EOF
}

run_kube_proxy() {
  local dir
  dir=$(node_dir "$1")
  cat >"$dir/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
bindAddress: 127.0.0.1
hostnameOverride: $1
clientConnection: {kubeconfig: $S/kube/kube-proxy}
clusterCIDR: 10.88.0.0/16
conntrack: {maxPerCore: 0, min: 0}
iptables: {minSyncPeriod: 100ms}
EOF
  in_node "$1" kube-proxy --config="$dir/kube-proxy.yaml"
}
