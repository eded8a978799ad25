#!/usr/bin/env bash
# What `tessera why`, `check`, `top` and `inspect` say when something is broken, with a real kubelet,
# kube-scheduler, extender and agent:
#   - a container uses more GPU memory than it requested, and its GPU is lost
#   - the driver hangs
#   - a pod sets nodeName
#   - there is no agent: pods wait, and kubelet refuses a pod that was bound
set -euo pipefail
# shellcheck source=../../agent/cluster/lib.sh
source "$(dirname "$0")/../../agent/cluster/lib.sh"

CLI=${TESSERA_CLI:-$(dirname "${TESSERA_AGENT:-$root/build/dev/bin/tessera-agent}")/tessera}
[[ -x $CLI ]] || { say "$TEST_NAME: skipped: $CLI is not built" && exit 77; }

agent_cluster_start
extender_start
# The commands reach the agent through the API server and a pod with the agent's labels. The pod has
# the network of the node, and is ready if the agent is.
export LISTEN_ON=0.0.0.0
agent_start --sample-every 1s
wait_or_finish 20 "the agent is ready" agent_ready
kubectl label node node-a gpushare=true >/dev/null
jq -cn --argjson port "$AGENT_PORT" '{apiVersion: "apps/v1", kind: "DaemonSet", metadata: {name: "tessera-agent"},
  spec: {selector: {matchLabels: {"app.kubernetes.io/component": "agent"}}, template: {
    metadata: {labels: {"app.kubernetes.io/name": "tessera", "app.kubernetes.io/component": "agent"}},
    spec: {hostNetwork: true, nodeSelector: {gpushare: "true"}, terminationGracePeriodSeconds: 0,
      containers: [{name: "agent", image: "tessera.local/busybox:1", command: ["sleep", "100000"],
        ports: [{name: "metrics", containerPort: $port}],
        readinessProbe: {httpGet: {path: "/readyz", port: $port}, periodSeconds: 1, failureThreshold: 1}}]}}}}' |
  kubectl create -f - >/dev/null
agent_pods() { kubectl get daemonset tessera-agent -o 'jsonpath={.status.numberReady} {.status.desiredNumberScheduled}'; }
agent_pods_are() { [[ $(agent_pods) == "$1" ]]; }
wait_or_finish 40 "the agent's pod is ready" agent_pods_are "1 1"

KUBECONFIG_FILE=$(cluster kubeconfig)
# tessera ARGUMENTS...: prints the output and the warnings.
# tessera_code ARGUMENTS...: prints the exit code.
tessera() { KUBECONFIG=$KUBECONFIG_FILE "$CLI" "$@" 2>&1 || true; }
tessera_code() { KUBECONFIG=$KUBECONFIG_FILE "$CLI" "$@" >/dev/null 2>&1 && echo 0 || echo $?; }
# says TEXT ARGUMENTS...: whether the output of the command contains TEXT.
says() { local text=$1 && shift && tessera "$@" | grep -qF -- "$text"; }
# finds KIND TEXT: whether check has a finding of this kind with TEXT in it.
finds() {
  { KUBECONFIG=$KUBECONFIG_FILE "$CLI" check -o json || true; } |
    jq -e --arg kind "$1" --arg text "$2" 'any(.findings[]; .kind == $kind and (.text | contains($text)))' >/dev/null
}
# never_says WHAT TEXT ARGUMENTS...: checks that the command prints something, but not TEXT.
never_says() {
  local what=$1 text=$2 out
  shift 2
  out=$(tessera "$@")
  if [[ -n $out && $out != *"$text"* ]]; then pass "$what"; else fail "$what" "$out"; fi
}

share greedy 3 | create
wait_or_finish 40 "a pod with a share runs" pod_is greedy Running
# no_errors: whether check finds none. It has a note, because the extender has no pod here.
no_errors() { [[ $(tessera_code check) == 0 ]]; }
try_wait_for 20 "before anything breaks, check has no errors" no_errors || tessera check
expect_match "why names the GPU of a pod that runs" 'it is on node node-a, GPU [0-9] \(3 GiB\)\.$' "$(tessera why greedy)"

# Too much memory is used.
pid_of() {
  local id
  id=$(kubectl get pod "$1" -o 'jsonpath={.status.containerStatuses[0].containerID}')
  (in_cluster node-a ctr -n k8s.io task ls 2>/dev/null) | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}
gpu=$(sees greedy main ALIYUN_COM_GPU_MEM_IDX)
control "gpus: {$gpu: {processes: [{pid: $(pid_of greedy), memory_mib: 5018}]}}"
overuse="container main uses 4.9 GiB of GPU $gpu, but its share is 3.0 GiB"
wait_for 20 "why reports a container that uses more memory than it requested" says "But $overuse" why greedy
check "check reports it" finds memory_exceeded "pod default/greedy on node node-a: $overuse"
expect "the exit code of check is 3" 3 "$(tessera_code check)"
check "top pod marks it" says "$overuse" top pod

