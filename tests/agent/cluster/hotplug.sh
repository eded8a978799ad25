#!/usr/bin/env bash
# Adds, removes and renumbers GPUs and switches them to MIG while the agent runs under a real
# kubelet. kubelet's device list and the node's inventory, labels, condition and Events must follow.
# Device IDs must mean the same GPUs as before, IDs that a pod holds must stay, and pods must keep
# their GPUs.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # for agent_cluster_start
MACHINE=dgxa100
agent_cluster_start
replug 'removed: [7]'
extender_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "the node has the shares of 7 GPUs" allocatable_is aliyun.com/gpu-mem 280

label_is() { [[ $(node ".metadata.labels[\"$1\"]") == "$2" ]]; }
# at INDEX: the UUID of the GPU that has this index now.
# index_is UUID INDEX: whether the GPU has this index.
at() { inventory ".gpus[] | select(.index == $1).uuid"; }
index_is() { inventory_is ".gpus[] | select(.uuid == \"$1\").index" "$2"; }
# pinned NAME UNITS UUID: prints a pod with a share of this GPU.
# pinned_whole NAME UUID: prints a pod with this whole GPU.
pinned() { share "$1" "$2" "{\"metadata\": {\"annotations\": {\"tessera.io/gpu-uuids\": \"$3\"}}}"; }
pinned_whole() { whole "$1" 1 | jq -c --arg gpu "$2" '.metadata.annotations["tessera.io/gpu-uuids"] = $gpu'; }
# what_runs: all pods with their phase and number of restarts.
what_runs() { kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount // 0)"' | xargs; }
unschedulable() { kubectl get pod "$1" -o json | jq -e '.status.conditions[]? | select(.type == "PodScheduled" and .reason == "Unschedulable")' >/dev/null; }

wait_for 10 "the label nvidia.com/gpu.count is 7" label_is nvidia.com/gpu.count 7
stays_on=$(at 5) leaves=$(at 2) whole_on=$(at 3)
{
  pinned stays 6 "$stays_on"
  pinned doomed 4 "$leaves"
  pinned brief 2 "$leaves"
  pinned_whole alone "$whole_on"
} | create
wait_for 40 "four pods run" all_running 4

# A GPU is added.
before=$(listed aliyun.com/gpu-mem)
count_fault add-gpu
replug '{}'
wait_for 10 "kubelet receives the shares of an added GPU" listed_is 320
say "      after $(kubelet_delay_ms) ms"
wait_for 10 "the node offers the shares of the added GPU" allocatable_is aliyun.com/gpu-mem 320
wait_for 5 "the node offers the added GPU as a whole GPU" allocatable_is aliyun.com/gpu 8
wait_for 10 "the inventory lists the added GPU" inventory_is '.gpus | length' 8
new=$(at 7)
expect "kubelet keeps all previous device IDs and gets those of the added GPU" "$(for ((i = 0; i < 40; i++)); do echo "$(tag "$new")-$i"; done | sort)" \
  "$(comm -3 <(echo "$before") <(listed aliyun.com/gpu-mem) | sed 's/^\t//')"
wait_for 10 "the label nvidia.com/gpu.count is 8" label_is nvidia.com/gpu.count 8
wait_for 10 "an Event on the node names the added GPU" has_event node-a GpuAppeared "$new"
expect "the annotations list the links of the added GPU" 28 "$(node '[.metadata.annotations | keys[] | select(startswith("GSOC_DEV_"))] | length')"
pinned fresh 5 "$new" | create
wait_for 20 "a pod with a share of the added GPU runs" pod_is fresh Running
expect "the pod sees the added GPU" "$new" "$(sees fresh)"
check_agreement "records, containers and kubelet agree"

# A GPU is removed while a pod has a share of it, and the driver numbers the other GPUs in reverse.
all=$(listed aliyun.com/gpu-mem)
count_fault remove-gpu
replug '{removed: [2], order: [7, 6, 5, 4, 3, 1, 0]}'
wait_for 10 "kubelet loses the shares of a removed GPU" listed_is 280
say "      after $(kubelet_delay_ms) ms"
wait_for 10 "the node no longer offers the shares of the removed GPU" allocatable_is aliyun.com/gpu-mem 280
wait_for 5 "the node no longer offers the removed GPU" allocatable_is aliyun.com/gpu 7
expect "only the 6 shares that pods hold stay in the list, unhealthy" 286 "$(capacity aliyun.com/gpu-mem)"
if [[ ${K8S:-} != 1.33 ]]; then
  reports_unhealthy() { [[ $(kubectl get pod doomed -o json | jq -r '[.status.containerStatuses[0].allocatedResourcesStatus[]?.resources[].health] | unique | join(" ")') == Unhealthy ]]; }
  wait_for 20 "the status of a pod on the removed GPU reports it as unhealthy" reports_unhealthy
fi
expect "the device IDs of all other GPUs are unchanged" "$(grep -v "^$(tag "$leaves")-" <<<"$all")" "$(listed aliyun.com/gpu-mem)"
wait_for 10 "the inventory has the new indices" index_is "$stays_on" 2
expect "the inventory does not list the removed GPU" "7 false" "$(inventory "\"\\(.gpus | length) \\(any(.gpus[]; .uuid == \"$leaves\"))\"")"
wait_for 10 "the label nvidia.com/gpu.count is 7 again" label_is nvidia.com/gpu.count 7
wait_for 10 "an Event on the node reports the removed GPU" has_event node-a GpuGone "$leaves"
wait_for 10 "an Event on the pod reports that its GPU was removed" has_event doomed GpuUnhealthy "$leaves"
expect "all pods keep running" "alone Running 0 brief Running 0 doomed Running 0 fresh Running 0 stays Running 0" "$(what_runs)"
kill_container stays
kill_container alone
kill_container doomed
wait_for 40 "a container on another GPU restarts" restarted stays 1
expect "the restarted container has the same GPU as before" "$stays_on" "$(sees stays)"
new_index() { [[ $(kubectl get pod stays -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}') == 2 ]]; }
wait_for 10 "the pod's annotation for tools of gpushare has the new index" new_index
wait_for 40 "a container with a whole GPU restarts" restarted alone 1
expect "that container has the same whole GPU as before" "$whole_on" "$(sees alone)"
wait_for 40 "a container whose GPU was removed does not start, and its status gives the reason" waits_saying doomed "its record names GPU \"$leaves\", which is not on this node"
pinned hopes 3 "$leaves" | create
wait_for 20 "a new pod that requires the removed GPU is not placed" unschedulable hopes
share other 7 | create
wait_for 20 "a new pod for any GPU runs" pod_is other Running

# An agent that starts now has never seen the GPU. It only knows the device IDs that a pod holds.
stop "$AGENT_PID"
agent_start
wait_for 20 "a new agent process becomes ready" agent_ready
wait_for 10 "the new agent offers the shares of the GPUs that are present" allocatable_is aliyun.com/gpu-mem 280
expect "the new agent also lists the 6 shares that pods hold" 286 "$(capacity aliyun.com/gpu-mem)"
kubectl delete pod brief --wait=false >/dev/null
wait_for 20 "the shares of a deleted pod leave the list, those of other pods stay" capacity_is aliyun.com/gpu-mem 284

# The GPU is plugged in again, and the GPUs have their old indices.
replug '{}'
wait_for 10 "a GPU that was plugged in again offers all its shares" allocatable_is aliyun.com/gpu-mem 320
expect "its device IDs are the same as before" "$all" "$(listed aliyun.com/gpu-mem)"
expect "the list has no other devices" 320 "$(capacity aliyun.com/gpu-mem)"
wait_for 60 "the container that waited for the GPU starts" restarted doomed 1
expect "that container has the GPU that it had before" "$leaves" "$(sees doomed)"
wait_for 30 "the new pod that requires this GPU runs" pod_is hopes Running
check_agreement "records, containers and kubelet agree"

# Two GPUs are removed. A pod holds one of them as a whole. The pods of the other one end while it
# is missing.
count_fault remove-gpu
replug 'removed: [2, 3]'
wait_for 10 "two GPUs are removed" capacity_is aliyun.com/gpu-mem 247
wait_for 10 "the removed GPU that a pod holds as a whole stays in the list" capacity_is aliyun.com/gpu 7
wait_for 10 "that GPU is listed as unhealthy" allocatable_is aliyun.com/gpu 6
kubectl delete pod doomed hopes --wait=false >/dev/null
wait_for 20 "the shares leave the list when their pods end" capacity_is aliyun.com/gpu-mem 240
expect "the pod with the removed whole GPU keeps running" "Running 1" "$(kubectl get pod alone -o 'jsonpath={.status.phase}') $(restarts alone)"
replug '{}'
wait_for 10 "all shares are offered after the GPUs were plugged in again" allocatable_is aliyun.com/gpu-mem 320
wait_for 10 "all whole GPUs are offered as well" allocatable_is aliyun.com/gpu 8
expect "the list has no other devices" "320 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"

# MIG is switched on. The memory of the GPU then belongs to its MIG instances.
wait_for 10 "the condition reports all GPUs as healthy" condition_is "True AllGPUsHealthy"
count_fault switch-to-mig
control 'gpus: {5: {mig: true}}'
wait_for 10 "kubelet stops offering a GPU when MIG is switched on" listed_is 280
mig_on=$(kubelet_delay_ms)
say "      after $mig_on ms"
wait_for 10 "the node no longer offers the shares of the MIG GPU" allocatable_is aliyun.com/gpu-mem 280
expect "the capacity still includes the MIG GPU" "320 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"
inventory_names_mig() { inventory ".gpus[] | select(.uuid == \"$stays_on\").unhealthy" | grep -q "MIG is enabled"; }
wait_for 10 "the inventory gives MIG as the reason" inventory_names_mig
wait_for 10 "the condition reports an unhealthy GPU" condition_is "False GPUUnhealthy"
wait_for 10 "an Event on the node gives MIG as the reason" has_event node-a GpuUnhealthy "MIG is enabled"
wait_for 10 "an Event on the pod that holds the GPU gives MIG as the reason" has_event stays GpuUnhealthy "MIG is enabled"
expect "that pod keeps running" "Running 1" "$(kubectl get pod stays -o 'jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}')"
pinned mig 3 "$stays_on" | create
wait_for 20 "a new pod that requires the MIG GPU is not placed" unschedulable mig
control '{}'
wait_for 10 "the GPU is offered again when MIG is switched off" allocatable_is aliyun.com/gpu-mem 320
wait_for 10 "the condition reports all GPUs as healthy again" condition_is "True AllGPUsHealthy"
wait_for 30 "the pod that requires this GPU runs" pod_is mig Running
expect "the pod sees this GPU" "$stays_on" "$(sees mig)"
check_agreement "records, containers and kubelet agree"
check "kubelet rejected no pod" prints_nothing rejected_pods

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
