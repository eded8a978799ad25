#!/usr/bin/env bash
# What an agent reports to a real cluster:
#   - the node's inventory and labels
#   - a GPU that becomes unhealthy and recovers: to kubelet within a second, in Events, in the
#     condition and in the ConfigMap
#   - the memory that each container uses (found by the cgroup of a real container's process), and
#     the eviction of a pod that uses too much
# Also checks that the agent still answers while a driver call hangs.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start
agent_start --sample-every 1s
wait_or_finish 20 "the agent is ready" agent_ready

label_is() { [[ $(node ".metadata.labels[\"$1\"]") == "$2" ]]; }
wait_for 10 "a label names the GPU model" label_is nvidia.com/gpu.product Tesla-V100-SXM2-32GB
expect "a label has the number of GPUs" 8 "$(node '.metadata.labels["nvidia.com/gpu.count"]')"
expect "the inventory lists all GPUs" 8 "$(node '.metadata.annotations["tessera.io/inventory"] | fromjson | .gpus | length')"
expect "the annotations for the topology scheduler list all links" 28 "$(node '[.metadata.annotations | keys[] | select(startswith("GSOC_DEV_"))] | length')"

config_map_lists() { [[ $(kubectl -n kube-system get configmap unhealthy-gpu-node-a -o 'jsonpath={.data.gpus}' 2>/dev/null) == "$1" ]]; }
wait_for 10 "the condition reports all GPUs as healthy" condition_is "True AllGPUsHealthy"
# within_a_second WHAT COUNT: checks that kubelet knows COUNT healthy shares within a second after
# control().
within_a_second() {
  local took
  try_wait_for 10 "$1" listed_is "$2" || return 0
  took=$(kubelet_delay_ms)
  if ((took < 1000)); then pass "within one second ($took ms)"; else fail "within one second" "it took $took ms"; fi
}
control 'gpus: {7: {lost: true}}'
within_a_second "kubelet loses the shares of a lost GPU" 224
wait_for 10 "the condition reports the lost GPU" condition_is "False GPUUnhealthy"
wait_for 10 "an Event on the node reports the lost GPU" has_event node-a GpuUnhealthy
wait_for 10 "the ConfigMap for the extender of gpushare lists the lost GPU" config_map_lists 7
control '{}'
within_a_second "kubelet gets the shares back when the GPU answers again" 256
wait_for 20 "the condition reports all GPUs as healthy again" condition_is "True AllGPUsHealthy"
wait_for 10 "the ConfigMap is deleted" is_gone configmap unhealthy-gpu-node-a kube-system

# After a fatal XID, all shares of that GPU are unhealthy and no others, until the driver no longer
# requests a reset. An XID that a program caused (13) has no effect.
control $'gpus: {3: {recovery_action: reset}}\nevents: [{gpu: 3, xid: 79}, {gpu: 4, xid: 13}]'
within_a_second "kubelet loses the shares of a GPU with a fatal XID" 224
third=$(inventory '.gpus[] | select(.index == 3).uuid')
expect_match "one GPU has index 3" '^GPU-' "$third"
check "all shares of that GPU are unhealthy" prints_nothing listed_with aliyun.com/gpu-mem "$(tag "$third")-"
wait_for 10 "an Event on the node names the XID" has_event node-a GpuUnhealthy "XID 79"
expect "an XID that a program caused does not make a GPU unhealthy" "$third" "$(inventory '.gpus[] | select(.unhealthy).uuid')"
control 'events: [{gpu: 3, xid: 79}, {gpu: 4, xid: 13}]'
wait_for 10 "kubelet gets the shares back when the driver requests no recovery" listed_is 256
say "      after $(kubelet_delay_ms) ms; the agent waits 2 s after the last XID"
wait_for 10 "an Event reports that the GPU is healthy" has_event node-a GpuHealthy "$third"
expect "one fault is one Event: neither its consequences nor another call of the driver repeat it" "1 1" \
  "$(events node-a GpuUnhealthy | grep -c 'is not offered.*XID 79') $(events node-a GpuUnhealthy | grep -c 'is not offered.*GPU is lost')"
expect "kubelet never received only some shares of a GPU" "224 256" \
  "$(sed -n 's/.* device list changed resource=aliyun.com\/gpu-mem .*healthy=\([0-9]*\).*/\1/p' "$S/agent-node-a.log" | sort -u | xargs)"

