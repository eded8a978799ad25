#!/usr/bin/env bash
# Two replicas behind a Service: only the leader binds and carries the label that the Service selects; one that is stopped
# past its lease, or cannot reach it, is replaced and does not bind any more; an orderly end hands over at once. All of it once
# more while pods are being scheduled where exactly so many fit: nothing is given away twice. The long one is for make soak.
#
#   election.sh [--short]
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
SERVICE_PORT=39997 # what kube-scheduler calls: the Service, played by socat
[[ -x $PROXY ]] || { say "$TEST_NAME: skipped: $PROXY is not built" && exit 77; }

extender_cluster_start
gpu_nodes "$GPU_NODES" 4 10
proxy_start
cat >"$S/replica.yaml" <<EOF
attach: service
lease: {duration: ${LEASE}s, renewDeadline: ${RENEW}s, retryPeriod: ${RETRY}s}
limits: {bindTimeout: ${BIND_TIMEOUT}s}
EOF

# replica_start NAME: PIDS has its id. Its pod, which only has to exist, is replica-NAME.
declare -A PIDS PORTS=([one]=39999 [two]=39998)
replica_start() {
  (KUBECONFIG=$EXTENDER_KUBECONFIG POD_NAME=replica-$1 POD_NAMESPACE=default in_cluster_network setpriv --pdeathsig KILL -- \
    "$EXTENDER" --listen "127.0.0.1:${PORTS[$1]}" --config "$S/replica.yaml" >>"$S/replica-$1.log" 2>&1) &
  PIDS[$1]=$!
}
for replica in one two; do
  kubectl run "replica-$replica" --image=none --restart=Never >/dev/null
  replica_start "$replica"
done
for replica in one two; do
  wait_for 30 "replica $replica is ready" extender_ready "${PORTS[$replica]}"
done
leader() { if leads "${PORTS[one]}"; then echo one; elif leads "${PORTS[two]}"; then echo two; fi; }
other_of() { if [[ $1 == one ]]; then echo two; else echo one; fi; }
one_leads() { [[ -n $(leader) ]]; }
nobody_leads() { ! one_leads; }
labelled() { [[ $(kubectl get pods -l tessera.io/leader=true -o name) == "pod/replica-$1" ]]; }
free_at() { lease_free_at default tessera-extender; }
wait_or_finish 30 "one of them leads" one_leads
leader=$(leader)
other=$(other_of "$leader")
wait_for 10 "the Service would find the leader, and only it" labelled "$leader"

# waiting_pod NAME: makes a pod that no scheduler takes; the body of a call that binds it.
waiting_pod() {
  SCHEDULER_NAME=nobody pods_json "$1" 1 '{"aliyun.com/gpu-mem": "2"}' | kubectl create -f - >/dev/null
  kubectl get pod "$1-0001" -o json |
    jq -c '{PodName: .metadata.name, PodNamespace: .metadata.namespace, PodUID: .metadata.uid, Node: "gpu-0001"}'
}
bind_by() { send bind "$2" "${PORTS[$1]}"; }
body=$(waiting_pod alone)
expect_match "the follower does not bind" 'does not lead' "$(bind_by "$other" "$body")"
expect "the leader binds" '{"Error":""}' "$(bind_by "$leader" "$body")"
expect "asked again it says the same" '{"Error":""}' "$(bind_by "$leader" "$body")"

# Nobody can renew: after the deadline nobody leads, and nobody binds. Then all is as before.
inject '{"kind":"cut","target":"/leases/","times":-1}'
body=$(waiting_pod leaderless)
wait_for 20 "who cannot renew its lease stops leading" nobody_leads
expect_match "and does not bind" 'does not lead' "$(bind_by "$leader" "$body")"
proxy DELETE faults
wait_for 30 "one of them leads again" one_leads

# As a Service does it: who connects comes to the pod with the label, and stays with it whatever happens to the label.
answering_port() { if labelled one; then echo "${PORTS[one]}"; else echo "${PORTS[two]}"; fi; }
answering_port >"$S/tmp/serving"
while sleep 0.5; do answering_port >"$S/tmp/serving.new" && mv "$S/tmp/serving.new" "$S/tmp/serving"; done 2>/dev/null &
watcher=$!
(in_cluster_network setpriv --pdeathsig KILL -- socat "TCP-LISTEN:$SERVICE_PORT,bind=127.0.0.1,reuseaddr,fork" \
  "SYSTEM:socat - TCP\:127.0.0.1\:\$(cat $S/tmp/serving)") 2>>"$S/service.log" &
service=$!
kubectl delete pods --wait=false -l set >/dev/null

# trouble NAME: happens to the replica that leads.
trouble() {
  local leader other free
  wait_for 30 "$1: a replica leads" one_leads
  leader=$(leader)
  [[ -n $leader ]] || { fail "$1: nobody leads" && return; }
  other=$(other_of "$leader")
  case $1 in
    stopped)
      kill -STOP "${PIDS[$leader]}"
      expect_hand_over "$1" "${PORTS[$other]}" "$(free_at)"
      sleep "$PAUSE"
      body=$(waiting_pod late)
      kill -CONT "${PIDS[$leader]}"
      expect_match "$1: the old leader, awake again, does not bind" 'does not lead' "$(bind_by "$leader" "$body")"
      kubectl delete pod late-0001 --wait=false >/dev/null
      wait_for 20 "$1: the label goes to the new leader" labelled "$other"
      ;;
    deleted-lease) kubectl delete lease tessera-extender >/dev/null ;;
    ended)
      free=$(now_ms)
      kill "${PIDS[$leader]}"
      expect_hand_over "$1" "${PORTS[$other]}" "$free"
      wait "${PIDS[$leader]}" 2>/dev/null || true
      replica_start "$leader"
      ;;
    killed)
      kill -KILL "${PIDS[$leader]}"
      wait "${PIDS[$leader]}" 2>/dev/null || true
      expect_hand_over "$1" "${PORTS[$other]}" "$(free_at)"
      replica_start "$leader"
      ;;
  esac
}
troubles="stopped deleted-lease ended killed"
[[ ${1:-} != --short ]] || troubles="stopped ended"
for what in $troubles; do
  under_load "$what" trouble "$what"
done
kill "$watcher" "$service" "${PIDS[@]}" 2>/dev/null || true
wait "${PIDS[@]}" 2>/dev/null || true
finish
