# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# The parts of a cluster: their names, how to start and stop them, and which are dead. Sourced.
#
# Names of parts of a node end in its name: kubelet-node-a. "kubelet" is short for kubelet-node-a.

# all_parts: prints all parts in the order in which they start.
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

# part_named NAME: prints the full name. Ends the script with a list of the parts if there is none.
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

# run_part PART: replaces this shell by the part. Only keep() of the driver calls it.
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

# send_to_driver VERB PART [ARGUMENT]: opens the fifo for reading and writing, because opening it
# only for writing would block if the driver is dead.
send_to_driver() { printf '%s\n' "$*" 1<>"$S/control"; }

# part_state PART: prints running, dead or absent.
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

# await_part PART STATE SECONDS: returns 1 if the part does not reach the state in time.
await_part() {
  local deadline=$((SECONDS + $3))
  until [[ $(part_state "$1") == "$2" ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.02
  done
}

start_part() {
  send_to_driver start "$1"
  await_part "$1" running 10 || [[ $(part_state "$1") == dead ]] || die "$1 did not start; see $S/driver/log"
}

# stop_part PART [SIGNAL]: waits until the part has ended; sends KILL after 8 s.
stop_part() {
  [[ $(part_state "$1") == running ]] || return 0
  send_to_driver signal "$1" "${2:-TERM}"
  if ! await_part "$1" dead 8; then
    send_to_driver signal "$1" KILL
    await_part "$1" dead 5 || die "$1 does not end; see $S/driver/log"
  fi
}

# dead_parts: prints the parts that were started and have ended.
dead_parts() {
  local part
  for part in $(all_parts); do
    [[ $(part_state "$part") != dead ]] || say "$part"
  done
}

# how_ended PART: prints "exited with 1" or "killed by signal 9".
how_ended() {
  local code
  code=$(<"$S/parts/$1/exit")
  if ((code > 128)); then
    printf 'killed by signal %d (%s)' $((code - 128)) "$(kill -l $((code - 128)))"
  else
    printf 'exited with %d' "$code"
  fi
}

# tail_of PART LINES: prints the end of its log between two lines that mark it.
tail_of() {
  say "--- last $2 lines of the log of $1 ($S/parts/$1/log):"
  tail -n "$2" "$S/parts/$1/log" 2>/dev/null | cut -c1-400
  say "---"
}
