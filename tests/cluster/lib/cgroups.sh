# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# The cluster's own cgroup. Sourced.
#
# Each cluster is one cgroup "tessera.NAME" in every hierarchy of the kernel (v1, hybrid or v2). A
# cgroup namespace makes it look like the root, so kubelet, containerd and runc create /kubepods and
# other cgroups inside it. The processes in this cgroup are exactly those of the cluster, even if
# the state directory is lost.

CGROUP_MOUNT=/sys/fs/cgroup

cgroup_v2() { [[ -e $CGROUP_MOUNT/cgroup.controllers ]]; }

# cgroup_hierarchies: prints "CONTROLLERS DIRECTORY" for each mounted v1 hierarchy, or for the one
# of v2.
cgroup_hierarchies() {
  local controllers dir
  if cgroup_v2; then
    say "v2 $CGROUP_MOUNT"
    return
  fi
  while IFS=: read -r _ controllers _; do
    [[ -n $controllers ]] || continue # the empty v2 half of a hybrid system
    dir=$CGROUP_MOUNT/${controllers#name=}
    [[ -e $dir/cgroup.procs ]] && say "$controllers $dir"
  done </proc/self/cgroup
}

# cgroup_problem: prints why cgroups cannot be used here, or nothing if they can.
cgroup_problem() {
  local need have
  have=" $(cgroup_hierarchies | cut -d' ' -f1 | tr ',\n' '  ') "
  cgroup_v2 && have=" $(<"$CGROUP_MOUNT/cgroup.controllers") "
  for need in cpu cpuset memory pids; do
    if [[ $have != *" $need "* ]]; then
      say "no \"$need\" cgroup controller below $CGROUP_MOUNT"
      return
    fi
  done
  [[ -w $CGROUP_MOUNT ]] || say "$CGROUP_MOUNT is read-only"
}

# cgroup_make DIRECTORY: creates a cgroup that passes its controllers on to its children.
cgroup_make() {
  local dir=$1 parent=${1%/*} controllers file
  mkdir -p "$dir"
  if cgroup_v2; then
    controllers=$(<"$parent/cgroup.controllers")
    # One by one, because one controller that cannot be passed on would make all of them fail.
    for file in $controllers; do
      echo "+$file" >"$parent/cgroup.subtree_control" 2>/dev/null || true
    done
  elif [[ -e $dir/cpuset.cpus ]]; then
    # v1 cpusets start empty, and no process can run in an empty one.
    for file in cpuset.cpus cpuset.mems; do
      [[ -n $(<"$dir/$file") ]] || cat "$parent/$file" >"$dir/$file"
    done
  fi
}

# cgroup_not_passed_on: prints the controllers that v2's root does not pass on to its children yet;
# cgroup_make changes that.
cgroup_not_passed_on() {
  local controller passed
  cgroup_v2 || return 0
  passed=" $(<"$CGROUP_MOUNT/cgroup.subtree_control") "
  for controller in $(<"$CGROUP_MOUNT/cgroup.controllers"); do
    [[ $passed == *" $controller "* ]] || say "$controller"
  done
}

# cgroup_no_longer_pass_on CONTROLLER...: undoes that, except for controllers that are in use.
cgroup_no_longer_pass_on() {
  local controller
  cgroup_v2 || return 0
  for controller; do
    echo "-$controller" >"$CGROUP_MOUNT/cgroup.subtree_control" 2>/dev/null || true
  done
}

# cgroup_enter PATH: creates the cgroup tessera.PATH and moves this shell into it. A cluster uses
# two: its own, which is the current one when the cgroup namespace is created and so becomes the
# root inside, and "parts" below it, because v2 allows no processes in a cgroup that has children.
cgroup_enter() {
  local dir
  while read -r _ dir; do
    cgroup_make "$dir/tessera.$1"
    echo "$BASHPID" >"$dir/tessera.$1/cgroup.procs"
  done < <(cgroup_hierarchies)
}

# cgroup_mount_private: inside the new mount and cgroup namespaces, mounts the cluster's cgroup as
# the root. First removes all other cgroup mounts, also those of chroots elsewhere on the machine:
# runc searches the list of mounts and takes the first match, even if it is hidden.
cgroup_mount_private() {
  local controllers name list
  mapfile -t list < <(cgroup_hierarchies)
  local v2=
  cgroup_v2 && v2=1
  awk '{ for (i = 7; $i != "-"; i++) {} } $(i + 1) ~ /^cgroup2?$/ { print $5 }' /proc/self/mountinfo | tac |
    while read -r name; do umount -l "$(printf '%b' "${name//\\/\\0}")" 2>/dev/null || true; done
  umount -R -l /sys
  mount -t sysfs sysfs /sys
  if [[ -n $v2 ]]; then
    mount -t cgroup2 cgroup2 "$CGROUP_MOUNT"
    return
  fi
  mount -t tmpfs -o mode=755 cgroup "$CGROUP_MOUNT"
  for name in "${list[@]}"; do
    controllers=${name%% *}
    name=${controllers#name=}
    [[ $controllers == "$name" ]] || controllers=none,$controllers
    mkdir "$CGROUP_MOUNT/$name"
    mount -t cgroup -o "$controllers" cgroup "$CGROUP_MOUNT/$name"
    if [[ $name == *,* ]]; then
      # Programs look for "cpu" if the kernel has mounted "cpu,cpuacct".
      local part
      for part in ${name//,/ }; do ln -s "$name" "$CGROUP_MOUNT/$part"; done
    fi
  done
}

# cgroup_make_root NAME: creates a cgroup for one node's kubelet, below that of the cluster.
cgroup_make_root() {
  local dir
  while read -r _ dir; do
    cgroup_make "$dir/$1"
  done < <(cgroup_hierarchies)
}

# cgroup_directories NAME: prints every directory of the cluster's cgroup, deepest first.
cgroup_directories() {
  local dir
  while read -r _ dir; do
    [[ -d $dir/tessera.$1 ]] && find "$dir/tessera.$1" -depth -type d
  done < <(cgroup_hierarchies)
  return 0
}

# cgroup_pids NAME: prints the pids, as the host sees them, of all processes of the cluster.
cgroup_pids() {
  local dir
  cgroup_directories "$1" | while read -r dir; do
    cat "$dir/cgroup.procs" 2>/dev/null || true
  done | sort -nu
}

# cgroup_remove NAME: kills all processes inside and removes the cgroup. Needs several rounds,
# because a killed process takes a moment to end, and a process may fork during a round.
cgroup_remove() {
  local deadline=$((SECONDS + 10)) dir left
  local -a pids
  while :; do
    mapfile -t pids < <(cgroup_pids "$1")
    ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null || true
    left=
    while read -r dir; do
      rmdir "$dir" 2>/dev/null || left=$dir
    done < <(cgroup_directories "$1")
    [[ -n $left ]] || return 0
    if ((SECONDS >= deadline)); then
      warn "cgroup $left cannot be removed; processes in it: ${pids[*]:-none}"
      return 1
    fi
    sleep 0.05
  done
}

# cgroup_clusters: prints the names of all clusters that have a cgroup.
cgroup_clusters() {
  local dir
  while read -r _ dir; do
    for dir in "$dir"/tessera.*/; do
      [[ -d $dir ]] && dir=${dir%/} && say "${dir##*/tessera.}"
    done
  done < <(cgroup_hierarchies) | sort -u
}
