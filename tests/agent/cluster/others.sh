#!/usr/bin/env bash
# Another device plugin serves the same GPUs under a real kubelet: first one for a resource of
# Tessera, then one like NVIDIA's. The agent must report it. It must not offer a GPU that the other
# plugin allocated to a pod until that pod ends. All other GPUs must not be affected.
#
# The extender places no pods on such a node, but pods that it placed just before must be safe as
# well. This test therefore writes the Bindings itself.
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
# only_unhealthy_is UUID REASON: whether this is the only unhealthy GPU, with this reason.
only_unhealthy_is() { [[ $(inventory '.gpus[] | select(.unhealthy) | "\(.uuid) \(.unhealthy)"') == "$1 $2" ]]; }
also_is() { inventory_is '.also_served_as // [] | join(" ")' "$1"; }
# bound NAME UUID UNITS: creates and binds a pod with a share of that GPU.
# bound_whole NAME UUID: creates and binds a pod with that whole GPU.
bound() { share "$1" "$3" '{"spec": {"schedulerName": "none"}}' | create && bind "$1" "$2" "\"mem\":$3"; }
bound_whole() { whole "$1" 1 | jq -c '.spec.schedulerName = "none"' | create && bind "$1" "$2" '"whole":true'; }
bind() {
  jq -cn --arg name "$1" --arg record "{\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"$2\",$3}]}}" '{apiVersion: "v1", kind: "Binding",
    metadata: {name: $name, annotations: {"tessera.io/allocation": $record}}, target: {apiVersion: "v1", kind: "Node", name: "node-a"}}' |
    kubectl create --raw "/api/v1/namespaces/default/pods/$1/binding" -f - >/dev/null
}
check "the inventory names no other device plugin" also_is ""
bound ours "${gpus[0]}" 6
wait_for 40 "a pod of Tessera runs" pod_is ours Running

# Another plugin registers a resource of Tessera while the agent runs. kubelet uses the plugin that
# registered last.
other_plugin_start aliyun.com/gpu-mem aliyungpushare.sock "$(for gpu in "${gpus[@]}"; do for ((i = 0; i < 32; i++)); do echo "$gpu-_-$i"; done; done)"
wait_for 20 "an Event reports another plugin for gpu-mem" has_event node-a OtherDevicePlugin "another device plugin serves aliyun.com/gpu-mem"
wait_for 10 "the inventory names the other plugin's resource" also_is aliyun.com/gpu-mem
stop "$OTHER_PID"
is_ours() { [[ $(listed aliyun.com/gpu-mem) == "$all" ]]; }
wait_for 20 "when the other plugin ends, kubelet has the agent's shares again" is_ours
wait_for 20 "the node offers the agent's shares" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the inventory no longer names the other plugin's resource" also_is ""
kill_container ours
wait_for 40 "a container of Tessera's pod restarts" restarted ours 1

# NVIDIA's plugin starts. It may allocate any of its GPUs at any time, but has not done so yet. It
# does not serve the first GPU, which a pod of Tessera holds: kubelet could choose that one.
other_plugin_start nvidia.com/gpu nvidia-gpu.sock "$(printf '%s\n' "${gpus[@]:1}")"
nvidia=$OTHER_PID
wait_for 20 "the node offers the GPUs of NVIDIA's plugin" allocatable_is nvidia.com/gpu 7
wait_for 10 "the inventory names nvidia.com/gpu" also_is nvidia.com/gpu
wait_for 10 "an Event reports NVIDIA's plugin and says what to do" has_event node-a OtherDevicePlugin "--resource-whole nvidia.com/gpu"
expect "Tessera still offers all shares" "$all" "$(listed aliyun.com/gpu-mem)"
share fenced 3 | create
fenced() { kubectl get pod fenced -o json | jq -e '.status.conditions[]? | select(.message // "" | contains("another device plugin allocates the same GPUs"))' >/dev/null; }
wait_for 20 "the extender places no pod on the node, with that reason" fenced

