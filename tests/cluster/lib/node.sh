# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Real nodes: their namespaces, network, containerd, kubelet and kube-proxy. Sourced.
#
# A node is a mount namespace (kubelet's device-plugin directory and containerd's sockets have fixed paths,
# so each node needs a /var/lib/kubelet and a /run of its own) and, but for node-a, a network namespace.
# node-a shares the network of the control plane, as the one machine of a small cluster does: what the
# scheduler calls on 127.0.0.1 or through a Service is reachable there.

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

# A node's home in the state directory.
node_dir() { printf '%s/%s' "$S" "$1"; }

# Places on the machine that a node covers by mounts of its own. They must exist to be covered; host.sh makes
# and removes them.
NODE_MOUNT_POINTS="/var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers"

# run_node NODE: sets the node's namespaces up and holds them open. Ends in exec of a sleeper that is the
# node's part in the list of parts.
run_node() {
  if [[ $1 == node-a ]]; then
    exec unshare --mount --propagation private -- "$CLUSTER_DIR/lib/node-namespace" "$1"
  fi
  exec unshare --mount --net --uts --propagation private -- "$CLUSTER_DIR/lib/node-namespace" "$1"
}

# node_holder NODE: the pid (inside) whose namespaces are the node's.
node_holder() { cat "$S/parts/$1/pid"; }

# in_node NODE COMMAND...: replaces this shell by the command inside the node.
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
  # Names must resolve without a DNS server: kubelet would wait 20 s for one when it registers.
  mkdir -p /run/lock /run/netns
  bind_file "$S/hosts" /etc/hosts
  bind_file "$S/resolv.conf" /etc/resolv.conf
  mount --make-rshared / # what pods mount with "Bidirectional" must be seen by the node
}

# bind_file FILE TARGET: TARGET may be a link into the /run that was just covered.
bind_file() {
  local target
  target=$(readlink -m "$2")
  if [[ ! -e $target && $target == /run/* ]]; then
    mkdir -p "${target%/*}"
    : >"$target"
  fi
  [[ ! -e $target ]] || mount --bind "$1" "$target"
}

# node_network NODE: node-b joins the cluster's bridge by a veth whose far end the driver has put there.
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

# restrict_oom_score_adj: where root may not lower it (CAP_SYS_RESOURCE is missing in many containers), every
# pod's sandbox would die otherwise.
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
