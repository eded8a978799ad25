#!/usr/bin/env bash
# What a real cluster is told by an agent: the node's inventory and labels, a GPU that falls ill and recovers (Event, condition,
# ConfigMap), which container uses what (a real container's process, by its cgroup), and the eviction of one that takes too much.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start
agent_start --sample-every 1s
wait_for 20 "the agent is ready" agent_ready || finish

node() { kubectl get node node-a -o json | jq -r "$1"; }
label_is() { [[ $(node ".metadata.labels[\"$1\"]") == "$2" ]]; }
wait_for 10 "the node is labelled with its GPUs" label_is nvidia.com/gpu.product Tesla-V100-SXM2-32GB || true
expect "and how many there are" 8 "$(node '.metadata.labels["nvidia.com/gpu.count"]')"
expect "the inventory has them all" 8 "$(node '.metadata.annotations["tessera.io/inventory"] | fromjson | .gpus | length')"
expect "so have the legacy annotations" 28 "$(node '[.metadata.annotations | keys[] | select(startswith("GSOC_DEV_"))] | length')"

condition_is() { [[ $(node '.status.conditions[] | select(.type == "GPUsHealthy") | "\(.status) \(.reason)"') == "$1" ]]; }
told() { kubectl get events -A --field-selector "involvedObject.name=$1,reason=$2" -o name | grep -q .; }
listed_ill() { [[ $(kubectl -n kube-system get configmap unhealthy-gpu-node-a -o 'jsonpath={.data.gpus}' 2>/dev/null) == "$1" ]]; }
wait_for 10 "all GPUs are well" condition_is "True AllGPUsHealthy" || true
echo 'gpus: {7: {lost: true}}' >"$GPUS/control.yaml"
wait_for 10 "the condition tells a lost GPU" condition_is "False GPUUnhealthy" || true
wait_for 10 "an Event does" told node-a GpuUnhealthy || true
wait_for 10 "and the ConfigMap of old extenders" listed_ill 7 || true
echo '{}' >"$GPUS/control.yaml"
wait_for 20 "the condition tells that it is back" condition_is "True AllGPUsHealthy" || true
no_list() { ! kubectl -n kube-system get configmap unhealthy-gpu-node-a >/dev/null 2>&1; }
wait_for 10 "and the ConfigMap is gone" no_list || true

# Somebody else's keys stay, ours come back.
kubectl label node node-a nvidia.com/gpu.product=theirs --overwrite >/dev/null
kubectl annotate node node-a tessera.io/inventory- >/dev/null
restored() { [[ $(node '.metadata.annotations["tessera.io/inventory"] // "" | length') -gt 100 ]]; }
wait_for 80 "a deleted inventory is written again" restored || true
expect "a label that somebody took over is left alone" theirs "$(node '.metadata.labels["nvidia.com/gpu.product"]')"

# The driver says that a process of this container has 4 GiB; the container asked for 3. The other one keeps to its share.
pod greedy '[{"name":"main","limits":{"aliyun.com/gpu-mem":"3"}}, {"name":"side","limits":{"aliyun.com/gpu-mem":"2"}}]' | create
wait_for 40 "a pod runs" pod_is greedy Running || true
# pid_of POD CONTAINER: of its first process, as the agent sees it.
pid_of() {
  local id
  id=$(kubectl get pod "$1" -o json | jq -r --arg name "$2" '.status.containerStatuses[] | select(.name == $name) | .containerID')
  (in_cluster node-a ctr -n k8s.io task ls 2>/dev/null) | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}
gpu=$(sees greedy main ALIYUN_COM_GPU_MEM_IDX)
echo "gpus: {$gpu: {processes: [{pid: $(pid_of greedy main), memory_mib: 4096, busy_percent: 60}, {pid: $(pid_of greedy side), memory_mib: 1024}]}}" >"$GPUS/control.yaml"
metric() { ask "$AGENT_PORT" /metrics | awk -v name="$1" -v labels="$2" 'index($1, name "{") == 1 && index($0, labels) { print $NF }'; }
uses() { [[ $(metric tessera_container_gpu_memory_used_bytes "container=\"$1\"") == "$2" ]]; }
wait_for 10 "metrics tell what the container uses" uses main 4294967296 || true
expect "and what the other one does" 1073741824 "$(metric tessera_container_gpu_memory_used_bytes 'container="side"')"
expect "and what it was given" 3221225472 "$(metric tessera_container_gpu_memory_allocated_bytes 'container="main"')"
expect "and that it is too much" "1 0" "$(for c in main side; do metric tessera_container_gpu_memory_exceeded "container=\"$c\""; done | xargs)"
expect "and how busy it keeps the GPU" 0.6 "$(metric tessera_container_gpu_utilization_ratio 'container="main"')"
wait_for 10 "an Event tells the pod" told greedy GpuMemoryExceeded || true
expect "it goes on running" Running "$(kubectl get pod greedy -o 'jsonpath={.status.phase}')"
expect "what kubelet gave is told" "main side" \
  "$(ask "$AGENT_PORT" /allocations | jq -r '[.allocations[] | select(.pod == "greedy") | .container] | join(" ")')"

# The same under the other policy.
stop "$AGENT_PID"
agent_start --sample-every 1s --memory-policy evict --memory-grace 2s
gone() { ! kubectl get pod greedy >/dev/null 2>&1; }
wait_for 30 "a pod that takes too much is evicted" gone || true
wait_for 10 "and told why" told greedy GpuMemoryEvicted || true

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