# The agent keeps labels that other clients set, and writes its own annotations again.
kubectl label node node-a nvidia.com/gpu.product=theirs --overwrite >/dev/null
kubectl annotate node node-a tessera.io/inventory- >/dev/null
restored() { [[ $(node '.metadata.annotations["tessera.io/inventory"] // "" | length') -gt 100 ]]; }
wait_for 80 "a deleted inventory is written again" restored
expect "the agent keeps a label value that another client set" theirs "$(node '.metadata.labels["nvidia.com/gpu.product"]')"

# The driver reports 4 GiB for a process of container main, which requested 3. Container side uses
# less than its share.
pod greedy '[{"name":"main","limits":{"aliyun.com/gpu-mem":"3"}}, {"name":"side","limits":{"aliyun.com/gpu-mem":"2"}}]' | create
wait_for 40 "a pod with two containers runs" pod_is greedy Running
# pid_of POD CONTAINER: the PID of the container's first process, as the agent sees it.
pid_of() {
  local id
  id=$(kubectl get pod "$1" -o json | jq -r --arg name "$2" '.status.containerStatuses[] | select(.name == $name) | .containerID')
  (in_cluster node-a ctr -n k8s.io task ls 2>/dev/null) | awk -v id="${id#containerd://}" '$1 == id { print $2 }'
}
gpu=$(sees greedy main ALIYUN_COM_GPU_MEM_IDX)
control "gpus: {$gpu: {processes: [{pid: $(pid_of greedy main), memory_mib: 4096, busy_percent: 60}, {pid: $(pid_of greedy side), memory_mib: 1024}]}}"
metric() { ask "$AGENT_PORT" /metrics | awk -v name="$1" -v labels="$2" 'index($1, name "{") == 1 && index($0, labels) { print $NF }'; }
uses() { [[ $(metric tessera_container_gpu_memory_used_bytes "container=\"$1\"") == "$2" ]]; }
wait_for 10 "a metric has the memory that container main uses" uses main 4294967296
expect "a metric has the memory that container side uses" 1073741824 "$(metric tessera_container_gpu_memory_used_bytes 'container="side"')"
expect "a metric has the memory allocated to container main" 3221225472 "$(metric tessera_container_gpu_memory_allocated_bytes 'container="main"')"
expect "a metric marks only container main as above its request" "1 0" "$(for c in main side; do metric tessera_container_gpu_memory_exceeded "container=\"$c\""; done | xargs)"
expect "a metric has the share of time in which container main kept the GPU busy" 0.6 "$(metric tessera_container_gpu_utilization_ratio 'container="main"')"
wait_for 10 "an Event on the pod reports the exceeded request" has_event greedy GpuMemoryExceeded
expect "the pod keeps running" Running "$(kubectl get pod greedy -o 'jsonpath={.status.phase}')"
expect "/allocations lists both containers" "main side" \
  "$(ask "$AGENT_PORT" /allocations | jq -r '[.allocations[] | select(.pod == "greedy") | .container] | join(" ")')"

# The same with the policy evict. The pod stays while a disruption budget protects it.
kubectl label pod greedy app=greedy >/dev/null
kubectl create pdb keep --selector=app=greedy --min-available=1 >/dev/null
budget() { [[ $(kubectl get pdb keep -o 'jsonpath={.status.expectedPods} {.status.disruptionsAllowed}') == "1 0" ]]; }
wait_for 20 "a disruption budget protects the pod" budget
stop "$AGENT_PID"
agent_start --sample-every 1s --memory-policy evict --memory-grace 2s
wait_for 30 "an Event reports that the budget prevents the eviction" has_event greedy GpuMemoryEvictionRefused "disruption budget"
expect "the protected pod keeps running" Running "$(kubectl get pod greedy -o 'jsonpath={.status.phase}')"
kubectl delete pdb keep >/dev/null
wait_for 30 "without the budget, the pod that exceeds its request is evicted" is_gone pod greedy
wait_for 10 "an Event gives the reason of the eviction" has_event greedy GpuMemoryEvicted "uses 4.0GiB"

