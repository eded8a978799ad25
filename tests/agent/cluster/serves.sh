#!/usr/bin/env bash
# Under a real kubelet every container sees what was decided for its pod, and kubelet's own books say the same; through
# restarts of the agent and of kubelet, and while a GPU is ill. Pods that nobody decided wait and are told why.
# K8S=1.33 runs it under a kubelet without podresources Get.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD=kubelet-node-a

agent_cluster_start
extender_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256
expect "and 8 GPUs" "8 8" "$(allocatable aliyun.com/gpu) $(allocatable aliyun.com/gpu-count)"

# Every kind of pod.
{
  share shared 6
  whole whole 1
  whole several 2
  whole counted 1 aliyun.com/gpu-count
  share split 8 '{"metadata": {"labels": {"aliyun.com/gpu-count": "2"}}}'
  pod containers '[{"name":"prepare","init":true,"limits":{"aliyun.com/gpu-mem":"5"}},
    {"name":"one","limits":{"aliyun.com/gpu-mem":"3"}}, {"name":"two","limits":{"aliyun.com/gpu-mem":"4"}}, {"name":"plain"}]'
  pod mixed '[{"name":"main","limits":{"aliyun.com/gpu-mem":"2"}}, {"name":"side","limits":{"aliyun.com/gpu":"1"}}]'
  share undecided 3 '{"spec": {"nodeName": "node-a"}}'
} | create
wait_for 40 "all decided pods run" all_running 7
check_agreement "records, containers and kubelet agree"
expect "a share tells its GPU's index" "$(kubectl get pod shared -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')" \
  "$(sees shared main ALIYUN_COM_GPU_MEM_IDX)"
expect "each container has its own share" "5 3 4" "$(for c in prepare one two; do sees containers "$c" ALIYUN_COM_GPU_MEM_CONTAINER; done | xargs)"
expect "two whole GPUs are two" 2 "$(sees several | tr ',' '\n' | sort -u | wc -l)"
waits() { kubectl get pod undecided -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -q schedulerName; }
wait_for 20 "an undecided pod waits, and says what to do" waits
told() { kubectl get events --field-selector involvedObject.name=undecided,reason=GpuUndecided -o name | grep -q .; }
wait_for 10 "an Event says it too" told

# The agent dies; a container that restarts meanwhile waits for it and comes back as it was.
before=$(sees shared)
stop "$AGENT_PID" KILL
kill_container shared
agent_start
wait_for 20 "the agent is back" agent_ready
started_again() { [[ $(kubectl get pod shared -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "1 true" ]]; }
wait_for 40 "the container has started again" started_again
share after 6 | create
wait_for 20 "a new pod runs" pod_is after Running
expect "others run on" Running "$(kubectl get pod several -o 'jsonpath={.status.phase}')"
check_agreement "all agree after a restart of the agent"
expect "a container sees the same as before" "$before" "$(sees shared)"

# kubelet restarts, with pods bound just then.
cluster restart kubelet-node-a >/dev/null
{ share r1 4; share r2 4; share r3 4; whole r4 1; } | create
# Without Get, equal pods that a starting kubelet takes in an order of its own may be mixed up: their records are put right.
for name in r1 r2 r3 r4; do
  wait_for 40 "$name, bound while kubelet restarts, runs" pod_is "$name" Running
done
check_agreement "all agree after a restart of kubelet"

# A pod that an old scheduler placed: by index, and waiting for the plugin to say that it took it.
index=$(kubectl get pod r1 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
share old 3 '{"spec": {"schedulerName": "nobody"}}' | create
bind_as_old old 3 "$index"
wait_for 20 "a pod of an old scheduler runs" pod_is old Running
assigned() { [[ $(kubectl get pod old -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_ASSIGNED}') == true ]]; }
wait_for 10 "and is told to be assigned" assigned
expect "with a record by UUID" "$(record r1 | jq -r '.containers.main[0].gpu')" "$(record old | jq -r '.containers.main[0].gpu')"
check_agreement "and all agree"

# A GPU falls ill: all its shares do, and nothing else; then it recovers.
echo 'gpus: {7: {lost: true}}' >"$GPUS/control.yaml"
wait_for 10 "a lost GPU takes its 32 shares with it" allocatable_is aliyun.com/gpu-mem 224
wait_for 5 "and itself" allocatable_is aliyun.com/gpu 7
echo '{}' >"$GPUS/control.yaml"
wait_for 20 "and comes back" allocatable_is aliyun.com/gpu-mem 256

# Whole GPUs under NVIDIA's name. The scheduler does not know that name as ours, so the extender is asked to bind.
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods go" no_pods
stop "$AGENT_PID"
stop "$EXTENDER_PID"
extender_start --resource-whole nvidia.com/gpu
agent_start --resource-whole nvidia.com/gpu
wait_for 20 "the agent serves nvidia.com/gpu" allocatable_is nvidia.com/gpu 8
whole renamed 2 nvidia.com/gpu | jq -c '.spec.schedulerName = "nobody"' | create
bound=$(kubectl get pod renamed -o json | jq -c '{PodName: .metadata.name, PodNamespace: .metadata.namespace, PodUID: .metadata.uid, Node: "node-a"}' |
  (in_cluster_network curl -sS --max-time 12 -d @- "http://127.0.0.1:$EXTENDER_PORT/gpushare-scheduler/bind"))
expect "a pod that asks for nvidia.com/gpu is bound" '{"Error":""}' "$bound"
wait_for 20 "and runs" pod_is renamed Running
check_agreement "with the GPUs decided for it"

stop "$AGENT_PID"
gone() { [[ $(allocatable aliyun.com/gpu-mem) == 0 ]]; }
wait_for 10 "an agent that ends in order leaves no devices behind" gone
stop "$EXTENDER_PID"
finish