# The GPU of a running pod is lost.
control "gpus: {$gpu: {lost: true}}"
wait_for 20 "why reports a running pod whose GPU is lost" says "But GPU $gpu is unhealthy" why greedy
check "why says what to do" says "delete the pod so that it is placed on another GPU" why greedy
check "top pod marks the pod" says "GPU $gpu is unhealthy" top pod
expect "the exit code of check is 3" 3 "$(tessera_code check)"
control '{}'
wait_for 20 "the GPU recovers" condition_is "True AllGPUsHealthy"
wait_for 20 "check has no errors again" no_errors

# The driver hangs.
control 'hang: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo]'
wait_for 30 "check reports a driver that hangs" finds driver_hangs "node node-a: the NVIDIA driver hangs"
expect "the condition of the node is False" False "$(node '.status.conditions[] | select(.type == "GPUsHealthy").status')"
expect "the exit code of check is 3" 3 "$(tessera_code check)"
check "top node marks the node" says "ready,DriverHangs" top node
check "inspect marks it" says "the NVIDIA driver hangs" inspect gpushare
share late 3 | create
check "why names the driver" says "the NVIDIA driver hangs" why late
never_says "why does not say that the pod fits" "fits now on" why late
kubectl delete pod late >/dev/null
control '{}'
wait_for 30 "the driver recovers" condition_is "True AllGPUsHealthy"
wait_for 30 "check has no errors again" no_errors

# A pod sets nodeName. Its schedulerName is right.
share pinned 3 '{"spec": {"nodeName": "node-a"}}' | create
advice="pod default/pinned sets nodeName: node-a, which bypasses the scheduler"
wait_for 20 "why reports that a pod sets nodeName" says "$advice" why pinned
check "why says what to do" says "create it again without nodeName; to choose the node, use nodeSelector" why pinned
check "check reports the pod" finds undecided "$advice"
never_says "check does not blame the scheduler" not_wired check
kubectl delete pod pinned >/dev/null
# A scheduler that does not call the extender binds a pod: that is not nodeName.
share stray 3 '{"spec": {"schedulerName": "other"}}' | create
jq -cn '{apiVersion: "v1", kind: "Binding", metadata: {name: "stray"}, target: {kind: "Node", name: "node-a"}}' |
  kubectl create --raw /api/v1/namespaces/default/pods/stray/binding -f - >/dev/null
wait_for 20 "a pod of another scheduler is told apart" says "the scheduler other does not call Tessera" why stray
kubectl delete pod stray >/dev/null

# No agent: the label was removed, and the agent has ended.
kubectl label node node-a gpushare- >/dev/null
stop "$AGENT_PID"
wait_for 30 "the agent's pod is gone" agent_pods_are "0 0"
wait_for 30 "kubelet offers no shares" allocatable_is aliyun.com/gpu-mem 0
share late 3 | create
insufficient() { kubectl get pod late -o json | jq -e '.status.conditions[]? | select(.message // "" | contains("nsufficient aliyun.com/gpu-mem"))' >/dev/null; }
wait_for 20 "kube-scheduler does not place a pod" insufficient
none="no agent serves its GPUs"
check "why names the missing agent" says "$none" why late
check "why says what to do" says "kubectl label node node-a gpushare=true" why late
never_says "why does not say that the pod fits" "fits now on" why late
check "the list of waiting pods names it too" says "node-a: $none" why
check "why explains what happens to a running pod" says "But on node node-a, $none" why greedy
check "check reports it" finds no_agent "node node-a: $none"
check "top node marks the node" says "ready,NoAgent" top node
check "top node does not count its memory" says "0/0 (GiB)" top node
check "inspect warns" says "warning: node node-a: $none" inspect gpushare

# kubelet refuses a pod that is bound now.
share refused 3 '{"spec": {"schedulerName": "none"}}' | create
bind_as_gpushare refused 3 0
wait_for 20 "kubelet refuses a pod" pod_is refused Failed
refusal="default/refused will never run: kubelet on node node-a refused it (UnexpectedAdmissionError"
check "why says what happened" says "$refusal" why refused
check "why says the cause" says "Cause: no agent was registered with kubelet at that moment" why refused
check "why says what to do" says "run kubectl delete pod refused -n default, and create the pod again" why refused
jq -cn '{apiVersion: "batch/v1", kind: "Job", metadata: {name: "train"}, spec: {template: {spec: {restartPolicy: "Never",
  containers: [{name: "main", image: "tessera.local/busybox:1", resources: {limits: {"aliyun.com/gpu-mem": "3"}}}]}}}}' |
  kubectl create -f - >/dev/null
wait_for 20 "why explains the pods of a Job" says "job default/train: 1 of 1 pod waits." why job/train
kubectl delete job train >/dev/null

# The agent is back.
agent_start --sample-every 1s
kubectl label node node-a gpushare=true >/dev/null
wait_for 40 "with an agent, the pod runs" pod_is late Running
wait_for 40 "check has no errors again" no_errors
stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
