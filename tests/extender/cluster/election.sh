#!/usr/bin/env bash
# Two replicas behind a Service. Only the leader binds and has the label that the Service selects. A
# leader that is stopped past its Lease, or cannot renew it, is replaced and binds no more. A leader
# that shuts down releases the Lease at once. Then the same while pods fill the cluster completely:
# no GPU is allocated twice.
#
#   election.sh [--short | --dense]    see lib.sh
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
[[ -n ${1:-} ]] || LEASE=10 RENEW=5 # the default of the extender
SERVICE_PORT=39997 # what kube-scheduler calls: the Service, simulated by socat
[[ -x $PROXY ]] || { say "$TEST_NAME: skipped: $PROXY is not built" && exit 77; }

extender_cluster_start
gpu_nodes "$GPU_NODES" 4 10
proxy_start
cat >"$S/replica.yaml" <<EOF
attach: service
lease: {duration: ${LEASE}s, renewDeadline: ${RENEW}s, retryPeriod: ${RETRY}s}
limits: {bindTimeout: ${BIND_TIMEOUT}s}
EOF

# replica_start NAME: starts a replica and sets PIDS[NAME]. Its pod replica-NAME only has to exist.
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
none_leads() { [[ $(metric tessera_extender_leading "${PORTS[one]}") == 0 && $(metric tessera_extender_leading "${PORTS[two]}") == 0 ]]; }
labelled() { [[ $(kubectl get pods -l tessera.io/leader=true -o name) == "pod/replica-$1" ]]; }
free_at() { lease_free_at default tessera-extender; }
wait_or_finish 30 "one of them leads" one_leads
leader=$(leader)
other=$(other_of "$leader")
wait_for 10 "the Service selects the leader and no other pod" labelled "$leader"

# waiting_pod NAME: creates a pod that no scheduler handles, and prints the body of a request that
# binds it.
waiting_pod() {
  SCHEDULER_NAME=none pods_json "$1" 1 '{"aliyun.com/gpu-mem": "2"}' | kubectl create -f - >/dev/null
  kubectl get pod "$1-0001" -o json |
    jq -c '{PodName: .metadata.name, PodNamespace: .metadata.namespace, PodUID: .metadata.uid, Node: "gpu-0001"}'
}
bind_by() { send bind "$2" "${PORTS[$1]}"; }
body=$(waiting_pod alone)
expect_match "the follower does not bind" 'does not lead' "$(bind_by "$other" "$body")"
expect "the leader binds" '{"Error":""}' "$(bind_by "$leader" "$body")"
expect "a repeated call gets the same result" '{"Error":""}' "$(bind_by "$leader" "$body")"

# While no replica can renew the Lease, after the deadline none leads and none binds.
inject '{"kind":"cut","target":"/leases/","times":-1}'
body=$(waiting_pod leaderless)
wait_for 20 "a leader that cannot renew its Lease stops leading" none_leads
expect_match "it does not bind" 'does not lead' "$(bind_by "$leader" "$body")"
proxy DELETE faults
wait_for 30 "one of them leads again" one_leads

# Like a Service: a new connection goes to the pod with the label and stays there even if the label
# moves.
answering_port() { if labelled one; then echo "${PORTS[one]}"; else echo "${PORTS[two]}"; fi; }
answering_port >"$S/tmp/serving"
while sleep 0.5; do answering_port >"$S/tmp/serving.new" && mv "$S/tmp/serving.new" "$S/tmp/serving"; done 2>/dev/null &
watcher=$!
(in_cluster_network setpriv --pdeathsig KILL -- socat "TCP-LISTEN:$SERVICE_PORT,bind=127.0.0.1,reuseaddr,fork" \
  "SYSTEM:socat - TCP\:127.0.0.1\:\$(cat $S/tmp/serving)") 2>>"$S/service.log" &
service=$!
kubectl delete pods --wait=false -l set >/dev/null

# trouble NAME: disturbs the leading replica.
trouble() {
  local leader other body begin
  wait_for 30 "$1: a replica leads" one_leads
  leader=$(leader)
  [[ -n $leader ]] || { fail "$1: no replica leads" && return; }
  other=$(other_of "$leader")
  begin=$(now_ms)
  case $1 in
    leader-stopped)
      kill -STOP "${PIDS[$leader]}"
      expect_hand_over "$1" "${PORTS[$other]}" "$(free_at)" "$begin"
      sleep "$PAUSE"
      body=$(waiting_pod late)
      kill -CONT "${PIDS[$leader]}"
      expect_match "$1: the old leader does not bind after it continues" 'does not lead' "$(bind_by "$leader" "$body")"
      kubectl delete pod late-0001 --wait=false >/dev/null
      wait_for 20 "$1: the new leader has the label" labelled "$other"
      ;;
    lease-deleted) kubectl delete lease tessera-extender >/dev/null ;;
    leader-ended)
      kill "${PIDS[$leader]}"
      expect_hand_over "$1" "${PORTS[$other]}" "$begin" "$begin"
      wait "${PIDS[$leader]}" 2>/dev/null || true
      replica_start "$leader"
      ;;
    leader-killed)
      kill -KILL "${PIDS[$leader]}"
      wait "${PIDS[$leader]}" 2>/dev/null || true
      expect_hand_over "$1" "${PORTS[$other]}" "$(free_at)" "$begin"
      replica_start "$leader"
      ;;
  esac
}
if [[ ${1:-} == --dense ]]; then
  for load in 1 2; do
    # shellcheck disable=SC2046 # words
    under_load "dense-$load" trouble $(shuffled_rounds 3 leader-stopped lease-deleted leader-ended leader-killed)
  done
elif [[ ${1:-} == --short ]]; then
  for what in leader-stopped leader-ended; do under_load "$what" trouble "$what"; done
else
  # shellcheck disable=SC2046 # words
  under_load all trouble $(shuffled leader-stopped lease-deleted leader-ended leader-killed)
fi
kill "$watcher" "$service" "${PIDS[@]}" 2>/dev/null || true
wait "${PIDS[@]}" 2>/dev/null || true
finish
