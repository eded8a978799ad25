#!/usr/bin/env bash
# What containers of a real containerd see with each strategy: their own GPU and no other, even if
# the image or the pod sets NVIDIA_VISIBLE_DEVICES. docs/agent.md has the table. With cdi, also a
# record that is written after kubelet admitted the pod.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

agent_cluster_start
extender_start

# An image that sets NVIDIA_VISIBLE_DEVICES=all, like NVIDIA's images.
greedy=$S/tmp/greedy
mkdir -p "$greedy"/bin "$greedy"/dev "$greedy"/proc "$greedy"/sys "$greedy"/tmp
cp "$(command -v busybox)" "$greedy/bin/busybox"
for program in sh env ls sleep; do ln -s busybox "$greedy/bin/$program"; done
IMAGE_ENV="NVIDIA_VISIBLE_DEVICES=all" cluster make-image tessera.local/greedy:1 "$greedy" "$S/tmp/greedy.tar"
cluster load-image "$S/tmp/greedy.tar"

# look NAME [LIMITS] [OWN-ENV] [POD-JSON]: prints a pod whose container prints its environment, its
# device nodes and its driver libraries. OWN-ENV is the pod's own NVIDIA_VISIBLE_DEVICES.
look() {
  pod "$1" "[{\"name\":\"main\",\"limits\":${2:-{\}}}]" "${4:-{\}}" |
    jq -c --arg env "${3:-}" '.spec.containers[0] |= (. + {command: ["sh", "-c",
      "env; echo nodes=$(cd /dev && ls -d nvidia* 2>/dev/null); echo libraries=$(ls /usr/lib/*/libnvidia-ml.so.1 /usr/local/nvidia/lib64/* 2>/dev/null); exec sleep 100000"]}
      + if $env == "" then {} else {env: [{name: "NVIDIA_VISIBLE_DEVICES", value: $env}]} end)'
}
has_looked() { kubectl logs "$1" | grep -q '^libraries='; }
nodes_of() { sees "$1" main nodes; }
# own_nodes POD: the device nodes that the pod should have. On this machine, the minor number of a
# GPU is its index.
own_nodes() { echo "nvidia-modeset nvidia-uvm nvidia-uvm-tools nvidia$(kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}') nvidiactl"; }
uuid_of() { record "$1" | jq -r '.containers.main[0].gpu'; }
no_agent_pods() {
  kubectl delete pods --all --wait=false >/dev/null
  wait_for 30 "all pods are gone" no_pods
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
    wait_for 10 "$1: pod $name has printed what it sees" has_looked "$name"
  done
  expect "$1: the extender chose a GPU" GPU "$(uuid_of asks | cut -d- -f1)"
  expect "$1: the environment names the chosen GPU" "$(uuid_of asks)" "$(sees asks)"
  expect "$1: the agent's variable overrides that of the image" "$(uuid_of greedy)" "$(sees greedy)"
  expect "$1: without a GPU request, the variable of the image stays" all "$(sees idle)"
}

agent_start
wait_or_finish 20 "the agent is ready" agent_ready
run_pods env
expect "env: the pod's own variable overrides the agent's, so NVIDIA's runtime would add all GPUs" all "$(sees own)"
check "env: without NVIDIA's runtime, the container has no device node" prints_nothing nodes_of asks
no_agent_pods

stop "$AGENT_PID"
agent_start --strategy devices
wait_or_finish 20 "the agent is ready" agent_ready
run_pods devices
expect "devices: a container has the device nodes of its GPU" "$(own_nodes asks)" "$(nodes_of asks)"
expect "devices: it has no others, even if its pod sets the variable" "$(own_nodes own)" "$(nodes_of own)"
expect "devices: it has no others, even if its image sets the variable" "$(own_nodes greedy)" "$(nodes_of greedy)"
check "devices: a pod without a GPU request has no device node" prints_nothing nodes_of nothing
check "devices: it has none, even if its image sets the variable" prints_nothing nodes_of idle
expect "devices: the driver's library is in a directory that the linker searches" /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 "$(sees asks main libraries)"
no_agent_pods

stop "$AGENT_PID"
agent_start --strategy cdi --driver-libraries env
wait_or_finish 20 "the agent is ready" agent_ready
run_pods cdi
expect "cdi: a container has the device nodes of its GPU" "$(own_nodes asks)" "$(nodes_of asks)"
expect "cdi: it has no others, even if its pod sets the variable" "$(own_nodes own)" "$(nodes_of own)"
expect "cdi: the agent's variable overrides that of the pod" "$(uuid_of own)" "$(sees own)"
expect "cdi: it has no others, even if its image sets the variable" "$(own_nodes greedy)" "$(nodes_of greedy)"
check "cdi: a pod without a GPU request has no device node" prints_nothing nodes_of nothing
check "cdi: it has none, even if its image sets the variable" prints_nothing nodes_of idle
expect "cdi: the driver's library is in a separate directory" /usr/local/nvidia/lib64/libnvidia-ml.so.1 "$(sees asks main libraries)"
expect "cdi: LD_LIBRARY_PATH names that directory" /usr/local/nvidia/lib64 "$(sees asks main LD_LIBRARY_PATH)"

# No GPU was chosen for this pod when kubelet admitted it. The record is written later.
look late "$share3" "" '{"spec": {"nodeName": "node-a"}}' | create
waits() { kubectl get pod late -o 'jsonpath={.status.containerStatuses[0].state.waiting.message}' | grep -q schedulerName; }
wait_for 20 "cdi: a pod without a chosen GPU does not start" waits
kubectl annotate pod late "tessera.io/allocation={\"v\":1,\"containers\":{\"main\":[{\"gpu\":\"$(uuid_of asks)\",\"mem\":3}]}}" >/dev/null
wait_for 60 "cdi: the same pod runs once its record is written" pod_is late Running
expect "cdi: it has the GPU of that record" "$(uuid_of asks)" "$(sees late)"

files() { (in_cluster node-a ls /var/run/cdi) | awk '/^tessera-/ { n++ } END { print n + 0 }'; }
expect "cdi: there is one file per container" 4 "$(files)"
no_agent_pods
no_files() { local count && count=$(files) && [[ $count == 0 ]]; }
wait_for 10 "cdi: the files are removed with their pods" no_files

stop "$AGENT_PID"
stop "$EXTENDER_PID"
finish
