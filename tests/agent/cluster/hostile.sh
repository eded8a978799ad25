#!/usr/bin/env bash
# Attacks an agent that runs in a pod, with the memory limit and the probes of the chart:
#   - pods with an annotation of 196 KB, created on its node and deleted
#   - connections to its port that send one byte and no more
# kubelet must not restart it, it stays ready, its memory stays below the limit of the chart, and
# ordinary pods run.
#
#   hostile.sh [--full]    40 pods and 64 connections, as many as the agent accepts; with --full (make
#                          soak) 1,000 pods and 1,000 connections
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
HOSTILE_PODS=40 CONNECTIONS=64
[[ ${1:-} != --full ]] || HOSTILE_PODS=1000 CONNECTIONS=1000

agent_cluster_start
extender_start
limit_kib=$(($(agent_limit_mib) * 1024))
agent_pod | kubectl create -f - >/dev/null
wait_or_finish 40 "the agent is ready" agent_ready
wait_for 20 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256

measure probe probe 0 "$AGENT_PORT"
tools=("$ATTACK_PID")
attack connections connections "$CONNECTIONS" "$AGENT_PORT"
tools+=("$ATTACK_PID")
count_fault hostile-connections
attack pods pods "$HOSTILE_PODS" node-a
tools+=("$ATTACK_PID")
count_fault hostile-pods
count_pods "$HOSTILE_PODS"

for ((i = 0; i < 5; i++)); do share "calm$i" 4; done | create
calm_run() { (($(kubectl get pods -o json | jq '[.items[] | select((.metadata.name | startswith("calm")) and .status.phase == "Running")] | length') == 5)); }
wait_for 90 "ordinary pods run during the attack" calm_run
wait_for 900 "$HOSTILE_PODS hostile pods were created and deleted" grep -q 'hostile pods' "$S/tmp/pods.out"
sleep 10 # a probe period
kill "${tools[@]}" 2>/dev/null || true
wait "${tools[@]}" 2>/dev/null || true
cat "$S"/tmp/{pods,connections,probe}.{out,err} | sed 's/^/      /'
check "the attack took place: connections" grep -q 'hostile connections' "$S/tmp/connections.out"
check "the agent's health check answers during the attack" jq -e '.healthy > 0 and .longest_without_health_s < 20' "$S/tmp/probe.out"
expect "kubelet did not restart the agent" "0 true" \
  "$(kubectl get pod agent -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}')"
id=$(kubectl get pod agent -o 'jsonpath={.status.containerStatuses[0].containerID}')
pid=$( (in_cluster node-a ctr -n k8s.io task ls) | awk -v id="${id#containerd://}" '$1 == id { print $2 }')
kib=$( (in_cluster node-a awk '/^VmHWM/ { print $2 }' "/proc/$pid/status"))
check "its memory stays below the limit of the chart ($kib of $limit_kib KiB)" test "${kib:-$limit_kib}" -lt "$limit_kib"
wait_for 60 "the ordinary pods still run" calm_run
check_agreement "records, containers and kubelet agree"
stop "$EXTENDER_PID"
finish
