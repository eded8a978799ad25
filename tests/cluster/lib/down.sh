# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# `cluster down`: removes everything, whatever state the cluster is in. Sourced.

# remove_cluster: works if the cluster runs, is dead, is incomplete or does not exist.
remove_cluster() {
  local pid
  if pid=$(driver_pid); then
    kill -KILL "$pid"
    # The first process of a pid namespace disappears only after all other processes in it.
    local deadline=$((SECONDS + 20))
    while driver_pid >/dev/null; do
      ((SECONDS < deadline)) || die "the driver of cluster \"$CLUSTER\" (pid $pid) cannot be killed"
      sleep 0.02
    done
  fi
  cgroup_remove "$CLUSTER" || die "cluster \"$CLUSTER\" could not be removed completely"
  host_restore
  rm -rf "$S"
}

cluster_down() {
  local name all=
  while (($#)); do
    case $1 in
      --all) all=1 && shift ;;
      -h | --help) say "usage: cluster down [--name NAME | --all]" && return ;;
      *) die "down: unknown argument \"$1\"; see \"cluster down --help\"" ;;
    esac
  done
  if [[ -n $all ]]; then
    for name in $(cluster_names); do
      "$CLUSTER_DIR/cluster" down --name "$name"
    done
    return
  fi
  if [[ ! -d $S && -z $(cgroup_directories "$CLUSTER") ]]; then
    host_restore
    say "there is no cluster \"$CLUSTER\""
    return
  fi
  mkdir -p "$STATE_ROOT"
  exec 8>"$STATE_ROOT/.$CLUSTER.lock"
  flock -w 60 8 || die "another command is changing cluster \"$CLUSTER\"; try again when it has ended"
  remove_cluster
  rm -f "$STATE_ROOT/.$CLUSTER.lock"
  rmdir "$STATE_ROOT" 2>/dev/null || true
  say "cluster \"$CLUSTER\" is gone"
}

# cluster_names: prints the clusters that have a state directory.
cluster_names() {
  local dir
  for dir in "$STATE_ROOT"/*/; do
    [[ ! -d $dir ]] || basename "$dir"
  done
}