# The example that fills its share, on the simulated machine of this test.
control ''
# shellcheck disable=SC2154 # lib.sh sets root
sed "s#path: /run/tessera,#path: $GPUS,#; s#/demo/sim#/demo#" "$root/deploy/examples/gpu-player-simulated.yaml" | kubectl create -f - >/dev/null
players_use() { [[ $(metric tessera_container_gpu_memory_used_bytes 'container="player"' | paste -sd' ') == "$1" ]]; }
wait_for 60 "metrics show that both pods of the example fill their shares of 3 GiB" players_use "3221225472 3221225472"
expect_match "its log shows the memory that it uses" 'uses 3072 of 3072 MiB of GPU [0-7] .GPU-' "$(kubectl logs -l app=gpu-player --tail=1)"
kubectl delete deployment gpu-player --cascade=foreground --wait=true >/dev/null
expect "a player that ended leaves no process in the control file" "# gpu-player" "$(cat "$GPUS/control.yaml")"
control ''

# A driver call that does not return must not delay responses to kubelet.
share calm 3 | create
wait_for 30 "another pod runs" pod_is calm Running
control 'hang: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo]'
share hung 3 | create
wait_for 20 "the condition reports a hanging driver" condition_is "False DriverHangs"
wait_for 10 "an Event names the driver call that hangs" has_event node-a GpuDriverHangs nvmlDeviceGetMemoryInfo
expect "the GPUs keep their last known state for kubelet" 256 "$(listed aliyun.com/gpu-mem | wc -l)"
wait_for 20 "a pod that was bound before is admitted while the driver hangs" pod_is hung Running
expect "the new pod sees its GPU" "$(record hung | jq -r '.containers.main[0].gpu')" "$(sees hung)"
kill_container calm
wait_for 20 "a container restarts while the driver hangs" restarted calm 1
share late 3 | create
late_waits() { kubectl get pod late -o json | jq -e '.status.conditions[]? | select(.message // "" | contains("free GPUs are unhealthy"))' >/dev/null; }
wait_for 20 "no new pod is placed on the node while the driver hangs" late_waits
kubectl delete pod late >/dev/null
slow() { ask "$AGENT_PORT" /metrics | awk '/^tessera_agent_kubelet_call_duration_seconds_bucket/ && /le="0.5"/ { n -= $2 } /^tessera_agent_kubelet_call_duration_seconds_count/ { n += $2; found = 1 } END { if (found) print n }'; }
expect "no response to kubelet took more than half a second" 0 "$(slow)"

# sockets: prints how many sockets of the agent are in kubelet's directory, and fails if kubelet's
# own is not there.
sockets() { (in_cluster node-a ls /var/lib/kubelet/device-plugins) | awk '/^tessera-/ { n++ } $0 == "kubelet.sock" { found = 1 } END { if (found) print n + 0 }'; }
# leave WHEN: checks that the agent exits with 0 after SIGTERM and removes its sockets. Prints how
# long that took.
leave() {
  local begin code=0
  begin=$(now_ms)
  pkill -TERM -P "$AGENT_PID"
  wait "$AGENT_PID" || code=$?
  expect "$1: after SIGTERM, the agent exits with 0 and removes its sockets" "0 0" "$code $(sockets)"
  say "      after $(seconds_since "$begin") s"
}
leave "while the driver hangs"
agent_start
all_unhealthy() { [[ $(capacity aliyun.com/gpu-mem) == 256 && $(allocatable aliyun.com/gpu-mem) == 0 ]]; }
kubelet_knows() { [[ $(sockets) == 3 ]]; }
wait_for 20 "an agent that starts while the driver hangs registers the known GPUs" kubelet_knows
wait_for 20 "it reports all of them as unhealthy" all_unhealthy
expect "running pods are not affected" "Running Running" "$(kubectl get pods calm hung -o 'jsonpath={.items[*].status.phase}')"
control '{}'
wait_for 20 "all shares are offered when the driver answers" allocatable_is aliyun.com/gpu-mem 256
wait_for 20 "the condition reports all GPUs as healthy when the driver answers" condition_is "True AllGPUsHealthy"
wait_for 10 "the agent is ready" agent_ready
check_agreement "records, containers and kubelet agree"

leave "while the driver answers"
none_left() { allocatable_is aliyun.com/gpu-mem 0; }
wait_for 10 "without an agent, the node offers no shares" none_left
expect "pods keep running without an agent" "Running Running" "$(kubectl get pods calm hung -o 'jsonpath={.items[*].status.phase}')"
stop "$EXTENDER_PID"
finish
