#!/usr/bin/env bash
# Two second schedulers, each with an extender as in one pod. The leading pair is killed, stopped
# past its Lease and continued, or shut down, while pods fill the cluster completely. The other pair
# takes over within 5 s, and no GPU is allocated twice.
#
#   sidecars.sh [--short | --dense]    see lib.sh
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
export SCHEDULER_NAME=tessera-scheduler

extender_cluster_start
gpu_nodes "$GPU_NODES" 4 10
token_kubeconfig extender "https://$API_IP:$API_PORT" "$S/pki/ca.crt"

# pair_start NAME: starts an extender and a kube-scheduler that calls it, with the host name of
# their pod. Sets EXTENDERS[NAME] and SCHEDULERS[NAME].
declare -A EXTENDERS SCHEDULERS PORTS=([pair-a]=39999 [pair-b]=39996)
pair_start() {
  local name=$1 port=${PORTS[$1]}
  cat >"$S/$name-extender.yaml" <<EOF
schedulerLease: kube-system/tessera-scheduler
limits: {bindTimeout: ${BIND_TIMEOUT}s}
EOF
  (KUBECONFIG=$S/kube/extender POD_NAME=$name POD_NAMESPACE=default in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" \
    --listen "127.0.0.1:$port" --attach sidecar --config "$S/$name-extender.yaml" >>"$S/$name-extender.log" 2>&1) &
  EXTENDERS[$name]=$!
  "$EXTENDER" --print-scheduler-config --config "$S/$name-extender.yaml" --url "http://127.0.0.1:$port" --scheduler-kubeconfig "$S/kube/extender" |
    sed "s|^leaderElection:|&\n  leaseDuration: ${LEASE}s\n  renewDeadline: ${RENEW}s|" >"$S/$name-scheduler.yaml"
  scheduler_start "$name" "$((port - 20000))"
  SCHEDULERS[$name]=$SCHEDULER_PID
}
leader() { kubectl -n kube-system get lease tessera-scheduler -o 'jsonpath={.spec.holderIdentity}' 2>/dev/null | sed 's/_.*//'; }
other_of() { if [[ $1 == pair-a ]]; then echo pair-b; else echo pair-a; fi; }
one_leads() { [[ $(leader) == pair-* ]] && leads "$(answering_port)"; }
answering_port() { echo "${PORTS[$(leader)]}"; }
signal_pair() { kill "-$1" "${SCHEDULERS[$2]}" "${EXTENDERS[$2]}"; }
kill_pair() {
  signal_pair KILL "$1" 2>/dev/null || true
  wait "${SCHEDULERS[$1]}" "${EXTENDERS[$1]}" 2>/dev/null || true
}

for pair in pair-a pair-b; do
  pair_start "$pair"
done
for pair in pair-a pair-b; do
  wait_or_finish 30 "the extender of $pair is ready" extender_ready "${PORTS[$pair]}"
done
try_wait_for 30 "one of the schedulers leads" one_leads || { tail -n 5 "$S/pair-a-scheduler.log" "$S/pair-b-scheduler.log" && finish; }

# trouble NAME: disturbs the leading pair.
trouble() {
  local leads other free begin
  leads=$(leader)
  other=$(other_of "$leads")
  begin=$(now_ms)
  free=$begin
  case $1 in
    pair-killed) kill_pair "$leads" ;;
    pair-stopped) signal_pair STOP "$leads" ;;
    pair-ended) signal_pair TERM "$leads" ;;
  esac
  # A scheduler that shuts down releases its Lease.
  [[ $1 == pair-ended ]] || free=$(lease_free_at kube-system tessera-scheduler)
  expect_hand_over "$1" "${PORTS[$other]}" "$free" "$begin"
  if [[ $1 == pair-stopped ]]; then
    sleep "$PAUSE"
    signal_pair CONT "$leads"
  fi
  victim=$leads
}
after_fault() {
  # A scheduler that has lost its Lease exits by itself. Kubernetes would restart its pod.
  kill_pair "$victim"
  pair_start "$victim"
  wait_for 30 "$1: both pairs are ready again" extender_ready "${PORTS[$victim]}"
}
if [[ ${1:-} == --dense ]]; then
  for load in 1 2; do
    # shellcheck disable=SC2046 # words
    under_load "dense-$load" trouble $(shuffled_rounds 4 pair-killed pair-stopped pair-ended)
  done
elif [[ ${1:-} == --short ]]; then
  for what in pair-stopped pair-ended; do under_load "$what" trouble "$what"; done
else
  # shellcheck disable=SC2046 # words
  under_load all trouble $(shuffled pair-killed pair-stopped pair-ended)
fi
for pair in pair-a pair-b; do
  kill_pair "$pair"
done
finish
