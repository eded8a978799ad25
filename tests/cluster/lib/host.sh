# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# What a cluster needs from the machine, and what it changes on the machine while it runs. Sourced.

# Shared by all clusters of the machine, independent of their state directories.
HOST_RECORD=/run/tessera-clusters

NEEDED_COMMANDS="awk base64 busybox conntrack curl flock gcc ip iptables jq mount mountpoint nsenter openssl ps runc setpriv
setsid sha256sum socat tar umount unshare"

# cni_directory: prints where the CNI plugins are: /usr/lib/cni on Debian, /opt/cni/bin elsewhere.
cni_directory() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin; do
    if [[ -x $dir/ptp && -x $dir/host-local && -x $dir/loopback && -x $dir/portmap ]]; then
      printf '%s' "$dir"
      return
    fi
  done
  return 1
}

# host_problem: prints one line with the reason why no cluster can run on this machine, or nothing.
host_problem() {
  local command problem
  if ((EUID != 0)); then
    say "not root: a cluster needs root for its namespaces and cgroups"
    return
  fi
  local -a missing=()
  for command in $NEEDED_COMMANDS; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  if ((${#missing[@]})); then
    say "programs are missing: ${missing[*]}; install the packages of tests/cluster/apt-packages.txt (scripts/setup does)"
    return
  fi
  if ! cni_directory >/dev/null; then
    say "no CNI plugins in /usr/lib/cni or /opt/cni/bin: install containernetworking-plugins (scripts/setup does)"
    return
  fi
  problem=$(cgroup_problem)
  if [[ -n $problem ]]; then
    say "cgroups are not usable: $problem"
    return
  fi
  if ! mountpoint -q /; then
    say "/ is not a mount point, which runc needs: in a chroot, bind-mount its directory onto itself first"
    return
  fi
  if ! problem=$(unshare --mount --pid --net --cgroup --fork -- true 2>&1); then
    say "namespaces are not allowed here: $problem"
  fi
}

# needed_programs: prints what `up` starts with the current settings.
needed_programs() {
  say kube-apiserver kube-controller-manager kube-scheduler kubectl etcd
  ((NODES == 0)) || say kubelet kube-proxy containerd containerd-shim-runc-v2 ctr
  ((SIM_NODES == 0)) || say kwok
}

# with_host_lock COMMAND...: only one cluster at a time may change what all of them share.
with_host_lock() {
  (
    flock 6
    "$@"
  ) 6</run
}

# host_prepare, host_restore: create and remove the directories that nodes cover with their mounts,
# and change which controllers v2's root cgroup passes on. The first cluster makes these changes and
# the last one undoes them. Nothing else on the machine changes; for kubelet's sysctls see
# namespace.sh.
host_prepare() { with_host_lock make_mount_points; }
host_restore() { with_host_lock remove_mount_points; }

make_mount_points() {
  local point dir
  mkdir -p "$HOST_RECORD"
  # Every change is recorded before it is made, so that it can be undone after a crash.
  cgroup_not_passed_on >>"$HOST_RECORD/controllers"
  # `down` of another cluster keeps the directories as long as a cluster has a cgroup, so ours must
  # exist before the lock is released.
  while read -r _ dir; do
    cgroup_make "$dir/tessera.$CLUSTER"
  done < <(cgroup_hierarchies)
  for point in $NODE_MOUNT_POINTS; do
    [[ ! -d $point ]] || continue
    echo "$point" >>"$HOST_RECORD/made"
    mkdir "$point"
  done
}

remove_mount_points() {
  local point
  local -a controllers
  # Removing a directory that is a mount point in another namespace would unmount it there.
  [[ -z $(cgroup_clusters) ]] || return 0
  if [[ -e $HOST_RECORD/made ]]; then
    while read -r point; do
      rmdir "$point" 2>/dev/null || true
    done <"$HOST_RECORD/made"
  fi
  if [[ -e $HOST_RECORD/controllers ]]; then
    mapfile -t controllers <"$HOST_RECORD/controllers"
    cgroup_no_longer_pass_on "${controllers[@]}"
  fi
  rm -rf "$HOST_RECORD"
}
