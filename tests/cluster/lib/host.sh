# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# What the cluster needs from the machine, and the little it leaves on it while it runs. Sourced.

# Shared by all clusters of the machine, whatever their state directory.
HOST_RECORD=/run/tessera-clusters

NEEDED_COMMANDS="awk base64 busybox conntrack curl flock gcc ip iptables jq mount mountpoint nsenter openssl ps runc setpriv
setsid sha256sum socat tar umount unshare"

# cni_directory: Debian has the plugins in /usr/lib/cni, others in /opt/cni/bin.
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

# host_problem: one line that says why no cluster can run on this machine; silent when one can.
host_problem() {
  local command problem
  if ((EUID != 0)); then
    say "not root: namespaces and cgroups of a cluster need it"
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
    say "/ is no mount point, so runc cannot work: in a chroot, bind-mount its directory onto itself first"
    return
  fi
  if ! problem=$(unshare --mount --pid --net --cgroup --fork -- true 2>&1); then
    say "namespaces are not allowed here: $problem"
  fi
}

# needed_programs: what `up` starts for the present settings.
needed_programs() {
  say kube-apiserver kube-controller-manager kube-scheduler kubectl etcd
  ((NODES == 0)) || say kubelet kube-proxy containerd containerd-shim-runc-v2 ctr
  ((SIM_NODES == 0)) || say kwok
}

# with_host_lock COMMAND...: one cluster at a time changes what all of them share.
with_host_lock() {
  (
    flock 6
    "$@"
  ) 6</run
}

# host_prepare / host_restore: directories that exist on the machine only to be covered by the nodes' mounts, and what
# v2's root cgroup passes on. The last cluster removes what the first one made. (Nothing else of the machine changes: kubelet's
# sysctls are covered too, see namespace.sh.)
host_prepare() { with_host_lock make_mount_points; }
host_restore() { with_host_lock remove_mount_points; }

make_mount_points() {
  local point dir
  mkdir -p "$HOST_RECORD"
  # First the note, then the deed: a crash in between must not leave anything nobody remembers.
  cgroup_not_passed_on >>"$HOST_RECORD/controllers"
  # The cluster's cgroup says "somebody needs these": it must exist before another cluster's `down` looks.
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
