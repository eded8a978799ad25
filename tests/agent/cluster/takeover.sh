#!/usr/bin/env bash
# tessera-agent replaces gpushare's plugin on a node, then the plugin replaces the agent, then back
# again. Pods that gpushare's plugin admitted keep running and can restart, the ledger counts them,
# and new pods do not get their memory. No pod ends at any of these steps.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD=kubelet-node-a

agent_cluster_start
extender_start

# gpushare's plugin has one device ID per GiB. It reports no health, and implements neither
# preferred IDs nor PreStartContainer.
mapfile -t gpus < <("$BIN/tessera" inventory --machine dgx1v --name node-a -o json |
  jq -r '.metadata.annotations["tessera.io/inventory"] | fromjson | .gpus[].uuid')
expect "the machine has 8 GPUs" 8 "${#gpus[@]}"
old_ids=$(for gpu in "${gpus[@]}"; do for ((i = 0; i < 32; i++)); do echo "$gpu-_-$i"; done; done)
old_plugin_start() { other_plugin_start aliyun.com/gpu-mem aliyungpushare.sock "$old_ids" "$S/tmp/env" && OLD_PID=$OTHER_PID; }
# old_pod NAME UNITS INDEX: creates a pod that gpushare's extender placed and gpushare's plugin
# served.
old_pod() {
  printf '%s\n' "NVIDIA_VISIBLE_DEVICES=$3" "ALIYUN_COM_GPU_MEM_IDX=$3" "ALIYUN_COM_GPU_MEM_POD=$2" \
    "ALIYUN_COM_GPU_MEM_CONTAINER=$2" ALIYUN_COM_GPU_MEM_DEV=32 >"$S/tmp/env"
  share "$1" "$2" '{"spec": {"schedulerName": "none"}}' | create
  bind_as_gpushare "$1" "$2" "$3"
  wait_for 30 "pod $1 of gpushare's plugin runs" pod_is "$1" Running
  kubectl annotate --overwrite pod "$1" ALIYUN_COM_GPU_MEM_ASSIGNED=true "ALIYUN_COM_GPU_MEM_ASSUME_TIME=$(date +%s%N)" >/dev/null
}
phases() { kubectl get pods -o json | jq -r '.items[] | select(.metadata.name | startswith("old")) | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount)"' | xargs; }
# used: the allocated units of each GPU, by index, according to the extender's ledger.
used() { ask "$EXTENDER_PORT" /gpushare-scheduler/inspect | jq -r '.nodes[] | select(.name == "node-a").devs | sort_by(.id) | map(.usedGPU) | join(" ")'; }
used_is() { [[ $(used) == "$1" ]]; }
pinned() { share "$1" "$2" "{\"metadata\": {\"annotations\": {\"tessera.io/gpu-uuids\": \"$3\"}}}"; }
not_placed() { kubectl get pod "$1" -o json | jq -e '.status.conditions[]? | select(.type == "PodScheduled" and .status == "False")' >/dev/null; }
also() { inventory '.also_served_as // [] | join(" ")'; }

old_plugin_start
wait_for 20 "gpushare's plugin offers 256 shares" allocatable_is aliyun.com/gpu-mem 256
# gpushare's plugin writes the number of GPUs into the node's status itself.
kubectl patch node node-a --subresource=status --type=merge -p '{"status":{"capacity":{"aliyun.com/gpu-count":"8"},"allocatable":{"aliyun.com/gpu-count":"8"}}}' >/dev/null
old_pod old1 20 3
old_pod old2 8 3
old_pod old3 32 5
old_pod old4 10 6
# A pod that no extender placed. gpushare's plugin sets the variable to an error text instead of a
# GPU, and kubelet allocates IDs of several GPUs.
printf '%s\n' NVIDIA_VISIBLE_DEVICES=no-gpu-has-40GiB-to-run ALIYUN_COM_GPU_MEM_IDX=-1 >"$S/tmp/env"
share lost 40 '{"spec": {"nodeName": "node-a"}}' | create
wait_for 30 "a pod that no extender placed is admitted" pod_is lost Running
expect "kubelet allocated IDs in the format of gpushare's plugin" 110 "$(checkpoint | jq '[.Data.PodDeviceEntries[].DeviceIDs[][] | select(contains("-_-"))] | length')"

