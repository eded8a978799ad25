#!/usr/bin/env bash
# GPUs that are plugged in and out, counted anew and switched to MIG while the agent runs, on a real kubelet: its list, the node's
# inventory, labels, condition and Events follow, device IDs mean the same GPUs as before, those that a pod holds never go, and
# pods keep their GPUs.
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
# at INDEX: the UUID of the GPU that has it now; index_is UUID INDEX.
at() { inventory ".gpus[] | select(.index == $1).uuid"; }
index_is() { inventory_is ".gpus[] | select(.uuid == \"$1\").index" "$2"; }
# pinned NAME UNITS UUID, pinned_whole NAME UUID
pinned() { share "$1" "$2" "{\"metadata\": {\"annotations\": {\"tessera.io/gpu-uuids\": \"$3\"}}}"; }
pinned_whole() { whole "$1" 1 | jq -c --arg gpu "$2" '.metadata.annotations["tessera.io/gpu-uuids"] = $gpu'; }
# what_runs: pods with how often they restarted.
what_runs() { kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount // 0)"' | xargs; }
unschedulable() { kubectl get pod "$1" -o json | jq -e '.status.conditions[]? | select(.type == "PodScheduled" and .reason == "Unschedulable")' >/dev/null; }

wait_for 10 "and says so in a label" label_is nvidia.com/gpu.count 7
stays_on=$(at 5) leaves=$(at 2) whole_on=$(at 3)
{
  pinned stays 6 "$stays_on"
  pinned doomed 4 "$leaves"
  pinned brief 2 "$leaves"
  pinned_whole alone "$whole_on"
} | create
wait_for 40 "pods run" all_running 4

# Plugged in.
before=$(listed aliyun.com/gpu-mem)
replug '{}'
wait_for 10 "kubelet is told of a GPU that was plugged in" listed_is 320
say "      after $(told_kubelet_ms) ms"
wait_for 10 "and the node has its shares" allocatable_is aliyun.com/gpu-mem 320
wait_for 5 "and the GPU itself" allocatable_is aliyun.com/gpu 8
wait_for 10 "the inventory has it" inventory_is '.gpus | length' 8
new=$(at 7)
expect "all IDs from before are there, and the shares of the new GPU" "$(for ((i = 0; i < 40; i++)); do echo "$(tag "$new")-$i"; done | sort)" \
  "$(comm -3 <(echo "$before") <(listed aliyun.com/gpu-mem) | sed 's/^\t//')"
wait_for 10 "the label counts it" label_is nvidia.com/gpu.count 8
wait_for 10 "an Event names it" told node-a GpuAppeared "$new"
expect "links to it are told" 28 "$(node '[.metadata.annotations | keys[] | select(startswith("GSOC_DEV_"))] | length')"
pinned fresh 5 "$new" | create
wait_for 20 "a pod gets a share of it" pod_is fresh Running
expect "and sees it" "$new" "$(sees fresh)"
check_agreement "records, containers and kubelet agree"

# Plugged out while a pod has a share of it, and the driver counts those that are left backwards.
all=$(listed aliyun.com/gpu-mem)
replug '{removed: [2], order: [7, 6, 5, 4, 3, 1, 0]}'
wait_for 10 "kubelet is told that a GPU was plugged out" listed_is 280
say "      after $(told_kubelet_ms) ms"
wait_for 10 "the node has its shares no more" allocatable_is aliyun.com/gpu-mem 280
wait_for 5 "nor the GPU itself" allocatable_is aliyun.com/gpu 7
expect "but for the 6 that pods hold, which are unhealthy" 286 "$(capacity aliyun.com/gpu-mem)"
if [[ ${K8S:-} != 1.33 ]]; then
  ill() { [[ $(kubectl get pod doomed -o json | jq -r '[.status.containerStatuses[0].allocatedResourcesStatus[]?.resources[].health] | unique | join(" ")') == Unhealthy ]]; }
  wait_for 20 "as the status of such a pod says" ill
fi
expect "all other IDs are what they were" "$(grep -v "^$(tag "$leaves")-" <<<"$all")" "$(listed aliyun.com/gpu-mem)"
wait_for 10 "the inventory has the new indices" index_is "$stays_on" 2
expect "and not the GPU" "7 false" "$(inventory "\"\\(.gpus | length) \\(any(.gpus[]; .uuid == \"$leaves\"))\"")"
wait_for 10 "the label counts 7" label_is nvidia.com/gpu.count 7
wait_for 10 "an Event tells the node" told node-a GpuGone "$leaves"
wait_for 10 "an Event tells the pod that has it" told doomed GpuUnhealthy "$leaves"
expect "all pods run on" "alone Running 0 brief Running 0 doomed Running 0 fresh Running 0 stays Running 0" "$(what_runs)"
kill_container stays
kill_container alone
kill_container doomed
wait_for 40 "a container that restarts comes back" restarted stays 1
expect "with the GPU that it had" "$stays_on" "$(sees stays)"
new_index() { [[ $(kubectl get pod stays -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}') == 2 ]]; }
wait_for 10 "its pod tells old tools the new index" new_index
wait_for 40 "so does one with a whole GPU" restarted alone 1
expect "that it had, too" "$whole_on" "$(sees alone)"
wait_for 40 "one whose GPU is gone waits and says why" waits_saying doomed "GPU \"$leaves\" was decided for it and is not on this node"
pinned hopes 3 "$leaves" | create
wait_for 20 "a new pod that wants that GPU is not placed" unschedulable hopes
share other 7 | create
wait_for 20 "one that does not care is" pod_is other Running

# An agent that starts now has never seen the GPU, but for what its pod holds.
stop "$AGENT_PID"
agent_start
wait_for 20 "another agent starts" agent_ready
wait_for 10 "and knows what can be used" allocatable_is aliyun.com/gpu-mem 280
expect "and what is held" 286 "$(capacity aliyun.com/gpu-mem)"
kubectl delete pod brief --wait=false >/dev/null
wait_for 20 "IDs that nobody holds any more go, the others stay" capacity_is aliyun.com/gpu-mem 284

# Back in its slot, with the old indices.
replug '{}'
wait_for 10 "a GPU that is back has all its shares" allocatable_is aliyun.com/gpu-mem 320
expect "which are the same as before" "$all" "$(listed aliyun.com/gpu-mem)"
expect "and all there are" 320 "$(capacity aliyun.com/gpu-mem)"
wait_for 60 "the container that waited for it starts" restarted doomed 1
expect "with that GPU" "$leaves" "$(sees doomed)"
wait_for 30 "and so does the pod that hoped for it" pod_is hopes Running
check_agreement "records, containers and kubelet agree"

# Two are plugged out, one with a pod that has all of it; the pods of the other end while it is away.
replug 'removed: [2, 3]'
wait_for 10 "two GPUs are plugged out" capacity_is aliyun.com/gpu-mem 247
wait_for 10 "the whole one that a pod holds stays" capacity_is aliyun.com/gpu 7
wait_for 10 "unhealthy" allocatable_is aliyun.com/gpu 6
kubectl delete pod doomed hopes --wait=false >/dev/null
wait_for 20 "shares go with the pods that hold them" capacity_is aliyun.com/gpu-mem 240
expect "the pod with the whole one runs on" "Running 1" "$(kubectl get pod alone -o 'jsonpath={.status.phase}') $(restarts alone)"
replug '{}'
wait_for 10 "all come back with their GPUs" allocatable_is aliyun.com/gpu-mem 320
wait_for 10 "and the GPUs themselves" allocatable_is aliyun.com/gpu 8
expect "and no more" "320 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"

# MIG is switched on: the GPU's memory belongs to its instances.
wait_for 10 "all GPUs are well" condition_is "True AllGPUsHealthy"
control 'gpus: {5: {mig: true}}'
wait_for 10 "kubelet is told that a GPU is not to be used when MIG is switched on" listed_is 280
mig_on=$(told_kubelet_ms)
say "      after $mig_on ms"
wait_for 10 "the node offers its shares no more" allocatable_is aliyun.com/gpu-mem 280
expect "but has them" "320 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"
mig_told() { inventory ".gpus[] | select(.uuid == \"$stays_on\").unhealthy" | grep -q "MIG is enabled"; }
wait_for 10 "the inventory says why" mig_told
wait_for 10 "so does the condition" condition_is "False GPUUnhealthy"
wait_for 10 "an Event tells the node" told node-a GpuUnhealthy "MIG is enabled"
wait_for 10 "an Event tells the pod that has it" told stays GpuUnhealthy "MIG is enabled"
expect "which runs on" "Running 1" "$(kubectl get pod stays -o 'jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}')"
pinned mig 3 "$stays_on" | create
wait_for 20 "a new pod that wants it is not placed" unschedulable mig
control '{}'
wait_for 10 "it is offered again when MIG is switched off" allocatable_is aliyun.com/gpu-mem 320
wait_for 10 "and the condition says so" condition_is "True AllGPUsHealthy"
wait_for 30 "the pod that wanted it runs" pod_is mig Running
expect "and sees it" "$stays_on" "$(sees mig)"
check_agreement "records, containers and kubelet agree"
expect "no pod was refused" "" "$(kubectl get pods --field-selector status.phase=Failed -o name)"

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