# NVIDIA's plugin allocates a GPU to a pod.
whole theirs 1 nvidia.com/gpu | create
wait_for 40 "a pod gets a GPU from NVIDIA's plugin" pod_is theirs Running
taken=$(sees theirs)
expect_match "the pod sees that GPU" '^GPU-' "$taken"
mapfile -t free < <(printf '%s\n' "${gpus[@]:1}" | grep -vxF "$taken")
reason="pod default/theirs has it through nvidia.com/gpu of another device plugin"
wait_for 10 "the inventory names the pod that holds the GPU" only_unhealthy_is "$taken" "$reason"
wait_for 10 "an Event names the pod that holds the GPU" has_event node-a GpuHeldElsewhere "$taken is not offered: $reason"
wait_for 10 "the condition reports an unhealthy GPU" condition_is "False GPUUnhealthy"
wait_for 10 "the node no longer offers the shares of that GPU" allocatable_is aliyun.com/gpu-mem 224
wait_for 10 "the node no longer offers that GPU as a whole GPU" allocatable_is aliyun.com/gpu 7
expect "the capacity is unchanged: no device was removed from the list" "256 8" "$(capacity aliyun.com/gpu-mem) $(capacity aliyun.com/gpu)"
expect "the device IDs of all other GPUs are unchanged" "$(grep -v "^$(tag "$taken")-" <<<"$all")" "$(listed aliyun.com/gpu-mem)"
bound neighbor "${free[0]}" 5
bound_whole alone "${free[1]}"
wait_for 40 "a pod with a share of another GPU runs" pod_is neighbor Running
wait_for 40 "a pod with another whole GPU runs" pod_is alone Running
check_agreement "records, containers and kubelet agree"
expect "the first pod keeps running" "Running 1" "$(kubectl get pod ours -o 'jsonpath={.status.phase}') $(restarts ours)"
# Tessera placed a pod on that GPU before it was known to be held.
bound late "$taken" 4
wait_for 30 "a pod that Tessera placed on that GPU does not start, and its status names the holder" waits_saying late "$reason"

# An agent that starts now learns from kubelet that the GPU is held. Its inventory must never list
# the GPU as healthy.
kubectl get node node-a --watch -o json | jq --unbuffered -r '.metadata.annotations["tessera.io/inventory"] | fromjson | [.gpus[] | select(.unhealthy).uuid] | join(" ")' >"$S/tmp/unhealthy" &
watcher=$!
stop "$AGENT_PID"
agent_start
wait_for 20 "a new agent process becomes ready" agent_ready
wait_for 10 "the new agent does not offer that GPU either" allocatable_is aliyun.com/gpu-mem 224
check "the new agent gives the same reason" only_unhealthy_is "$taken" "$reason"
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
expect "the inventory never listed that GPU as healthy" "$taken" "$(sort -u "$S/tmp/unhealthy")"
expect "the pod that waits for the GPU still waits" Pending "$(kubectl get pod late -o 'jsonpath={.status.phase}')"

kubectl delete pod theirs --wait=false >/dev/null
wait_for 20 "the GPU is offered again when the holder has ended" listed_is 256
wait_for 10 "the condition reports all GPUs as healthy" condition_is "True AllGPUsHealthy"
wait_for 60 "the waiting pod starts" pod_is late Running
expect "the pod sees that GPU" "$taken" "$(sees late)"
expect "the device IDs are the same as before" "$all" "$(listed aliyun.com/gpu-mem)"
check "the inventory still names nvidia.com/gpu" also_is nvidia.com/gpu
kubectl delete pod late --wait=false >/dev/null

# The same with a plugin that allocates each GPU several times (replicas), and a pod that succeeds.
stop "$nvidia"
other_plugin_start nvidia.com/gpu nvidia-gpu.sock "$(for gpu in "${free[@]:2}"; do printf '%s::%d\n' "$gpu" 0 "$gpu" 1; done)"
nvidia=$OTHER_PID
wait_for 20 "the node offers the replicas of NVIDIA's plugin" allocatable_is nvidia.com/gpu 8
whole replica 1 nvidia.com/gpu | jq -c '.spec.restartPolicy = "Never" | .spec.containers[0].command = ["sh", "-c", "env; until [ -e /tmp/end ]; do sleep 1; done"]' | create
wait_for 40 "a pod gets a replica of a GPU" pod_is replica Running
taken=$(sees replica)
wait_for 10 "the inventory reports that GPU as held" only_unhealthy_is "$taken" "pod default/replica has it through nvidia.com/gpu of another device plugin"
wait_for 10 "the node no longer offers its shares" allocatable_is aliyun.com/gpu-mem 224
kubectl exec replica -- touch /tmp/end
wait_for 20 "the GPU is offered again when the pod has succeeded" listed_is 256
expect "the pod object still exists" Succeeded "$(kubectl get pod replica -o 'jsonpath={.status.phase}')"
stop "$nvidia"
bound last "$taken" 5
wait_for 30 "a pod of Tessera with a share of that GPU runs" pod_is last Running
check_agreement "records, containers and kubelet agree"
expect "the first pod keeps running to the end" "Running 1" "$(kubectl get pod ours -o 'jsonpath={.status.phase}') $(restarts ours)"
check "kubelet rejected no pod" prints_nothing rejected_pods

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
