#!/usr/bin/env bash
# A node is cut off from the API server while a pod on it is deleted. kubelet does not learn of that,
# and restarts the pod's containers. So the pod holds its GPU although its last status says that its
# containers have ended, and no other pod gets the GPU until kubelet is back and has removed the pod
# (docs/extender.md, "When a GPU is free again").
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

machine=$(mktemp --suffix .yaml)
cat >"$machine" <<'YAML'
v: 1
about: one GPU
driver: "535.161.08"
cuda: "12.2"
cpus: 8
memory_gib: 64
gpus:
  - {count: 1, model: Tesla V100-SXM2-32GB, memory_mib: 32768, reserved_mib: 450, compute: "7.0"}
links: {rules: [{pcie: SYS}]}
YAML
# shellcheck disable=SC2034 # for agent_cluster_start
MACHINE=$machine NODES=2
agent_cluster_start
extender_start
agent_start_on node-b
wait_or_finish 30 "the agent of node-b is ready" agent_ready_on node-b
wait_for 10 "node-b has one GPU" allocatable_is aliyun.com/gpu 1 node-b

# The first pod runs until its process is killed; kubelet then starts it again.
whole first 1 | create
wait_or_finish 40 "a pod has the GPU" pod_is first Running
gpu=$(sees first)
first_id() { (in_cluster node-b ctr -n k8s.io task ls) | awk '$3 == "RUNNING" { print $1 }' | while read -r id; do
  [[ $( (in_cluster node-b ctr -n k8s.io container info "$id") | jq -r '.Spec.process.env[]? | select(startswith("NVIDIA_VISIBLE_DEVICES="))') != *"$gpu"* ]] || echo "$id"
done; }
id=$(first_id)
expect_match "one container on node-b has the GPU" '^[0-9a-f]{64}$' "$id"

link() { (in_cluster node-b ip link set eth0 "$1"); }
link down
kubectl delete pod first --grace-period=5 --wait=false >/dev/null
# The last status that kubelet could have sent before it was cut off.
kubectl get pod first -o json | jq -c '.status.containerStatuses |= map(.ready = false | .state = {terminated: {exitCode: 1, reason: "Error",
  startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:01Z"}})' | kubectl replace --subresource=status -f - >/dev/null
whole second 1 | create
(in_cluster node-b ctr -n k8s.io task kill -s KILL "$id")
restarted_on_node() { local now && now=$(first_id) && [[ -n $now && $now != "$id" ]]; }
wait_for 40 "kubelet, cut off, starts the container of the deleted pod again" restarted_on_node
holds() { ask "$EXTENDER_PORT" /gpushare-scheduler/inspect | jq -r '[.nodes[].devs[]?.pods[]?.name] | join(" ")'; }
waits() { kubectl get pod second -o json | jq -e '(.spec.nodeName | not) and any(.status.conditions[]?; .type == "PodScheduled" and .status == "False")' >/dev/null; }
wait_for 20 "another pod waits" waits
for ((i = 0; i < 5; i++)); do
  sleep 1
  waits && [[ $(holds) == first ]] || break
done
expect "the deleted pod still holds the GPU" first "$(holds)"
check "the other pod still waits" waits

link up
wait_for 60 "kubelet is back and has removed the pod" is_gone pod first
wait_for 60 "the other pod gets the GPU" pod_is second Running
expect "it is the same GPU" "$gpu" "$(sees second)"
expect "only its container has the GPU" 1 "$(first_id | wc -l)"
stop "$AGENT_PID"
stop "$EXTENDER_PID"
rm -f "$machine"
finish
