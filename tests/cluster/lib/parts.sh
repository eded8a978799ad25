# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# The parts of a cluster by name: which there are, how to start and stop them, and who is dead. Sourced.
#
# Parts of a node carry its name: kubelet-node-a. "kubelet" alone means node-a's.

# all_parts: in the order in which they start.
all_parts() {
  local node
  say etcd
  say kube-apiserver
  say api-bridge
  say kube-controller-manager
  say kube-scheduler
  for node in $(all_nodes); do
    printf '%s\n' "$node" "containerd-$node" "kubelet-$node" "kube-proxy-$node"
  done
  ((SIM_NODES == 0)) || say kwok
}

# part_named NAME: the full name, or an error that lists the choices.
part_named() {
  local part
  for part in $(all_parts); do
    if [[ $part == "$1" || $part == "$1-node-a" ]]; then
      printf '%s' "$part"
      return
    fi
  done
  die "cluster \"$CLUSTER\" has no part \"$1\"; it has: $(all_parts | tr '\n' ' ')"
}

# run_part PART: becomes the part. Called in the driver's child only.
run_part() {
  case $1 in
    etcd) run_etcd ;;
    kube-apiserver) run_kube_apiserver ;;
    api-bridge) run_api_bridge ;;
    kube-controller-manager) run_kube_controller_manager ;;
    kube-scheduler) run_kube_scheduler ;;
    containerd-*) run_containerd "${1#containerd-}" ;;
    kubelet-*) run_kubelet "${1#kubelet-}" ;;
    kube-proxy-*) run_kube_proxy "${1#kube-proxy-}" ;;
    kwok) run_kwok ;;
    node-*) run_node "$1" ;;
    *) die "no part \"$1\"" ;;
  esac
}

# tell_driver VERB PART [ARGUMENT]: opened for both directions, so that a dead driver cannot make us wait.
tell_driver() { printf '%s\n' "$*" 1<>"$S/control"; }

# part_state PART: running, dead or absent.
part_state() {
  local dir=$S/parts/$1
  if [[ -e $dir/exit ]]; then
    printf dead
  elif [[ -e $dir/pid ]]; then
    printf running
  else
    printf absent
  fi
}

# await_part PART STATE SECONDS: fails when the state does not come.
await_part() {
  local deadline=$((SECONDS + $3))
  until [[ $(part_state "$1") == "$2" ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.02
  done
}

start_part() {
  tell_driver start "$1"
  await_part "$1" running 10 || [[ $(part_state "$1") == dead ]] || die "$1 was not started; see $S/driver/log"
}

# stop_part PART [SIGNAL]: waits for the end; TERM becomes KILL after a while.
stop_part() {
  [[ $(part_state "$1") == running ]] || return 0
  tell_driver signal "$1" "${2:-TERM}"
  if ! await_part "$1" dead 8; then
    tell_driver signal "$1" KILL
    await_part "$1" dead 5 || die "$1 does not end; see $S/driver/log"
  fi
}

# dead_parts: parts that were started and have ended.
dead_parts() {
  local part
  for part in $(all_parts); do
    [[ $(part_state "$part") != dead ]] || say "$part"
  done
}

# how_ended PART: "exited with 1" or "killed by signal 9".
how_ended() {
  local code
  code=$(<"$S/parts/$1/exit")
  if ((code > 128)); then
    printf 'killed by signal %d (%s)' $((code - 128)) "$(kill -l $((code - 128)))"
  else
    printf 'exited with %d' "$code"
  fi
}

# tail_of PART LINES: the end of its log, marked so that it cannot be taken for anything else.
tail_of() {
  say "--- last $2 lines of the log of $1 ($S/parts/$1/log):"
  tail -n "$2" "$S/parts/$1/log" 2>/dev/null | cut -c1-400
  say "---"
}
