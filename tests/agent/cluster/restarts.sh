#!/usr/bin/env bash
# Planned restarts of the agent lose no pod. Pods without a controller are created all the time,
# while the agent is stopped and started again, and replaced with surge. kubelet would reject a pod
# for good if it was admitted while no agent is registered. RESTARTS sets the number of restarts of
# each kind (default 3).
#
# Then the agent runs in a pod and is killed. Prints how long the extender goes on to offer the node,
# and how long pods cannot be placed there.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
RESTARTS=${RESTARTS:-3}

agent_cluster_start
extender_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256

# Creates a pod every 100 ms or so, until the file $S/enough exists or 150 pods were created.
create_pods() {
  local i
  for ((i = 0; i < 150; i++)); do
    [[ ! -e $S/enough ]] || return 0
    share "steady$i" 1 | create
    sleep 0.1
  done
}
create_pods &
creator=$!

draining() { node '.metadata.annotations["tessera.io/draining"] // "no"'; }
draining_is() { [[ $(draining) == "$1" ]]; }
announced() { [[ $(draining) =~ ^20[0-9-]+T[0-9:]+Z\ [0-9a-f]{8}$ ]]; }
pods() { kubectl get pods -o name | wc -l; }
some_pods() { (($(pods) >= $1)); }

for ((i = 1; i <= RESTARTS; i++)); do
  before=$(pods)
  wait_for 60 "restart $i: pods are created" some_pods $((before + 3))
  begun=$SECONDS
  count_fault restart-agent
  stop "$AGENT_PID"
  check "restart $i: the agent ended before its time limit" test $((SECONDS - begun)) -lt 9
  check "restart $i: the end is announced on the node" announced
  sleep 1
  agent_start
  wait_for 30 "restart $i: the next agent opens the node" draining_is no
done
check "the extender acknowledged every end" test "$(grep -c 'its agent may end' "$S/extender.log")" -ge "$RESTARTS"

LISTEN=39996
for ((i = 1; i <= RESTARTS; i++)); do
  old=$AGENT_PID
  agent_start
  wait_for 30 "update $i: the next agent is ready while the old one runs" reaches "$LISTEN" /readyz
  count_fault update-agent
  stop "$old"
  wait_for 30 "update $i: the next agent opens the node after the old one has ended" draining_is no
  LISTEN=$((LISTEN - 1))
done

touch "$S/enough"
wait "$creator"
none_rejected() {
  check "kubelet rejected no pod" prints_nothing rejected_pods
  prints_nothing rejected_pods >/dev/null || violation "a planned restart lost pods"
}
none_rejected
created=$(pods)
wait_for 60 "all $created pods run" all_running "$created"
check_agreement "records, containers and kubelet agree"
lost() { ask "$EXTENDER_PORT" /metrics | awk '$1 == "tessera_extender_pods_lost_total" { print $2 }'; }
expect "the extender counted no lost pod" 0 "$(lost)"
say "      $created pods were created during $((2 * RESTARTS)) planned restarts"

# Without an agent, no pod is bound to the node. The reason is kube-scheduler's own (Insufficient
# aliyun.com/gpu-mem) once kubelet has reported that the node has no shares.
stop "$AGENT_PID"
share late 1 | create
not_bound() { kubectl get pod late -o json | jq -e '(.spec.nodeName | not) and any(.status.conditions[]?; .type == "PodScheduled" and .status == "False")' >/dev/null; }
wait_for 20 "a pod waits while no agent runs" not_bound
sleep 3
check "it still waits" not_bound
agent_start
wait_for 40 "it runs when an agent is back" pod_is late Running
stop "$AGENT_PID"
stop "$EXTENDER_PID"
kubectl delete pods --all --wait=false >/dev/null
wait_for 60 "all pods are gone" no_pods

POD_NAMESPACE=default extender_start --agent-selector app=agent
agent_pod | kubectl create -f - >/dev/null
probe='{"Pod": {"metadata": {"name": "probe", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "main",
  "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]}}, "Nodes": null, "NodeNames": ["node-a"]}'
offered() { (in_cluster_network curl -fsS --max-time 5 -d "$probe" "http://127.0.0.1:$EXTENDER_PORT/gpushare-scheduler/filter") | grep -qF '"NodeNames":["node-a"]'; }
not_offered() { ! offered; }
served() { offered && allocatable_is aliyun.com/gpu-mem 256; }
wait_for 40 "the extender offers the node of an agent in a pod" served
# kubelet restarts the container at once after the first end, and later after 10 s and more.
for what in "killed" "killed again"; do
  kill_container agent
  count_fault kill-agent
  begin=$(now_ms)
  try_wait_for 20 "$what: the extender does not offer the node any more" not_offered || break
  closed=$(($(now_ms) - begin))
  wait_for 60 "$what: the agent is back" served
  say "      the agent was $what: the extender closed the node after $closed ms, and pods can be placed again after $(($(now_ms) - begin)) ms"
  check "$what: the node is closed within 2 s ($closed ms)" test "$closed" -le 2000
done
share last 1 | create
wait_for 40 "a pod runs" pod_is last Running
stop "$EXTENDER_PID"
finish
