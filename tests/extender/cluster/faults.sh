#!/usr/bin/env bash
# Kills the extender, restarts the API server, pauses etcd, and lets the fault proxy cut, reject,
# delay or lose the calls of the extender, each while pods fill the cluster completely. After each
# fault, ledger and cluster agree and no GPU is allocated twice. FAULTS selects faults.
#
#   faults.sh [--short | --dense]    see lib.sh
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
KINDS=(kill-extender restart-apiserver pause-etcd watch-cut cut-everything freeze refuse
  bind-lost bind-cut bind-refused bind-throttled bind-late bind-and-get-lost events-refused events-late
  watch-half watch-twice watch-ends watch-expired list-truncated)
case ${1:-} in
  --short) FAULTS=${FAULTS:-restart-apiserver pause-etcd watch-cut bind-and-get-lost} PER_LOAD=1 ;;
  --dense) FAULTS=${FAULTS:-$(shuffled_rounds 4 "${KINDS[@]}")} PER_LOAD=${#KINDS[@]} ;;
  *) FAULTS=${FAULTS:-$(shuffled "${KINDS[@]}")} PER_LOAD=4 ;;
esac
[[ -x $PROXY ]] || { say "$TEST_NAME: skipped: $PROXY is not built" && exit 77; }
export CLUSTER_EXPECT_DEAD="kube-apiserver kube-scheduler kube-controller-manager kwok"

extender_cluster_start
gpu_nodes "$GPU_NODES" 4 10
echo "limits: {bindTimeout: ${BIND_TIMEOUT}s}" >"$S/extender.yaml"

proxy_start
extender_start --config "$S/extender.yaml"
wait_or_finish 20 "the extender is ready" extender_ready

expired='"status":410,"body":"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}"'
# fault NAME: causes the fault while pods are being scheduled.
fault() {
  disturbed=$(seen_faulty)
  case $1 in
    kill-extender)
      kill -KILL "$EXTENDER_PID"
      wait "$EXTENDER_PID" 2>/dev/null || true
      extender_start --config "$S/extender.yaml"
      ;;
    restart-apiserver) cluster restart kube-apiserver ;;
    pause-etcd)
      send_to_driver signal etcd STOP
      sleep $((BIND_TIMEOUT + PAUSE)) # longer than a bind may take
      send_to_driver signal etcd CONT
      ;;
    watch-cut) proxy POST cut ;;
    cut-everything) for _ in 1 2 3 4 5; do proxy POST reset && sleep 0.3; done ;;
    freeze)
      proxy POST freeze
      sleep $((BIND_TIMEOUT + PAUSE)) # longer than a bind may take
      proxy POST thaw
      ;;
    refuse)
      proxy POST refuse
      proxy POST cut
      sleep 3
      proxy POST admit
      ;;
    bind-lost) inject '{"kind":"lose-answer","method":"POST","target":"/binding","times":'$((2 * PART))'}' ;;
    bind-cut) inject '{"kind":"cut","method":"POST","target":"/binding","times":'$((2 * PART))',"reset":true}' ;;
    bind-refused) inject '{"kind":"answer","method":"POST","target":"/binding","times":'$PART',"status":500}' ;;
    bind-throttled) inject '{"kind":"answer","method":"POST","target":"/binding","times":'$PART',"status":429,"retry_after":1}' ;;
    bind-late) inject '{"kind":"delay","method":"POST","target":"/binding","times":'$PART',"delay_ms":'$((BIND_TIMEOUT * 1000 + 1000))'}' ;;
    bind-and-get-lost)
      inject '{"kind":"lose-answer","method":"POST","target":"/binding","times":'$PART'}'
      inject '{"kind":"cut","method":"GET","target":"/pods/","times":'$PART'}'
      ;;
    events-refused) inject '{"kind":"answer","method":"POST","target":"/events","times":-1,"status":403}' ;;
    events-late) inject '{"kind":"delay","method":"POST","target":"/events","times":50,"delay_ms":'$((BIND_TIMEOUT * 1000))'}' ;;
    watch-half) inject '{"kind":"half-chunk","target":"watch=","after_lines":3,"times":4}' && proxy POST cut ;;
    watch-twice) inject '{"kind":"duplicate","target":"watch=","times":2}' && proxy POST cut ;;
    watch-ends) inject '{"kind":"end-stream","target":"watch=","after_lines":2,"times":6}' && proxy POST cut ;;
    watch-expired) inject "{\"kind\":\"answer\",\"target\":\"watch=\",\"times\":2,$expired}" && proxy POST cut ;;
    list-truncated)
      inject "{\"kind\":\"answer\",\"target\":\"watch=\",\"times\":2,$expired}"
      inject '{"kind":"truncate","method":"GET","target":"limit=","after_bytes":9000,"times":3}'
      proxy POST cut
      ;;
  esac
}

# The proxy notes a call when it ends. Only a cut ends a watch that repeats objects, and the watch may
# not have begun yet.
has_repeated() { has_disturbed || { proxy POST cut && sleep 1 && has_disturbed; }; }
has_disturbed() { local seen && seen=$(seen_faulty) && ((seen > disturbed)); }
after_fault() {
  wait_for 60 "$1: the extender is ready" extender_ready
  case $1 in
    watch-twice) wait_for 30 "$1: the proxy disturbed calls" has_repeated ;;
    bind-* | events-* | watch-half | watch-ends | watch-expired | list-truncated)
      wait_for 30 "$1: the proxy disturbed calls" has_disturbed
      ;;
  esac
  proxy DELETE faults
}

read -ra faults <<<"$(xargs <<<"$FAULTS")"
for ((i = 0; i < ${#faults[@]}; i += PER_LOAD)); do
  # Names of pods must not match the request paths of a fault.
  under_load "load-$i" fault "${faults[@]:i:PER_LOAD}"
done
kill "$EXTENDER_PID"
wait "$EXTENDER_PID" || true
finish
