#!/usr/bin/env bash
# What a running container was given is the truth. Under a real kubelet, tenants remove, break and
# rewrite the records of running pods, and create pods with a node name and a forged record. None of
# these pods passes the extender, which does not even run here: only the agent protects the GPUs.
# The policy tessera-records is not installed; in its default mode (audit) it would only warn.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "the node has 256 shares" allocatable_is aliyun.com/gpu-mem 256
mapfile -t gpus < <(inventory '.gpus[].uuid')

# forged GPU SHARE-JSON: prints the pod JSON of a pod that is created on node-a with a record. Its
# container main has SHARE-JSON of the GPU with this index.
forged() {
  jq -cn --arg gpu "${gpus[$1]}" --argjson share "$2" '{spec: {nodeName: "node-a"}, metadata: {annotations:
    {"tessera.io/allocation": ({v: 1, containers: {main: [{gpu: $gpu} + $share]}} | tojson)}}}'
}
record_names() { [[ $(record "$1" | jq -r '.containers.main[0].gpu') == "${gpus[$2]}" ]]; }
# sleeper NAME SECONDS UNITS GPU: prints a forged pod whose init container has no GPU and sleeps.
sleeper() {
  pod "$1" "[{\"name\":\"sleep\",\"init\":true},{\"name\":\"main\",\"limits\":{\"aliyun.com/gpu-mem\":\"$3\"}}]" "$(forged "$4" "{\"mem\":$3}")" |
    jq -c --arg seconds "$2" '.spec.initContainers[0].command = ["sleep", $seconds]'
}
# attack POD ARGUMENTS...: repeats `kubectl annotate POD ARGUMENTS` until attack_end.
attack() {
  (while [[ -e $S/tmp/attack ]]; do kubectl annotate --overwrite pod "$@" >/dev/null; done) &
  ATTACK_PID=$!
}
attack_end() { rm -f "$S/tmp/attack" && wait "$ATTACK_PID"; }
mkdir -p "$S/tmp"

# The record of a running pod is removed again and again, and another pod asks for its GPU.
pod victim '[{"name":"main","limits":{"aliyun.com/gpu":"1"}}]' "$(forged 0 '{"whole":true}')" | create
wait_for 30 "a pod runs that holds GPU 0 whole" pod_is victim Running
touch "$S/tmp/attack"
attack victim tessera.io/allocation- ALIYUN_COM_GPU_GROUP- ALIYUN_COM_GPU_IDX-
share thief 3 "$(forged 0 '{"mem":3}')" | create
wait_for 30 "while its record is being removed, no other pod starts on its GPU" waits_saying thief "pod default/victim and others hold all"
attack_end
wait_for 5 "the record is repaired" record_names victim 0
for value in '{' '{"v":1,"containers":{"main":[{"gpu":"'"${gpus[3]}"'","whole":true}]}}'; do
  kubectl annotate --overwrite pod victim "tessera.io/allocation=$value" ALIYUN_COM_GPU_GROUP=3 >/dev/null
  wait_for 5 "a broken or rewritten record is repaired" record_names victim 0
done
wait_for 5 "an Event says so" has_event victim GpuRecordRepaired

# A forged pod whose first container has no GPU and runs. A second one comes after a pod that has
# not started its GPU container yet.
{ sleeper forged 2 3 0; sleeper earlier 6 32 1; } | create
wait_for 20 "the earlier pod is bound" pod_is earlier Pending
sleeper later 2 3 1 | create
waits_after_init() { kubectl get pod "$1" -o 'jsonpath={.status.initContainerStatuses[0].state.terminated.reason}' | grep -q Completed && waits_saying "$1" "$2"; }
wait_for 30 "a forged pod does not start after its init container" waits_after_init forged "hold all of its 32 units"
wait_for 30 "a forged pod does not hold back an earlier pod" pod_is earlier Running
wait_for 30 "the forged pod waits for the earlier one" waits_after_init later "pod default/earlier and others hold 32"
expect "only the pods with a right to their GPU run" "earlier victim" \
  "$(kubectl get pods --field-selector status.phase=Running -o 'jsonpath={.items[*].metadata.name}')"
check_agreement "records, containers and kubelet agree"

# With strategy cdi, the agent can change the GPU of a container at each start.
stop "$AGENT_PID"
agent_start --strategy cdi
wait_or_finish 20 "the agent is ready with strategy cdi" agent_ready
share mover 3 "$(forged 2 '{"mem":3}')" | create
wait_for 30 "a pod runs on GPU 2" pod_is mover Running
touch "$S/tmp/attack"
attack mover "tessera.io/allocation={\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"${gpus[0]}\",\"mem\":3}]}}"
kill_container mover
wait_for 30 "its container restarts while the record names GPU 0" restarted mover 1
attack_end
expect "the restarted container has its own GPU" "${gpus[2]}" "$(sees mover)"
wait_for 5 "its record names that GPU again" record_names mover 2

stop "$AGENT_PID"
finish
