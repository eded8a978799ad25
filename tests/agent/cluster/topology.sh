#!/usr/bin/env bash
# kubelet's Topology Manager: the agent reports the NUMA node of every device. With best-effort,
# pods still see the GPUs that the extender chose. With single-numa-node, kubelet rejects only pods
# that no NUMA node has room for. kubelet sees a machine with two NUMA nodes.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # parts that this test ends on purpose
CLUSTER_EXPECT_DEAD=kubelet-node-a

settings=$(mktemp)
echo "topologyManagerPolicy: best-effort" >"$settings"
agent_cluster_start --kubelet-config "$settings"

# two_numa_nodes: replaces /sys/devices/system/node by that of a machine with two NUMA nodes, each
# with one of this machine's CPUs.
two_numa_nodes() {
  local node total
  total=$(awk '/MemTotal/ { print int($2 / 2) }' /proc/meminfo)
  for node in 0 1; do
    mkdir -p "$S/numa/node$node/hugepages"
    ln -sfn "/sys/devices/system/cpu/cpu$((node % $(nproc)))" "$S/numa/node$node/cpu$((node % $(nproc)))"
    echo "Node $node MemTotal: $total kB" >"$S/numa/node$node/meminfo"
    echo "$((10 + 10 * node)) $((20 - 10 * node))" >"$S/numa/node$node/distance"
  done
  echo 0-1 >"$S/numa/online"
  (in_cluster node-a mount --bind "$S/numa" /sys/devices/system/node)
}
two_numa_nodes
extender_start
agent_start
wait_or_finish 20 "the agent is ready" agent_ready

# restart_kubelet POLICY: restarts kubelet with this Topology Manager policy.
restart_kubelet() {
  echo "topologyManagerPolicy: $1" >"$settings"
  cluster restart kubelet-node-a >/dev/null
  wait_for 30 "kubelet with policy $1 has 256 shares" allocatable_is aliyun.com/gpu-mem 256
  wait_for 20 "the agent is ready again" agent_ready
}
# reported_numa POD: a line like "ce120724 0" for each of its GPUs, from kubelet's checkpoint, which
# groups the devices of a container by the NUMA node that the agent reported.
uid() { kubectl get pod "$1" -o 'jsonpath={.metadata.uid}'; }
reported_numa() {
  checkpoint | jq -r --arg uid "$(uid "$1")" '[.Data.PodDeviceEntries[] | select(.PodUID == $uid) | .DeviceIDs | to_entries[] |
    .key as $numa | .value[] | "\(split("-")[0]) \($numa)"] | unique[]'
}
# gpus_by_numa: the same for all GPUs of the machine. In a DGX-1, GPUs 0 to 3 are on NUMA node 0.
inventory() { kubectl get node node-a -o json | jq -r ".metadata.annotations[\"tessera.io/inventory\"] | fromjson | .gpus[] | $1"; }
gpus_by_numa() { inventory '"\(.uuid | ltrimstr("GPU-")[0:8]) \(if .index < 4 then 0 else 1 end)"'; }
reports_right_numa() {
  local reported
  reported=$(reported_numa "$1")
  [[ -n $reported ]] && prints_nothing comm -23 <(sort <<<"$reported") <(gpus_by_numa | sort)
}
# sees_recorded POD: whether the pod sees the GPUs of its record and no others.
sees_recorded() { [[ $(sees "$1" | tr , '\n' | sort) == "$(record "$1" | jq -r '.containers.main[].gpu' | sort)" ]]; }
phase() { kubectl get pod "$1" -o 'jsonpath={.status.phase} {.status.reason}'; }
refused() { [[ $(phase "$1") == "Failed TopologyAffinityError" ]]; }
# other_ids: for how many containers kubelet picked device IDs of other GPUs than those of the
# record.
other_ids() { ask "$AGENT_PORT" /metrics | awk '/^tessera_agent_mismatched_device_ids_total/ { print $2 }'; }

# far: prints a pod for a GPU of the second NUMA node.
far() { share far 4 "{\"metadata\": {\"annotations\": {\"tessera.io/gpu-uuids\": \"$(inventory 'select(.index == 6).uuid')\"}}}"; }

restart_kubelet best-effort
kubelet_numa() { checkpoint | jq -c '[.Data.PodDeviceEntries[]?.DeviceIDs | keys[]] | unique'; }
{
  share near 20
  whole pair 2
  whole quad 4
} | create
for name in near pair quad; do
  wait_for 40 "best-effort: pod $name runs" pod_is "$name" Running
  check "best-effort: $name sees the GPUs of its record" sees_recorded "$name"
  check "best-effort: $name has device IDs with the NUMA nodes of their GPUs" reports_right_numa "$name"
done
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone" no_pods

# kubelet picks device IDs of the NUMA node with the lowest number. The pod still gets the GPU that
# the extender chose.
before=$(other_ids)
far | create
wait_for 40 "best-effort: a pod for a GPU of the second NUMA node runs" pod_is far Running
check "best-effort: the pod sees that GPU" sees_recorded far
expect "best-effort: kubelet picked device IDs of the first NUMA node for it" "[\"0\"] $((before + 1))" "$(kubelet_numa) $(other_ids)"
whole most 7 | create
wait_for 40 "best-effort: a pod with 7 whole GPUs of both NUMA nodes runs" pod_is most Running
check "best-effort: it sees the GPUs of its record" sees_recorded most
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone" no_pods

restart_kubelet single-numa-node
{
  share near 20
  far
  whole one 1
} | create
for name in near far one; do
  wait_for 40 "single-numa-node: pod $name runs" pod_is "$name" Running
  check "single-numa-node: $name sees the GPUs of its record" sees_recorded "$name"
done
whole wide 5 | create
wait_for 40 "single-numa-node: kubelet rejects a pod with more GPUs than a NUMA node has" refused wide
check "single-numa-node: the other pods keep running" all_running 3
kubectl delete pod wide --wait=false >/dev/null
wait_for 20 "the rejected pod is gone" all_running 3
share later 4 | create
wait_for 40 "single-numa-node: the memory of the rejected pod is free again" pod_is later Running

stop "$AGENT_PID"
stop "$EXTENDER_PID"
rm -f "$settings"
finish
