#!/usr/bin/env bash
# What a real cluster is told by an agent: the node's inventory and labels, a GPU that falls ill and recovers (kubelet within a
# second, Event, condition, ConfigMap), which container uses what (a real container's process, by its cgroup), the eviction of one
# that takes too much; and that a driver which hangs hangs nobody else.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start
agent_start --sample-every 1s
wait_or_finish 20 "the agent is ready" agent_ready

label_is() { [[ $(node ".metadata.labels[\"$1\"]") == "$2" ]]; }
wait_for 10 "the node is labelled with its GPUs" label_is nvidia.com/gpu.product Tesla-V100-SXM2-32GB
expect "and how many there are" 8 "$(node '.metadata.labels["nvidia.com/gpu.count"]')"
expect "the inventory has them all" 8 "$(node '.metadata.annotations["tessera.io/inventory"] | fromjson | .gpus | length')"
expect "so have the legacy annotations" 28 "$(node '[.metadata.annotations | keys[] | select(startswith("GSOC_DEV_"))] | length')"

listed_ill() { [[ $(kubectl -n kube-system get configmap unhealthy-gpu-node-a -o 'jsonpath={.data.gpus}' 2>/dev/null) == "$1" ]]; }
wait_for 10 "all GPUs are well" condition_is "True AllGPUsHealthy"
# within_a_second WHAT COUNT: kubelet has been told of so many healthy shares, soon after control().
within_a_second() {
  local took
  try_wait_for 10 "$1" listed_is "$2" || return 0
  took=$(told_kubelet_ms)
  if ((took < 1000)); then pass "within a second ($took ms)"; else fail "within a second" "it took $took ms"; fi
}
control 'gpus: {7: {lost: true}}'
within_a_second "kubelet is told of a lost GPU" 224
wait_for 10 "the condition tells a lost GPU" condition_is "False GPUUnhealthy"
wait_for 10 "an Event does" told node-a GpuUnhealthy
wait_for 10 "and the ConfigMap of old extenders" listed_ill 7
control '{}'
within_a_second "kubelet is told that it is back" 256
wait_for 20 "the condition tells that it is back" condition_is "True AllGPUsHealthy"
no_list() { ! kubectl -n kube-system get configmap unhealthy-gpu-node-a >/dev/null 2>&1; }
wait_for 10 "and the ConfigMap is gone" no_list

# An XID: all shares of that GPU at once and no other, until the driver asks for no reset any more. A fault of a program is none.
control $'gpus: {3: {recovery_action: reset}}\nevents: [{gpu: 3, xid: 79}, {gpu: 4, xid: 13}]'
within_a_second "kubelet is told of an XID" 224
third=$(inventory '.gpus[] | select(.index == 3).uuid')
expect "by all shares of that GPU" "" "$(listed aliyun.com/gpu-mem | grep "^$(tag "$third")-" || true)"
wait_for 10 "an Event names it" told node-a GpuUnhealthy "XID 79"
expect "that of a program is no illness" "$third" "$(inventory '.gpus[] | select(.unhealthy).uuid')"
control 'events: [{gpu: 3, xid: 79}, {gpu: 4, xid: 13}]'
wait_for 10 "kubelet is told when the driver says that the GPU is well" listed_is 256
say "      after $(told_kubelet_ms) ms, of which the agent waits 2 s since the last XID"
wait_for 10 "an Event says so" told node-a GpuHealthy "$third"
expect "kubelet never had a part of a GPU's shares" "224 256" \
  "$(sed -n 's/.* devices resource=aliyun.com\/gpu-mem .*healthy=\([0-9]*\).*/\1/p' "$S/agent-node-a.log" | sort -u | xargs)"

# Somebody else's keys stay, ours come back.
kubectl label node node-a nvidia.com/gpu.product=theirs --overwrite >/dev/null
kubectl annotate node node-a tessera.io/inventory- >/dev/null
restored() { [[ $(node '.metadata.annotations["tessera.io/inventory"] // "" | length') -gt 100 ]]; }
wait_for 80 "a deleted inventory is written again" restored
expect "a label that somebody took over is left alone" theirs "$(node '.metadata.labels["nvidia.com/gpu.product"]')"

# The driver says that a process of this container has 4 GiB; the container asked for 3. The other one keeps to its share.
pod greedy '[{"name":"main","limits":{"aliyun.com/gpu-mem":"3"}}, {"name":"side","limits":{"aliyun.com/gpu-mem":"2"}}]' | create
wait_for 40 "a pod runs" pod_is greedy Running
# pid_of POD CONTAINER: of its first process, as the agent sees it.
pid_of() {
  local id
  id=$(kubectl get pod "$1" -o json | jq -r --arg name "$2" '.status.containerStatuses[] | select(.name == $name) | .containerID')
  (in_cluster node-a ctr -n k8s.io task ls 2>/dev/null) | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}
