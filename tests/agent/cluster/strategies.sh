#!/usr/bin/env bash
# What containers of a real containerd see under each strategy: their own GPU and no other, whatever image or pod say in
# NVIDIA_VISIBLE_DEVICES; docs/agent.md has the table. With cdi also a decision that comes after the pod.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start

# An image that wants all GPUs, as those of NVIDIA do.
greedy=$S/tmp/greedy
mkdir -p "$greedy"/bin "$greedy"/dev "$greedy"/proc "$greedy"/sys "$greedy"/tmp
cp "$(command -v busybox)" "$greedy/bin/busybox"
for program in sh env ls sleep; do ln -s busybox "$greedy/bin/$program"; done
IMAGE_ENV="NVIDIA_VISIBLE_DEVICES=all" cluster make-image tessera.local/greedy:1 "$greedy" "$S/tmp/greedy.tar"
cluster load-image "$S/tmp/greedy.tar"

# look NAME [LIMITS] [OWN-ENV] [POD-JSON]: a pod that prints its environment and what of the driver it has.
look() {
  pod "$1" "[{\"name\":\"main\",\"limits\":${2:-{\}}}]" "${4:-{\}}" |
    jq -c --arg env "${3:-}" '.spec.containers[0] |= (. + {command: ["sh", "-c",
      "env; echo nodes=$(cd /dev && ls -d nvidia* 2>/dev/null); echo libraries=$(ls /usr/lib/*/libnvidia-ml.so.1 /usr/local/nvidia/lib64/* 2>/dev/null); exec sleep 100000"]}
      + if $env == "" then {} else {env: [{name: "NVIDIA_VISIBLE_DEVICES", value: $env}]} end)'
}
has_looked() { kubectl logs "$1" | grep -q '^libraries='; }
nodes_of() { sees "$1" main nodes; }
# own_nodes POD: what it should have, of a machine whose minors are its indices.
own_nodes() { echo "nvidia-modeset nvidia-uvm nvidia-uvm-tools nvidia$(kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}') nvidiactl"; }
uuid_of() { record "$1" | jq -r '.containers.main[0].gpu'; }
no_agent_pods() {
  kubectl delete pods --all --wait=false >/dev/null
  wait_for 30 "all pods go" no_pods
}
share3='{"aliyun.com/gpu-mem":"3"}'

run_pods() {
  {
    look asks "$share3"
    look own "$share3" all
    look nothing '{}' all
    { look greedy "$share3"; look idle '{}'; } | jq -c '.spec.containers[0].image = "tessera.local/greedy:1"'
  } | create
  for name in asks own nothing greedy idle; do
    wait_for 40 "$1: pod $name runs" pod_is "$name" Running
  done
  for name in asks own nothing greedy idle; do
    wait_for 10 "$1: pod $name has looked around" has_looked "$name"
  done
  expect "$1: a GPU was decided" GPU "$(uuid_of asks | cut -d- -f1)"
  expect "$1: a pod is told its GPU" "$(uuid_of asks)" "$(sees asks)"
  expect "$1: our word wins over the image's" "$(uuid_of greedy)" "$(sees greedy)"
  expect "$1: an image that wants all keeps its word in a pod that asks for nothing" all "$(sees idle)"
}

agent_start
wait_or_finish 20 "the agent is ready" agent_ready
run_pods env
expect "env: a pod's own word wins, so NVIDIA's runtime would give it all" all "$(sees own)"
expect "env: without that runtime there is no device" "" "$(nodes_of asks)"
no_agent_pods

stop "$AGENT_PID"
agent_start --strategy devices
wait_or_finish 20 "the agent is ready" agent_ready
run_pods devices
expect "devices: a container has the nodes of its GPU" "$(own_nodes asks)" "$(nodes_of asks)"
expect "devices: and no others, whatever its pod says" "$(own_nodes own)" "$(nodes_of own)"
expect "devices: nor what its image says" "$(own_nodes greedy)" "$(nodes_of greedy)"
expect "devices: one that asks for nothing has none" "" "$(nodes_of nothing)"
expect "devices: nor has one whose image wants all" "" "$(nodes_of idle)"
expect "devices: the driver's library is where the linker looks" /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 "$(sees asks main libraries)"
no_agent_pods

stop "$AGENT_PID"
agent_start --strategy cdi --driver-libraries env
wait_or_finish 20 "the agent is ready" agent_ready
run_pods cdi
expect "cdi: a container has the nodes of its GPU" "$(own_nodes asks)" "$(nodes_of asks)"
expect "cdi: and no others, whatever its pod says" "$(own_nodes own)" "$(nodes_of own)"
expect "cdi: our word wins over the pod's own" "$(uuid_of own)" "$(sees own)"
expect "cdi: nor what its image says" "$(own_nodes greedy)" "$(nodes_of greedy)"
expect "cdi: one that asks for nothing has none" "" "$(nodes_of nothing)"
expect "cdi: nor has one whose image wants all" "" "$(nodes_of idle)"
expect "cdi: the driver's library is in a directory of its own" /usr/local/nvidia/lib64/libnvidia-ml.so.1 "$(sees asks main libraries)"
expect "cdi: which the linker is told of" /usr/local/nvidia/lib64 "$(sees asks main LD_LIBRARY_PATH)"

# Nobody decided for this pod when kubelet admitted it; somebody does later.
look late "$share3" "" '{"spec": {"nodeName": "node-a"}}' | create
waits() { kubectl get pod late -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -q schedulerName; }
wait_for 20 "cdi: an undecided pod waits" waits
kubectl annotate pod late "tessera.io/allocation={\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"$(uuid_of asks)\",\"mem\":3}]}}" >/dev/null
wait_for 60 "cdi: and runs once it is decided, without a new pod" pod_is late Running
expect "cdi: with the GPU of the late decision" "$(uuid_of asks)" "$(sees late)"

files() { (in_cluster node-a ls /var/run/cdi) | grep -c '^tessera-' || true; }
expect "cdi: each container has a file" 4 "$(files)"
no_agent_pods
no_files() { [[ $(files) == 0 ]]; }
wait_for 10 "cdi: which goes with its pod" no_files

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
