#!/usr/bin/env bash
# Two replicas behind a Service (make soak): only the leader binds; one that is stopped past its lease is replaced and does
# not bind when it wakes up; an orderly end hands over at once.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
OTHER_PORT=39998

extender_cluster_start
gpu_nodes 2 4 10
# Two replicas that elect a leader. Nobody but the leader binds.
extender_start --attach service --lease-namespace default
first=$EXTENDER_PID
(KUBECONFIG=$S/kube/admin in_cluster_network setpriv --pdeathsig KILL -- "$EXTENDER" --listen "127.0.0.1:$OTHER_PORT" --attach service \
  --lease-namespace default >>"$S/extender-other.log" 2>&1) &
second=$!
wait_for 30 "the first replica is ready" extender_ready || true
wait_for 30 "the second replica is ready" extender_ready "$OTHER_PORT" || true
leads() { [[ $(metric tessera_extender_leading "$1") == 1 ]]; }
one_leads() { leads "$PORT" || leads "$OTHER_PORT"; }
wait_for 30 "one of them leads" one_leads || true
if leads "$PORT"; then leader=$first leader_port=$PORT follower_port=$OTHER_PORT; else leader=$second leader_port=$OTHER_PORT follower_port=$PORT; fi

jq -c '.items[0].spec.schedulerName = "nobody"' <<<"$(pods_json alone 1 '{"aliyun.com/gpu-mem": "2"}')" | kubectl create -f - >/dev/null
uid=$(kubectl get pod alone-0001 -o 'jsonpath={.metadata.uid}')
bind_body=$(jq -cn --arg uid "$uid" '{PodName: "alone-0001", PodNamespace: "default", PodUID: $uid, Node: "gpu-0001"}')
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
jq -c '.items[0].spec.schedulerName = "nobody"' <<<"$(pods_json late 1 '{"aliyun.com/gpu-mem": "2"}')" | kubectl create -f - >/dev/null
uid=$(kubectl get pod late-0001 -o 'jsonpath={.metadata.uid}')
bind_body=$(jq -cn --arg uid "$uid" '{PodName: "late-0001", PodNamespace: "default", PodUID: $uid, Node: "gpu-0001"}')
expect_match "the old leader, awake again, does not bind" 'does not lead' "$(send bind "$bind_body" "$leader_port")"
expect "the new one does" '{"Error":""}' "$(send bind "$bind_body" "$follower_port")"

# An orderly end hands the lease over at once.
if ((leader == first)); then going=$second stays_port=$PORT; else going=$first stays_port=$OTHER_PORT; fi
begin=$(now_ms)
kill "$going"
stays_leads() { leads "$stays_port"; }
wait_for 10 "the other leads after an orderly end" stays_leads || true
check "within 5 s ($((($(now_ms) - begin) / 1000)) s)" test $((($(now_ms) - begin) / 1000)) -le 5
kill "$first" "$second" 2>/dev/null || true
wait || true
finish
