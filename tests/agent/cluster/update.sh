#!/usr/bin/env bash
# An update with surge: the new agent starts while the old one still serves. kubelet goes on with the new one, the old
# one's leaving does not take its devices away, and nothing that was given is forgotten.
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
wait_for 20 "the new agent is ready beside it" reaches "$NEW_PORT" /readyz
check "the old one still is" agent_ready
{ share both1 6; share both2 4; whole both3 1; } | create
wait_for 40 "pods run while both are there" all_running 4
check_agreement "and have what was decided"
registrations() { ask "$1" /metrics | awk '/^tessera_agent_registrations_total/ { sum += $2 } END { print sum }'; }
quiet=$(registrations "$AGENT_PORT")
knows_pods() { [[ $(ask "$NEW_PORT" /allocations | jq '[.allocations[].pod] | unique | length') == 4 ]]; }
wait_for 10 "the new one knows all that was given, also by the old one" knows_pods

# From here on the shares must never be gone for longer than the new one needs to register again.
stop "$old"
back() { [[ $(allocatable aliyun.com/gpu-mem) == 256 ]] && reaches "$NEW_PORT" /readyz; }
wait_for 10 "all shares are there when the old one has left" back
for ((i = 0; i < 5; i++)); do share "after$i" 4; done | create
wait_for 40 "pods run with the new one alone" all_running 9
check_agreement "and have what was decided"
kill_container first
started_again() { [[ $(kubectl get pod first -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "1 true" ]]; }
wait_for 40 "a pod of the old one starts again" started_again
expect "and sees what it saw" "$before" "$(sees first)"
expect "no pod was refused" "" "$(kubectl get pods --field-selector status.phase=Failed -o name)"
say "      the old one registered $quiet times, the new one $(registrations "$NEW_PORT")"

stop "$new"
stop "$EXTENDER_PID"
finish