# A container ends while no plugin runs. Then the agent takes over.
stop "$OLD_PID"
kill_container old4
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 20 "the agent offers 256 shares" allocatable_is aliyun.com/gpu-mem 256
wait_for 40 "a container that ended in the meantime runs again" restarted old4 1
expect "all other pods keep running" "old1 Running 0 old2 Running 0 old3 Running 0 old4 Running 1" "$(phases)"
kill_container old2
wait_for 40 "a container that ends now restarts" restarted old2 1
expect "it has the same environment as before" "3 3 8 8 32" "$(for name in NVIDIA_VISIBLE_DEVICES ALIYUN_COM_GPU_MEM_{IDX,POD,CONTAINER,DEV}; do sees old2 main "$name"; done | xargs)"
wait_for 10 "the ledger counts the pods of gpushare's plugin" used_is "0 0 0 28 0 32 10 0"
expect "all GPUs are healthy, and the inventory names no other plugin" " True AllGPUsHealthy" \
  "$(also) $(node '.status.conditions[] | select(.type == "GPUsHealthy") | "\(.status) \(.reason)"')"
kill_container lost
wait_for 40 "the pod that no extender placed restarts as well" restarted lost 1
kubectl delete pod lost --wait=false >/dev/null

# New pods get the memory that is free, and no more.
{
  pinned rest 4 "${gpus[3]}"
  pinned toomuch 1 "${gpus[5]}"
  for ((i = 1; i <= 5; i++)); do share "full$i" 32; done
} | create
for name in rest full1 full2 full3 full4 full5; do
  wait_for 40 "new pod $name runs" pod_is "$name" Running
done
wait_for 20 "a pod that requests the memory of a gpushare pod is not placed" not_placed toomuch
wait_for 10 "the ledger is full except for GPU 6" used_is "32 32 32 32 32 32 10 32"
share wide 23 | create
wait_for 20 "a pod that requests more than is free is not placed" not_placed wide
share narrow 22 | create
wait_for 40 "a pod that requests exactly what is free runs" pod_is narrow Running
expect "that pod is on GPU 6" "${gpus[6]}" "$(sees narrow)"
check_agreement "records, containers and kubelet agree"
expect "the pods of gpushare's plugin keep running" "old1 Running 0 old2 Running 1 old3 Running 0 old4 Running 1" "$(phases)"

# kubelet restarts, with device IDs of both formats in its checkpoint.
cluster restart kubelet-node-a >/dev/null
wait_for 30 "kubelet is ready after a restart" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the agent is ready again" agent_ready
kill_container old1
wait_for 40 "a container of a gpushare pod restarts" restarted old1 1
check "the ledger is the same as before" used_is "32 32 32 32 32 32 32 32"
kubectl delete pod old3 toomuch wide --wait=false >/dev/null
wait_for 20 "the memory of a gpushare pod is free when the pod ends" used_is "32 32 32 32 32 0 32 32"
pinned after 32 "${gpus[5]}" | create
wait_for 30 "a new pod gets that memory" pod_is after Running
expect "the new pod sees that GPU" "${gpus[5]}" "$(sees after)"

# Back to gpushare's plugin.
before=$(kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount) \(.metadata.uid)"')
stop "$AGENT_PID"
old_plugin_start
is_old() { [[ $(listed aliyun.com/gpu-mem) == "$(sort <<<"$old_ids")" ]]; }
wait_for 20 "kubelet has the IDs of gpushare's plugin again" is_old
wait_for 20 "the node offers them" allocatable_is aliyun.com/gpu-mem 256
expect "all pods keep running" "$before" "$(kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount) \(.metadata.uid)"')"
kill_container rest
wait_for 40 "a container that Tessera's agent served restarts" restarted rest 1
expect "it sees the same GPU as before" "${gpus[3]}" "$(sees rest)"
freed=$(kubectl get pod full1 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
kubectl delete pod full1 --wait=false >/dev/null
wait_for 20 "a pod that Tessera placed ends" is_gone pod full1
old_pod old5 3 "$freed"
check "kubelet rejected no pod" prints_nothing rejected_pods

# Back to Tessera, this time with both running for a while. kubelet uses the agent. When gpushare's
# plugin ends, the resource has no plugin until the agent registers again.
agent_start
wait_for 20 "the agent is ready while gpushare's plugin still runs" agent_ready
is_new() { [[ -n $(listed aliyun.com/gpu-mem) ]] && prints_nothing listed_with aliyun.com/gpu-mem -_-; }
wait_for 20 "kubelet has the agent's shares" is_new
stop "$OLD_PID"
wait_for 20 "the shares stay when gpushare's plugin ends" listed_is 256
wait_for 20 "kubelet offers 256 shares" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the agent is ready" agent_ready
check "all device IDs are the agent's" is_new
pinned more 29 "${gpus[$freed]}" | create
wait_for 30 "a new pod gets the memory that a gpushare pod left free" pod_is more Running
wait_for 10 "the ledger is full" used_is "32 32 32 32 32 32 32 32"
check_agreement "records, containers and kubelet agree"
check "kubelet rejected no pod to the end" prints_nothing rejected_pods

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
