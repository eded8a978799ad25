#!/usr/bin/env bash
# Another device plugin on the same GPUs, with a real kubelet between the two: one that takes a resource of ours, and one as
# NVIDIA's. The node's readers are told, a GPU that it gave to a pod is offered to nobody else until that pod ends, and all other
# GPUs are as before. (The extender places nothing on such a node; what was placed just before must be safe all the same, so this
# test binds by itself.)
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256
all=$(listed aliyun.com/gpu-mem)
mapfile -t gpus < <(inventory '.gpus[].uuid')
# ill_is UUID REASON: this GPU alone is not to be used.
ill_is() { [[ $(inventory '.gpus[] | select(.unhealthy) | "\(.uuid) \(.unhealthy)"') == "$1 $2" ]]; }
also_is() { inventory_is '.also_served_as // [] | join(" ")' "$1"; }
# bound NAME UUID UNITS: a pod with a share of that GPU; bound_whole NAME UUID.
bound() { share "$1" "$3" '{"spec": {"schedulerName": "nobody"}}' | create && bind "$1" "$2" "\"mem\":$3"; }
bound_whole() { whole "$1" 1 | jq -c '.spec.schedulerName = "nobody"' | create && bind "$1" "$2" '"whole":true'; }
bind() {
  jq -cn --arg name "$1" --arg record "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"$2\",$3}]}}" '{apiVersion: "v1", kind: "Binding",
    metadata: {name: $name, annotations: {"tessera.io/allocation": $record}}, target: {apiVersion: "v1", kind: "Node", name: "node-a"}}' |
    kubectl create --raw "/api/v1/namespaces/default/pods/$1/binding" -f - >/dev/null
}
check "nobody else serves these GPUs" also_is ""
bound ours "${gpus[0]}" 6
wait_for 40 "a pod of ours runs" pod_is ours Running

# A plugin that serves a resource of ours under the nose of the agent: kubelet takes the one that registered last.
other_plugin_start aliyun.com/gpu-mem aliyungpushare.sock "$(for gpu in "${gpus[@]}"; do for ((i = 0; i < 32; i++)); do echo "$gpu-_-$i"; done; done)"
wait_for 20 "an Event says that somebody else serves gpu-mem" told node-a OtherDevicePlugin "another device plugin serves aliyun.com/gpu-mem"
wait_for 10 "so does the inventory" also_is aliyun.com/gpu-mem
stop "$OTHER_PID"
is_ours() { [[ $(listed aliyun.com/gpu-mem) == "$all" ]]; }
wait_for 20 "when it ends, kubelet has the agent's shares again" is_ours
wait_for 20 "and offers them" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "and the inventory says nothing of it any more" also_is ""
kill_container ours
wait_for 40 "a pod of ours starts again" restarted ours 1

# NVIDIA's plugin comes. It may give out any GPU at any time, and has not yet. (Not the first one, which is ours: which of its IDs
# kubelet takes is kubelet's choice.)
other_plugin_start nvidia.com/gpu nvidia-gpu.sock "$(printf '%s\n' "${gpus[@]:1}")"
nvidia=$OTHER_PID
wait_for 20 "kubelet has its GPUs" allocatable_is nvidia.com/gpu 7
wait_for 10 "the inventory says that somebody else serves them" also_is nvidia.com/gpu
wait_for 10 "so does an Event, and what to do" told node-a OtherDevicePlugin "--resource-whole nvidia.com/gpu"
expect "all shares are still offered" "$all" "$(listed aliyun.com/gpu-mem)"
share fenced 3 | create
fenced() { kubectl get pod fenced -o json | jq -e '.status.conditions[]? | select(.message // "" | contains("another device plugin gives out the same GPUs"))' >/dev/null; }
wait_for 20 "the extender keeps off the node" fenced

