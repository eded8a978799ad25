#!/usr/bin/env bash
# Under a real kubelet, every container sees the GPUs that the extender chose for its pod, and
# kubelet's checkpoint agrees. This also holds after restarts of the agent and of kubelet, and while
# a GPU is unhealthy. Pods for which no GPU was chosen do not start, and their status says why.
# K8S=1.33 runs the test under a kubelet without podresources Get.
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
expect "the node has 8 GPUs, under both names" "8 8" "$(allocatable aliyun.com/gpu) $(allocatable aliyun.com/gpu-count)"

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
wait_for 40 "all pods that the extender placed run" all_running 7
check_agreement "records, containers and kubelet agree"
expect "the environment has the index of the GPU" "$(kubectl get pod shared -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')" \
  "$(sees shared main ALIYUN_COM_GPU_MEM_IDX)"
expect "each container has its own share" "5 3 4" "$(for c in prepare one two; do sees containers "$c" ALIYUN_COM_GPU_MEM_CONTAINER; done | xargs)"
expect "a pod with two whole GPUs sees two GPUs" 2 "$(sees several | tr ',' '\n' | sort -u | wc -l)"
waits() { kubectl get pod undecided -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -q schedulerName; }
wait_for 20 "a pod without a chosen GPU does not start, and its status says what to do" waits
reports_undecided() { kubectl get events --field-selector involvedObject.name=undecided,reason=GpuUndecided -o name | grep -q .; }
wait_for 10 "an Event says it as well" reports_undecided

# The agent is killed. A container that ends in the meantime waits for the new agent, and then
# starts with the same GPU.
before=$(sees shared)
count_fault kill-agent
stop "$AGENT_PID" KILL
kill_container shared
agent_start
wait_for 20 "the agent is ready after it was killed" agent_ready
started_again() { [[ $(kubectl get pod shared -o 'jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}') == "1 true" ]]; }
wait_for 40 "a container that ended in the meantime runs again" started_again
share after 6 | create
wait_for 20 "a new pod runs" pod_is after Running
expect "other pods keep running" Running "$(kubectl get pod several -o 'jsonpath={.status.phase}')"
check_agreement "records, containers and kubelet agree after a restart of the agent"
expect "the restarted container sees the same GPU as before" "$before" "$(sees shared)"

# kubelet restarts, and pods are bound at the same time.
count_fault restart-kubelet
cluster restart kubelet-node-a >/dev/null
{ share r1 4; share r2 4; share r3 4; whole r4 1; } | create
# A kubelet that starts admits pods in its own order. Without podresources Get, the agent may
# confuse pods of equal size, and then corrects their records.
for name in r1 r2 r3 r4; do
  wait_for 40 "pod $name, bound while kubelet restarts, runs" pod_is "$name" Running
done
check_agreement "records, containers and kubelet agree after a restart of kubelet"

# A pod that gpushare's extender placed: the annotations name the GPU by index, and ASSIGNED is
# "false" until the device plugin has served the pod.
index=$(kubectl get pod r1 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
share old 3 '{"spec": {"schedulerName": "none"}}' | create
bind_as_gpushare old 3 "$index"
wait_for 20 "a pod placed by gpushare's extender runs" pod_is old Running
assigned() { [[ $(kubectl get pod old -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_ASSIGNED}') == true ]]; }
wait_for 10 "its annotation ASSIGNED becomes true" assigned
expect "its record names the GPU by UUID" "$(record r1 | jq -r '.containers.main[0].gpu')" "$(record old | jq -r '.containers.main[0].gpu')"
check_agreement "records, containers and kubelet agree with that pod"

# When a GPU is lost, all its shares are unhealthy and no others. Then it recovers.
count_fault lose-gpu
echo 'gpus: {7: {lost: true}}' >"$GPUS/control.yaml"
wait_for 10 "a lost GPU makes its 32 shares unavailable" allocatable_is aliyun.com/gpu-mem 224
wait_for 5 "the lost GPU is not offered as a whole GPU" allocatable_is aliyun.com/gpu 7
echo '{}' >"$GPUS/control.yaml"
wait_for 20 "the shares are offered again when the GPU answers" allocatable_is aliyun.com/gpu-mem 256

# Whole GPUs under the name nvidia.com/gpu. The scheduler's configuration does not list that
# resource, so the test calls the extender's bind itself.
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone" no_pods
stop "$AGENT_PID"
stop "$EXTENDER_PID"
extender_start --resource-whole nvidia.com/gpu
agent_start --resource-whole nvidia.com/gpu
wait_for 20 "the agent serves nvidia.com/gpu" allocatable_is nvidia.com/gpu 8
whole renamed 2 nvidia.com/gpu | jq -c '.spec.schedulerName = "none"' | create
# The extender refuses binds until the new agent has withdrawn the old one's tessera.io/draining, so
# the test tries again, as kube-scheduler does.
bind_renamed() {
  kubectl get pod renamed -o json | jq -c '{PodName: .metadata.name, PodNamespace: .metadata.namespace, PodUID: .metadata.uid, Node: "node-a"}' |
    (in_cluster_network curl -sS --max-time 12 -d @- "http://127.0.0.1:$EXTENDER_PORT/gpushare-scheduler/bind") >"$S/bound"
  [[ $(<"$S/bound") == '{"Error":""}' ]] || { cat "$S/bound" >&2; return 1; }
}
wait_for 10 "the extender binds a pod that requests nvidia.com/gpu" bind_renamed
wait_for 20 "that pod runs" pod_is renamed Running
check_agreement "it has the GPUs that the extender chose"

stop "$AGENT_PID"
gone() { [[ $(allocatable aliyun.com/gpu-mem) == 0 ]]; }
wait_for 10 "after SIGTERM, the agent leaves no allocatable devices" gone
stop "$EXTENDER_PID"
finish
