#!/usr/bin/env bash
# A node on which the original gpushare plugin served: pods that it admitted run on and restart when tessera-agent takes over, the
# books count them, new pods do not get their memory; and nothing ends when the original plugin comes back.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD=kubelet-node-a

agent_cluster_start
extender_start

# The IDs of the original, one a GiB; it knows no health, no preferred IDs and nothing before a container starts.
mapfile -t gpus < <("$BIN/tessera" inventory --machine dgx1v --name node-a -o json |
  jq -r '.metadata.annotations["tessera.io/inventory"] | fromjson | .gpus[].uuid')
expect "the machine has 8 GPUs" 8 "${#gpus[@]}"
old_ids=$(for gpu in "${gpus[@]}"; do for ((i = 0; i < 32; i++)); do echo "$gpu-_-$i"; done; done)
old_plugin_start() { other_plugin_start aliyun.com/gpu-mem aliyungpushare.sock "$old_ids" "$S/tmp/env" && OLD_PID=$OTHER_PID; }
# old_pod NAME UNITS INDEX: placed by the original extender, served by the original plugin.
old_pod() {
  printf '%s\n' "NVIDIA_VISIBLE_DEVICES=$3" "ALIYUN_COM_GPU_MEM_IDX=$3" "ALIYUN_COM_GPU_MEM_POD=$2" \
    "ALIYUN_COM_GPU_MEM_CONTAINER=$2" ALIYUN_COM_GPU_MEM_DEV=32 >"$S/tmp/env"
  share "$1" "$2" '{"spec": {"schedulerName": "nobody"}}' | create
  bind_as_old "$1" "$2" "$3"
  wait_for 30 "pod $1 of the original plugin runs" pod_is "$1" Running
  kubectl annotate --overwrite pod "$1" ALIYUN_COM_GPU_MEM_ASSIGNED=true "ALIYUN_COM_GPU_MEM_ASSUME_TIME=$(date +%s%N)" >/dev/null
}
phases() { kubectl get pods -o json | jq -r '.items[] | select(.metadata.name | startswith("old")) | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount)"' | xargs; }
# used: units by index, as the extender's books have them; most_is the same with as much as is to be seen in any GPU.
used() { ask "$EXTENDER_PORT" /gpushare-scheduler/inspect | jq -r '.nodes[] | select(.name == "node-a").devs | sort_by(.id) | map(.usedGPU) | join(" ")'; }
used_is() { [[ $(used) == "$1" ]]; }
pinned() { share "$1" "$2" "{\"metadata\": {\"annotations\": {\"tessera.io/gpu-uuids\": \"$3\"}}}"; }
not_placed() { kubectl get pod "$1" -o json | jq -e '.status.conditions[]? | select(.type == "PodScheduled" and .status == "False")' >/dev/null; }
also() { inventory '.also_served_as // [] | join(" ")'; }

old_plugin_start
wait_for 20 "the original plugin has 256 shares" allocatable_is aliyun.com/gpu-mem 256
# It writes the number of GPUs into the node's status by hand.
kubectl patch node node-a --subresource=status --type=merge -p '{"status":{"capacity":{"aliyun.com/gpu-count":"8"},"allocatable":{"aliyun.com/gpu-count":"8"}}}' >/dev/null
old_pod old1 20 3
old_pod old2 8 3
old_pod old3 32 5
old_pod old4 10 6
# One that no scheduler placed: the original gives it a word instead of a GPU, and kubelet IDs of all GPUs.
printf '%s\n' NVIDIA_VISIBLE_DEVICES=no-gpu-has-40GiB-to-run ALIYUN_COM_GPU_MEM_IDX=-1 >"$S/tmp/env"
share lost 40 '{"spec": {"nodeName": "node-a"}}' | create
wait_for 30 "a pod that nobody placed is admitted" pod_is lost Running
expect "kubelet gave IDs of the original's form" 110 "$(checkpoint | jq '[.Data.PodDeviceEntries[].DeviceIDs[][] | select(contains("-_-"))] | length')"

# One container restarts while nobody serves; then the agent takes over.
stop "$OLD_PID"
kill_container old4
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 20 "and has 256 shares" allocatable_is aliyun.com/gpu-mem 256
wait_for 40 "a container that ended meanwhile runs again" restarted old4 1
expect "all others run on" "old1 Running 0 old2 Running 0 old3 Running 0 old4 Running 1" "$(phases)"
kill_container old2
wait_for 40 "a container that ends now starts again" restarted old2 1
expect "and sees what it saw" "3 3 8 8 32" "$(for name in NVIDIA_VISIBLE_DEVICES ALIYUN_COM_GPU_MEM_{IDX,POD,CONTAINER,DEV}; do sees old2 main "$name"; done | xargs)"
wait_for 10 "the books count them" used_is "0 0 0 28 0 32 10 0"
expect "no GPU is taken for ill, and no plugin for one that is there" " True AllGPUsHealthy" \
  "$(also) $(node '.status.conditions[] | select(.type == "GPUsHealthy") | "\(.status) \(.reason)"')"
