#!/usr/bin/env bash
# Two replicas behind a Service (make soak): only the leader binds and carries the label that the Service selects; one that is
# stopped past its lease, or cannot reach it, is replaced and does not bind any more; an orderly end hands over at once. All of
# it once more while 500 pods are being scheduled where exactly 500 fit: nothing is given away twice.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
OTHER_PORT=39998
SERVICE_PORT=39997 # what kube-scheduler calls: the Service, played by socat
[[ -x $PROXY ]] || { say "$TEST_NAME: skipped: $PROXY is not built" && exit 77; }

extender_cluster_start
gpu_nodes 25 4 10
# The pods that the replicas take themselves for: they only have to exist.
for replica in one two; do
  kubectl run "replica-$replica" --image=none --restart=Never >/dev/null
done
labelled() { [[ $(kubectl get pods -l tessera.io/leader=true -o name) == "pod/replica-$1" ]]; }

# Two replicas that elect a leader. Nobody but the leader binds.
proxy_start
export POD_NAMESPACE=default
POD_NAME=replica-one extender_start --attach service
first=$EXTENDER_PID
(KUBECONFIG=$EXTENDER_KUBECONFIG POD_NAME=replica-two in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$OTHER_PORT" \
  --attach service >>"$S/extender-other.log" 2>&1) &
second=$!
wait_for 30 "the first replica is ready" extender_ready || true
wait_for 30 "the second replica is ready" extender_ready "$OTHER_PORT" || true
leads() { [[ $(metric tessera_extender_leading "$1") == 1 ]]; }
one_leads() { leads "$PORT" || leads "$OTHER_PORT"; }
wait_for 30 "one of them leads" one_leads || true
if leads "$PORT"; then
  leader=$first leader_port=$PORT follower_port=$OTHER_PORT leader_name=one follower_name=two
else
  leader=$second leader_port=$OTHER_PORT follower_port=$PORT leader_name=two follower_name=one
fi
wait_for 10 "the Service would find the leader, and only it" labelled "$leader_name" || true

# waiting_pod NAME: makes a pod that no scheduler takes; the body of a call that binds it.
waiting_pod() {
  pods_json "$1" 1 '{"aliyun.com/gpu-mem": "2"}' | jq -c '.items[0].spec.schedulerName = "nobody"' | kubectl create -f - >/dev/null
  kubectl get pod "$1-0001" -o json |
    jq -c '{PodName: .metadata.name, PodNamespace: .metadata.namespace, PodUID: .metadata.uid, Node: "gpu-0001"}'
}
bind_body=$(waiting_pod alone)
expect_match "the follower does not bind" 'does not lead' "$(send bind "$bind_body" "$follower_port")"
expect "the leader binds" '{"Error":""}' "$(send bind "$bind_body" "$leader_port")"
expect "asked again it says the same" '{"Error":""}' "$(send bind "$bind_body" "$leader_port")"

kill -STOP "$leader"
begin=$(now_ms)
follower_leads() { leads "$follower_port"; }
wait_for 30 "a stopped leader is replaced" follower_leads || true
took=$((($(now_ms) - begin) / 1000))
check "within 5 s after its lease of 15 s ($took s)" test "$took" -le 20
kill -CONT "$leader"
wait_for 20 "the label goes to the new leader" labelled "$follower_name" || true
bind_body=$(waiting_pod late)
expect_match "the old leader, awake again, does not bind" 'does not lead' "$(send bind "$bind_body" "$leader_port")"
expect "the new one does" '{"Error":""}' "$(send bind "$bind_body" "$follower_port")"

# Nobody can renew: after the deadline nobody leads, and nobody binds. Then all is as before.
inject '{"kind":"cut","target":"/leases/","times":-1}'
bind_body=$(waiting_pod leaderless)
nobody_leads() { ! one_leads; }
wait_for 20 "who cannot renew its lease stops leading" nobody_leads || true
expect_match "and does not bind" 'does not lead' "$(send bind "$bind_body" "$follower_port")"
proxy DELETE faults
wait_for 30 "one of them leads again" one_leads || true
if leads "$PORT"; then going=$first stays_port=$OTHER_PORT; else going=$second stays_port=$PORT; fi

# An orderly end hands the lease over at once.
begin=$(now_ms)
kill "$going"
stays_leads() { leads "$stays_port"; }
wait_for 10 "the other leads after an orderly end" stays_leads || true
check "within 5 s ($((($(now_ms) - begin) / 1000)) s)" test $((($(now_ms) - begin) / 1000)) -le 5
wait "$going" 2>/dev/null || true
(KUBECONFIG=$EXTENDER_KUBECONFIG POD_NAME=replica-$([[ $going == "$first" ]] && echo one || echo two) in_cluster_network \
  setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$([[ $going == "$first" ]] && echo "$PORT" || echo "$OTHER_PORT")" \
  --attach service >>"$S/extender-third.log" 2>&1) &
third=$!

# As a Service does it: who connects comes to the pod with the label, and stays with it whatever happens to the label.
serving_port() { if [[ $(kubectl get pods -l tessera.io/leader=true -o name) == pod/replica-one ]]; then echo "$PORT"; else echo "$OTHER_PORT"; fi; }
serving_port >"$S/tmp/serving"
while sleep 0.5; do serving_port >"$S/tmp/serving.new" && mv "$S/tmp/serving.new" "$S/tmp/serving"; done 2>/dev/null &
watcher=$!
(in_cluster_network setpriv --pdeathsig KILL -- socat "TCP-LISTEN:$SERVICE_PORT,bind=127.0.0.1,reuseaddr,fork" \
  "SYSTEM:socat - TCP\:127.0.0.1\:\$(cat $S/tmp/serving)") 2>>"$S/service.log" &
service=$!
kubectl delete pods --wait=false -l set >/dev/null
wait_for 60 "both replicas are ready again" extender_ready "$(serving_port)" || true

stop_leader() { # STOP for longer than its lease, then on again
  local pid=$1
  kill -STOP "$pid"
  sleep 20
  kill -CONT "$pid"
}
for trouble in stopped-leader deleted-lease ended-leader; do
  create_in_background "$trouble" 500 '{"aliyun.com/gpu-mem": "2"}'
  some_run() { (($(running "$trouble") >= 50)); }
  wait_for 120 "$trouble: pods begin to run" some_run || true
  if [[ $(serving_port) == "$PORT" ]]; then
    if [[ $going == "$first" ]]; then pid=$third; else pid=$first; fi
  elif [[ $going == "$first" ]]; then pid=$second; else pid=$third; fi
  case $trouble in
    stopped-leader) stop_leader "$pid" ;;
    deleted-lease) kubectl delete lease -A --field-selector metadata.name=tessera-extender >/dev/null ;;
    ended-leader) kill "$pid" ;;
  esac
  wait "$CREATION_PID"
  wait_for 300 "$trouble: all 500 run" all_running "$trouble" 500 || true
  PORT=$(serving_port) check_books "$trouble: annotations, books and inventory agree"
  kubectl delete pods -l "set=$trouble" --wait=false >/dev/null
  gone() { [[ -z $(kubectl get pods -l "set=$trouble" -o name) ]]; }
  wait_for 120 "$trouble: and all go" gone || true
done
kill "$watcher" "$service" "$third" 2>/dev/null || true
kill "$first" "$second" 2>/dev/null || true
wait "$first" "$second" "$third" 2>/dev/null || true
finish
