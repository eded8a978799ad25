# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# The namespaces of a cluster: the launcher creates them, all other scripts enter them. Sourced.
#
# The driver is pid 1 of the cluster's pid namespace. When it ends, for any reason, the kernel kills
# every process of the cluster and then removes its mounts, links, routes and iptables rules.

# Sysctls that kubelet sets for the whole machine, with its values. Inside the cluster each is
# covered by a regular file that already has the value, so the sysctls of the machine never change.
KUBELET_SYSCTLS="vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000"

# launch_driver: starts the driver in the background and waits until it accepts commands.
launch_driver() {
  local outer
  mkdir -p "$S/driver" "$S/parts" "$S/tmp"
  # A clean environment, because the cluster must not use a proxy that is set in this shell.
  setsid env -i PATH="$S/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root LANG=C.UTF-8 \
    TMPDIR="$S/tmp" TESSERA_CACHE="$TESSERA_CACHE" TESSERA_STATE="$STATE_ROOT" TESSERA_CLUSTER_STATE="$S" \
    "$CLUSTER_DIR/lib/launch" "$CLUSTER" </dev/null >"$S/driver/log" 2>&1 8>&- &
  outer=$!
  local deadline=$((SECONDS + 20))
  until [[ -e $S/driver/ready ]]; do
    if ! kill -0 "$outer" 2>/dev/null || ((SECONDS >= deadline)); then
      warn "the driver of the cluster did not start; the end of its log, $S/driver/log:"
      tail -n 20 "$S/driver/log" >&2
      return 1
    fi
    sleep 0.02
  done
  local pid
  pid=$(ps --ppid "$(<"$S/driver/launcher")" -o pid= | tr -d ' ')
  printf '%s %s\n' "$pid" "$(process_start "$pid")" >"$S/driver/pid"
}

# driver_pid: prints the driver's pid as the host sees it. Returns 1 if the driver does not run.
driver_pid() {
  local pid start
  read -r pid start 2>/dev/null <"$S/driver/pid" || return 1
  same_process "$pid" "$start" || return 1
  printf '%s' "$pid"
}

# require_running: ends the script with an error unless the cluster runs.
require_running() {
  [[ -d $S ]] || die "there is no cluster \"$CLUSTER\" below $STATE_ROOT; \"cluster up\" starts one"
  # shellcheck source=/dev/null
  source "$S/settings" || die "cluster \"$CLUSTER\" is incomplete: \"cluster down --name $CLUSTER\" removes it"
  DRIVER=$(driver_pid) ||
    die "the driver of cluster \"$CLUSTER\" is dead, and all parts with it; \"cluster down --name $CLUSTER\" cleans up"
}

# in_cluster_network COMMAND...: replaces this shell by the command, in the network namespace of the
# control plane and node-a, but with the files and processes of the caller. Needs DRIVER.
in_cluster_network() {
  NO_PROXY='*' no_proxy='*' exec nsenter --target "$DRIVER" --net -- "$@"
}

# in_cluster NODE COMMAND...: replaces this shell by the command inside a node (mounts, pids,
# network), in the same directory. It ends with the cluster, and gets TERM when the outer nsenter is
# killed.
in_cluster() {
  local node=$1
  shift
  # shellcheck disable=SC2016
  NO_PROXY='*' no_proxy='*' KUBECONFIG=$S/kube/admin PATH="$S/bin:$PATH" \
    exec nsenter --target "$DRIVER" --mount --root --pid --net --ipc --uts --cgroup -- \
    setpriv --pdeathsig TERM -- nsenter --target "$(node_holder "$node")" --mount --root --net --uts -- \
    bash -c 'cd "$1" && shift && exec "$@"' bash "$PWD" "$@"
}

# admin_kubectl ARGS...: kubectl as administrator, without the api-bridge.
admin_kubectl() { (in_cluster_network "$S/bin/kubectl" --kubeconfig="$S/kube/admin" "$@"); }

# driver_mounts, driver_network: the set-up that the driver does inside the new namespaces.
driver_mounts() {
  local entry file
  cgroup_mount_private
  for entry in $KUBELET_SYSCTLS; do
    file=$S/sysctl/${entry%=*}
    mkdir -p "${file%/*}"
    echo "${entry#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${entry%=*}"
  done
}

driver_network() {
  ip link set lo up
  ip link add hostbr type bridge
  ip addr add "$API_IP/24" dev hostbr
  ip link set hostbr up
  ip route add default via "$API_IP"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  # Tests listen on fixed ports below 40100. Without this, a connection of the API server to etcd may
  # already use one of them.
  echo "40100 60999" >/proc/sys/net/ipv4/ip_local_port_range
}