kill_container lost
wait_for 40 "the pod that nobody placed starts again, too" restarted lost 1
kubectl delete pod lost --wait=false >/dev/null

# New pods get what is left and not one unit more.
{
  pinned rest 4 "${gpus[3]}"
  pinned toomuch 1 "${gpus[5]}"
  for ((i = 1; i <= 5; i++)); do share "full$i" 32; done
} | create
for name in rest full1 full2 full3 full4 full5; do
  wait_for 40 "new pod $name runs" pod_is "$name" Running
done
wait_for 20 "one that wants the memory of an old pod waits" not_placed toomuch
wait_for 10 "the books are full but for GPU 6" used_is "32 32 32 32 32 32 10 32"
share wide 23 | create
wait_for 20 "more than is left is not placed" not_placed wide
share narrow 22 | create
wait_for 40 "what is left is" pod_is narrow Running
expect "on GPU 6" "${gpus[6]}" "$(sees narrow)"
check_agreement "records, containers and kubelet agree"
expect "old pods run on" "old1 Running 0 old2 Running 1 old3 Running 0 old4 Running 1" "$(phases)"

# kubelet starts again, with IDs of both kinds in its file.
cluster restart kubelet-node-a >/dev/null
wait_for 30 "kubelet is back" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the agent is ready again" agent_ready
kill_container old1
wait_for 40 "a container of an old pod starts again" restarted old1 1
check "the books are as before" used_is "32 32 32 32 32 32 32 32"
kubectl delete pod old3 toomuch wide --wait=false >/dev/null
wait_for 20 "what an old pod had is free when it ends" used_is "32 32 32 32 32 0 32 32"
pinned after 32 "${gpus[5]}" | create
wait_for 30 "and a new one gets it" pod_is after Running
expect "and sees it" "${gpus[5]}" "$(sees after)"

# Back to the original plugin.
before=$(kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount) \(.metadata.uid)"')
stop "$AGENT_PID"
old_plugin_start
is_old() { [[ $(listed aliyun.com/gpu-mem) == "$(sort <<<"$old_ids")" ]]; }
wait_for 20 "kubelet has the original's IDs again" is_old
wait_for 20 "and offers them" allocatable_is aliyun.com/gpu-mem 256
expect "all pods run on" "$before" "$(kubectl get pods -o json | jq -r '.items[] | "\(.metadata.name) \(.status.phase) \(.status.containerStatuses[0].restartCount) \(.metadata.uid)"')"
kill_container rest
wait_for 40 "a container that Tessera served starts again" restarted rest 1
expect "and sees what it saw" "${gpus[3]}" "$(sees rest)"
freed=$(kubectl get pod full1 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
kubectl delete pod full1 --wait=false >/dev/null
gone() { ! kubectl get pod full1 >/dev/null 2>&1; }
wait_for 20 "a pod of Tessera ends" gone
old_pod old5 3 "$freed"
expect "no pod was refused" "" "$(kubectl get pods --field-selector status.phase=Failed -o name)"

# And to Tessera once more, this time with both for a while: kubelet takes the agent, and has nobody for a moment when the original
# ends, until the agent registers again.
agent_start
wait_for 20 "the agent is ready beside the original plugin" agent_ready
is_new() { [[ -n $(listed aliyun.com/gpu-mem) && -z $(listed aliyun.com/gpu-mem | grep -F -e -_- || true) ]]; }
wait_for 20 "kubelet has the agent's shares" is_new
stop "$OLD_PID"
wait_for 20 "the original plugin's end takes nothing away" listed_is 256
wait_for 20 "kubelet offers 256 shares" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the agent is ready" agent_ready
expect "whose they are" "" "$(listed aliyun.com/gpu-mem | grep -F -e -_- || true)"
pinned more 29 "${gpus[$freed]}" | create
wait_for 30 "a new pod gets what a pod of the original plugin left" pod_is more Running
wait_for 10 "the books are full" used_is "32 32 32 32 32 32 32 32"
check_agreement "records, containers and kubelet agree"
expect "no pod was refused in all this" "" "$(kubectl get pods --field-selector status.phase=Failed -o name)"

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