gpu=$(sees greedy main ALIYUN_COM_GPU_MEM_IDX)
control "gpus: {$gpu: {processes: [{pid: $(pid_of greedy main), memory_mib: 4096, busy_percent: 60}, {pid: $(pid_of greedy side), memory_mib: 1024}]}}"
metric() { ask "$AGENT_PORT" /metrics | awk -v name="$1" -v labels="$2" 'index($1, name "{") == 1 && index($0, labels) { print $NF }'; }
uses() { [[ $(metric tessera_container_gpu_memory_used_bytes "container=\"$1\"") == "$2" ]]; }
wait_for 10 "metrics tell what the container uses" uses main 4294967296
expect "and what the other one does" 1073741824 "$(metric tessera_container_gpu_memory_used_bytes 'container="side"')"
expect "and what it was given" 3221225472 "$(metric tessera_container_gpu_memory_allocated_bytes 'container="main"')"
expect "and that it is too much" "1 0" "$(for c in main side; do metric tessera_container_gpu_memory_exceeded "container=\"$c\""; done | xargs)"
expect "and how busy it keeps the GPU" 0.6 "$(metric tessera_container_gpu_utilization_ratio 'container="main"')"
wait_for 10 "an Event tells the pod" told greedy GpuMemoryExceeded
expect "it goes on running" Running "$(kubectl get pod greedy -o 'jsonpath={.status.phase}')"
expect "what kubelet gave is told" "main side" \
  "$(ask "$AGENT_PORT" /allocations | jq -r '[.allocations[] | select(.pod == "greedy") | .container] | join(" ")')"

# The same under the other policy; while a budget forbids it, the pod stays.
kubectl label pod greedy app=greedy >/dev/null
kubectl create pdb keep --selector=app=greedy --min-available=1 >/dev/null
budget() { [[ $(kubectl get pdb keep -o 'jsonpath={.status.expectedPods} {.status.disruptionsAllowed}') == "1 0" ]]; }
wait_for 20 "a budget protects the pod" budget
stop "$AGENT_PID"
agent_start --sample-every 1s --memory-policy evict --memory-grace 2s
wait_for 30 "an eviction that a budget forbids is told" told greedy GpuMemoryEvictionRefused "disruption budget"
expect "and the pod runs" Running "$(kubectl get pod greedy -o 'jsonpath={.status.phase}')"
kubectl delete pdb keep >/dev/null
gone() { ! kubectl get pod greedy >/dev/null 2>&1; }
wait_for 30 "a pod that takes too much is evicted" gone
wait_for 10 "and told why" told greedy GpuMemoryEvicted "uses 4.0GiB"

# A call into the driver that does not return: kubelet is answered as ever.
share calm 3 | create
wait_for 30 "a pod runs" pod_is calm Running
control 'hang: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo]'
wait_for 20 "the condition tells of a driver that hangs" condition_is "False DriverHangs"
wait_for 10 "an Event names the call" told node-a GpuDriverHangs nvmlDeviceGetMemoryInfo
expect "the GPUs are as they were last seen" 256 "$(listed aliyun.com/gpu-mem | wc -l)"
share hung 3 | create
wait_for 20 "a pod is admitted meanwhile" pod_is hung Running
expect "and sees its GPU" "$(record hung | jq -r '.containers.main[0].gpu')" "$(sees hung)"
kill_container calm
wait_for 20 "a container restarts meanwhile" restarted calm 1
slow() { ask "$AGENT_PORT" /metrics | awk '/^tessera_agent_kubelet_call_duration_seconds_bucket/ && /le="0.5"/ { n -= $2 } /^tessera_agent_kubelet_call_duration_seconds_count/ { n += $2 } END { print n + 0 }'; }
expect "no answer to kubelet took half a second" 0 "$(slow)"

# leave: it ends at TERM, in order: with code 0, soon, its sockets gone.
leave() {
  local begin code=0
  begin=$(now_ms)
  pkill -TERM -P "$AGENT_PID"
  wait "$AGENT_PID" || code=$?
  expect "$1: TERM ends the agent in order" "0 0" "$code $( (in_cluster node-a ls /var/lib/kubelet/device-plugins) | grep -c '^tessera-' || true)"
  say "      after $(seconds_since "$begin") s"
}
leave "while the driver hangs"
agent_start
starts_ill() { [[ $(capacity aliyun.com/gpu-mem) == 256 && $(allocatable aliyun.com/gpu-mem) == 0 ]]; }
kubelet_knows() { [[ $( (in_cluster node-a ls /var/lib/kubelet/device-plugins) | grep -c '^tessera-') == 3 ]]; }
wait_for 20 "an agent that starts while the driver hangs tells kubelet what was here" kubelet_knows
wait_for 20 "all of it ill" starts_ill
expect "pods run on" "Running Running" "$(kubectl get pods calm hung -o 'jsonpath={.items[*].status.phase}')"
control '{}'
wait_for 20 "all is well when the driver answers" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "as the condition says" condition_is "True AllGPUsHealthy"
wait_for 10 "the agent is ready" agent_ready
check_agreement "records, containers and kubelet agree"

leave "at last"
none_left() { allocatable_is aliyun.com/gpu-mem 0; }
wait_for 10 "nothing is offered any more" none_left
expect "pods run on" "Running Running" "$(kubectl get pods calm hung -o 'jsonpath={.items[*].status.phase}')"
stop "$EXTENDER_PID"
finish
