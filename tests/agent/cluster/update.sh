#!/usr/bin/env bash
# An update with surge: the new agent starts while the old one still runs. kubelet continues with
# the new one, the devices stay when the old one ends, and the new one knows all allocations.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start
agent_start
old=$AGENT_PID
wait_or_finish 20 "the old agent is ready" agent_ready
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256
share first 6 | create
wait_for 40 "a pod runs" pod_is first Running
before=$(sees first)

NEW_PORT=39996
LISTEN=$NEW_PORT agent_start
new=$AGENT_PID
wait_for 20 "the new agent is ready while the old one runs" reaches "$NEW_PORT" /readyz
check "the old agent is still ready" agent_ready
{ share both1 6; share both2 4; whole both3 1; } | create
wait_for 40 "pods run while both agents run" all_running 4
check_agreement "they have the GPUs of their records"
registrations() { ask "$1" /metrics | awk '/^tessera_agent_registrations_total/ { sum += $2 } END { print sum }'; }
quiet=$(registrations "$AGENT_PORT")
knows_pods() { [[ $(ask "$NEW_PORT" /allocations | jq '[.allocations[].pod] | unique | length') == 4 ]]; }
wait_for 10 "the new agent knows all allocations, including those of the old one" knows_pods

# From now on, the shares may be missing only for the time that the new agent needs to register
# again.
count_fault update-agent
stop "$old"
back() { [[ $(allocatable aliyun.com/gpu-mem) == 256 ]] && reaches "$NEW_PORT" /readyz; }
wait_for 10 "all shares are offered after the old agent has ended" back
for ((i = 0; i < 5; i++)); do share "after$i" 4; done | create
wait_for 40 "pods run with only the new agent" all_running 9
check_agreement "records, containers and kubelet still agree"
kill_container first
started_again() { [[ $(kubectl get pod first -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "1 true" ]]; }
wait_for 40 "a container that the old agent served restarts" started_again
expect "it sees the same GPU as before" "$before" "$(sees first)"
check "kubelet rejected no pod" prints_nothing rejected_pods
say "      the old agent registered $quiet times, the new one $(registrations "$NEW_PORT")"

stop "$new"
stop "$EXTENDER_PID"
finish
