# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the library is loaded as a whole: names set here are read there
# Finds parts that are dead or do not answer, and shows the end of their logs. Sourced.

# probe PART: whether the part answers a health check within two seconds. Parts without a health
# check count as healthy.
probe() {
  local node=node-a
  local -a get=(curl -fsk --max-time 2 -o /dev/null)
  [[ $1 != *-node-? ]] || node=node-${1##*-}
  case $1 in
    etcd) (in_cluster_network "${get[@]}" http://127.0.0.1:2379/health) ;;
    kube-apiserver) (in_cluster_network "${get[@]}" "https://$API_IP:$API_PORT/readyz") ;;
    api-bridge) curl -fsk --noproxy '*' --max-time 2 -o /dev/null "https://127.0.0.1:$(<"$S/api-port")/readyz" ;;
    kube-controller-manager) (in_cluster_network "${get[@]}" https://127.0.0.1:10257/healthz) ;;
    kube-scheduler) (in_cluster_network "${get[@]}" https://127.0.0.1:10259/healthz) ;;
    kubelet-*) (in_cluster "$node" "${get[@]}" http://127.0.0.1:10248/healthz) ;;
    kube-proxy-*) (in_cluster "$node" "${get[@]}" http://127.0.0.1:10256/healthz) ;;
    containerd-*) (in_cluster "$node" timeout 2 ctr version) ;;
    kwok) (in_cluster_network "${get[@]}" http://127.0.0.1:10247/healthz) ;;
    *) true ;;
  esac >/dev/null 2>&1
}

# report_dead: names each dead part and shows the end of its log. Returns 1 if there is one. Leaves
# out the parts in CLUSTER_EXPECT_DEAD, which the running test killed on purpose.
report_dead() {
  local part found=0
  if ! driver_pid >/dev/null; then
    say "cluster $CLUSTER: the driver is dead, and with it every part"
    return 1
  fi
  for part in $(dead_parts); do
    ((found == 1)) || progress_tick ''
    [[ " ${CLUSTER_EXPECT_DEAD:-} " != *" $part "* ]] || continue
    say "cluster $CLUSTER: $part is dead: $(how_ended "$part")"
    tail_of "$part" 15
    found=1
  done
  return "$found"
}

# diagnose: looks for the cause of a failure: dead parts, otherwise parts that do not answer,
# otherwise nodes that are not Ready.
diagnose() {
  local part node silent=0
  report_dead || return 0
  for part in $(all_parts); do
    [[ $(part_state "$part") == running ]] || continue
    if ! probe "$part"; then
      say "cluster $CLUSTER: $part runs but does not answer"
      tail_of "$part" 15
      silent=1
    fi
  done
  ((silent == 0)) || return 0
  for node in $(all_nodes); do
    if ! admin_kubectl get node "$node" --no-headers --request-timeout=5s 2>/dev/null | grep -qw Ready; then
      say "cluster $CLUSTER: all parts answer, but $node is not Ready"
      tail_of "kubelet-$node" 15
      silent=1
    fi
  done
  ((silent == 1)) || say "cluster $CLUSTER: all parts run and answer"
}

# wait_until SECONDS WHAT COMMAND...: waits until the command succeeds. Returns 1 after SECONDS, or
# as soon as a part dies; the message then names that part.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    progress_tick "waiting for $what"
    if ! report_dead >&2; then
      warn "gave up waiting for $what"
      return 1
    fi
    if ((SECONDS >= deadline)); then
      progress_tick ''
      warn "timed out waiting for $what"
      diagnose >&2
      return 1
    fi
    sleep 0.1
  done
  progress_tick ''
}