# It gives one to a pod.
whole theirs 1 nvidia.com/gpu | create
wait_for 40 "a pod gets a GPU of the other plugin" pod_is theirs Running
taken=$(sees theirs)
expect_match "and sees it" '^GPU-' "$taken"
mapfile -t free < <(printf '%s\n' "${gpus[@]:1}" | grep -vxF "$taken")
reason="pod default/theirs has it through nvidia.com/gpu of another device plugin"
wait_for 10 "the inventory says who has that GPU" ill_is "$taken" "$reason"
wait_for 10 "an Event does, too" told node-a GpuHeldElsewhere "$taken is not offered: $reason"
wait_for 10 "the condition does" condition_is "False GPUUnhealthy"
wait_for 10 "kubelet offers its shares no more" allocatable_is aliyun.com/gpu-mem 224
wait_for 10 "nor the GPU" allocatable_is aliyun.com/gpu 7
expect "but has them: none was dropped" "256 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"
expect "all others are as they were" "$(grep -v "^$(tag "$taken")-" <<<"$all")" "$(listed aliyun.com/gpu-mem)"
bound beside "${free[0]}" 5
bound_whole alone "${free[1]}"
wait_for 40 "a pod on another GPU runs" pod_is beside Running
wait_for 40 "so does one with a whole one" pod_is alone Running
check_agreement "records, containers and kubelet agree"
expect "the pod that was here first runs on" "Running 1" "$(kubectl get pod ours -o 'jsonpath={.status.phase}') $(restarts ours)"
# One that was placed on that GPU before anybody knew.
bound late "$taken" 4
wait_for 30 "a pod that was placed on that GPU waits, and says for whom" waits_saying late "$reason"

# An agent that starts now learns the same from kubelet, and never says otherwise.
kubectl get node node-a --watch -o json | jq --unbuffered -r '.metadata.annotations["tessera.io/inventory"] | fromjson | [.gpus[] | select(.unhealthy).uuid] | join(" ")' >"$S/tmp/ill" &
watcher=$!
stop "$AGENT_PID"
agent_start
wait_for 20 "another agent starts" agent_ready
wait_for 10 "and does not offer that GPU either" allocatable_is aliyun.com/gpu-mem 224
check "as it says" ill_is "$taken" "$reason"
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
expect "and never said otherwise" "$taken" "$(sort -u "$S/tmp/ill")"
expect "who waits for it still does" Pending "$(kubectl get pod late -o 'jsonpath={.status.phase}')"

kubectl delete pod theirs --wait=false >/dev/null
wait_for 20 "the GPU is offered again when that pod has ended" listed_is 256
wait_for 10 "all GPUs are well" condition_is "True AllGPUsHealthy"
wait_for 60 "and the pod that waited starts" pod_is late Running
expect "and sees it" "$taken" "$(sees late)"
expect "the IDs are those from before" "$all" "$(listed aliyun.com/gpu-mem)"
check "who else serves GPUs is still told" also_is nvidia.com/gpu
kubectl delete pod late --wait=false >/dev/null

# The same with GPUs that it gives out several times, and a pod that ends by itself.
stop "$nvidia"
other_plugin_start nvidia.com/gpu nvidia-gpu.sock "$(for gpu in "${free[@]:2}"; do printf '%s::%d\n' "$gpu" 0 "$gpu" 1; done)"
nvidia=$OTHER_PID
wait_for 20 "kubelet has replicas of its GPUs" allocatable_is nvidia.com/gpu 8
whole replica 1 nvidia.com/gpu | jq -c '.spec.restartPolicy = "Never" | .spec.containers[0].command = ["sh", "-c", "env; until [ -e /tmp/end ]; do sleep 1; done"]' | create
wait_for 40 "a pod gets a replica" pod_is replica Running
taken=$(sees replica)
wait_for 10 "that GPU is not offered" ill_is "$taken" "pod default/replica has it through nvidia.com/gpu of another device plugin"
wait_for 10 "by kubelet neither" allocatable_is aliyun.com/gpu-mem 224
kubectl exec replica -- touch /tmp/end
wait_for 20 "it is again when the pod has ended, which is still there" listed_is 256
expect "as it says" Succeeded "$(kubectl get pod replica -o 'jsonpath={.status.phase}')"
stop "$nvidia"
bound last "$taken" 5
wait_for 30 "a pod of ours gets a share of it" pod_is last Running
check_agreement "records, containers and kubelet agree"
expect "the pod that was here first runs on" "Running 1" "$(kubectl get pod ours -o 'jsonpath={.status.phase}') $(restarts ours)"
expect "no pod was refused" "" "$(kubectl get pods --field-selector status.phase=Failed -o name)"

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
