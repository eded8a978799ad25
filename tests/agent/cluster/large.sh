#!/usr/bin/env bash
# 8 GPUs of 192 GiB in units of 256 MiB: kubelet must accept a list of 6,144 devices. The pods
# request one unit, a few hundred units, or all units of a GPU.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

machine=$(mktemp --suffix .yaml)
cat >"$machine" <<'YAML'
v: 1
about: 8 GPUs of 192 GiB
driver: "570.86.15"
cuda: "12.8"
cpus: 112
memory_gib: 2048
gpus:
  - {count: 8, model: NVIDIA B300, memory_mib: 196608, reserved_mib: 800, compute: "10.3"}
numa:
  - {id: 0, cpus: "0-55", gpus: "0-3"}
  - {id: 1, cpus: "56-111", gpus: "4-7"}
links:
  nvlink_generation: 5
  nvswitch: true
  rules: [{nvlink: 18}, {pcie: NODE, groups: ["0-3", "4-7"]}, {pcie: SYS}]
  pcie_generation: 5
  socket_mbps: 22000
YAML
# shellcheck disable=SC2034 # for agent_cluster_start
MACHINE=$machine
agent_cluster_start
extender_start --unit 256MiB
agent_start --unit 256MiB
wait_or_finish 20 "the agent is ready" agent_ready
wait_for 10 "kubelet has 6,144 shares" allocatable_is aliyun.com/gpu-mem 6144
expect "kubelet's checkpoint lists each of them" 6144 "$(checkpoint | jq '.Data.RegisteredDevices["aliyun.com/gpu-mem"] | unique | length')"

{
  share one 1
  share some 300
  share full 768
  share split 1000 '{"metadata": {"labels": {"aliyun.com/gpu-count": "2"}}}'
  whole whole 2
} | create
wait_for 60 "pods of every size run" all_running 5
check_agreement "records, containers and kubelet agree"
expect "the environment of a container has its units and those of the GPU" "768 768" "$(sees full main ALIYUN_COM_GPU_MEM_CONTAINER) $(sees full main ALIYUN_COM_GPU_MEM_DEV)"

before=$(sees some)
stop "$AGENT_PID" KILL
agent_start --unit 256MiB
wait_for 20 "the agent is ready after it was killed" agent_ready
wait_for 20 "it offers all shares again" allocatable_is aliyun.com/gpu-mem 6144
share more 400 | create
wait_for 40 "a new pod runs" pod_is more Running
check_agreement "records, containers and kubelet agree after a restart of the agent"
expect "a running container sees the same GPU as before" "$before" "$(sees some)"

stop "$AGENT_PID"
stop "$EXTENDER_PID"
rm -f "$machine"
finish
