#!/usr/bin/env bash
# Schedules pods of every kind through the real scheduler, which sends node names or whole nodes.
# Then creates 500 pods at once where exactly 500 fit and kills the extender meanwhile: every GPU
# ends up full, and none is allocated twice.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

extender_cluster_start
gpu_nodes 2 4 16
echo 'policies: {shared: binpack}' >"$S/extender.yaml"
extender_start --config "$S/extender.yaml"
wait_or_finish 20 "the extender is ready" extender_ready

kubectl create -f - >/dev/null <<'PODS'
{"apiVersion": "v1", "kind": "List", "items": [
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shared"}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "6"}}}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "whole"}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu": "1"}}}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "several"}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu": "2"}}}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "containers"}, "spec": {"containers": [
   {"name": "one", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "3"}}},
   {"name": "two", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}},
   {"name": "plain", "image": "none"}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "split", "labels": {"aliyun.com/gpu-count": "2"}}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "8"}}}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mixed"}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "2"}}},
   {"name": "side", "image": "none", "resources": {"limits": {"aliyun.com/gpu": "1"}}}]}},
 {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "too-large"}, "spec": {"containers": [
   {"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "17"}}}]}}
]}
PODS
for pod in shared whole several containers split mixed; do
  wait_for 20 "$pod runs" pod_is "$pod" Running
done
record() { kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.tessera\.io/allocation}'; }
expect "shared: 6 units of one GPU" '[6]' "$(record shared | jq -c '[.containers.main[].mem]')"
expect "whole: one GPU" '[true]' "$(record whole | jq -c '[.containers.main[].whole]')"
expect "several: two different GPUs" 2 "$(record several | jq '[.containers.main[].gpu] | unique | length')"
expect "containers: all on one GPU" 1 "$(record containers | jq '[.containers[][].gpu] | unique | length')"
expect "split: half on each of two GPUs" '[4,4]' "$(record split | jq -c '[.containers.main[].mem]')"
expect "mixed: the share is not on the whole GPU" 2 "$(record mixed | jq '[.containers[][].gpu] | unique | length')"
refused() { kubectl get pod too-large -o 'jsonpath={.status.conditions[0].message}' | grep -q 'no GPU is as large as 17GiB'; }
wait_for 20 "too-large stays Pending with the reason" refused
events_name_gpus() { kubectl get events --field-selector involvedObject.name=shared,reason=GpuAssigned -o name | grep -q .; }
wait_for 20 "an Event names the GPUs" events_name_gpus
check_ledger "annotations, ledger and inventory agree"

kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone" no_pods
check_ledger "the ledger is empty again"

# A node whose agent reports another device plugin for the same GPUs is not used, and gets an Event.
jq -c '.items[0] | .metadata.name = "twice-0001" | .metadata.labels["kubernetes.io/hostname"] = "twice-0001" |
  .metadata.annotations["tessera.io/inventory"] |= (fromjson | .also_served_as = ["example.com/gpu"] | tojson) |
  {apiVersion: "v1", kind: "List", items: [.]}' "$S/tmp/gpu-nodes.json" >"$S/tmp/twice-node.json"
create_nodes "$S/tmp/twice-node.json"
pods_json twice 1 '{"aliyun.com/gpu-mem": "1"}' | jq -c '.items[].spec.nodeSelector = {"kubernetes.io/hostname": "twice-0001"}' | kubectl create -f - >/dev/null
twice_refused() { kubectl get pod twice-0001 -o 'jsonpath={.status.conditions[0].message}' | grep -q '1 another device plugin allocates the same GPUs'; }
wait_for 20 "a pod does not get GPUs that another device plugin serves, and has the reason" twice_refused
twice_reported() { kubectl get events --field-selector involvedObject.name=twice-0001,reason=OtherDevicePlugin -o name | grep -q .; }
wait_for 20 "the node has an Event about it" twice_reported
expect "the metric counts the node" 1 "$(metric tessera_extender_other_plugin_nodes)"
kubectl delete pod twice-0001 --wait=false >/dev/null
kubectl delete node twice-0001 >/dev/null

# On a node with the device plugin of the original, GPUs on its list of unhealthy GPUs are not used.
jq -c '.items[0] | .metadata.name = "old-0001" | del(.metadata.annotations["tessera.io/inventory"]) | .metadata.labels["kubernetes.io/hostname"] = "old-0001" |
  {apiVersion: "v1", kind: "List", items: [.]}' "$S/tmp/gpu-nodes.json" >"$S/tmp/old-node.json"
kubectl -n kube-system create configmap unhealthy-gpu-old-0001 --from-literal=gpus=0,1,2,3 >/dev/null
create_nodes "$S/tmp/old-node.json"
old_body=$(jq -cn '{Pod: {metadata: {name: "p", namespace: "default", uid: "u"}, spec: {containers: [{name: "main",
  resources: {limits: {"aliyun.com/gpu-mem": "16"}}}]}}, Nodes: null, NodeNames: ["old-0001"]}')
fits_old() { [[ $(send filter "$old_body" | jq -c .NodeNames) == '["old-0001"]' ]]; }
full_old() { [[ $(send filter "$old_body" | jq -c '.NodeNames // []') == '[]' ]]; }
# A node that the extender does not know yet fits nothing either, so look for the reason.
unhealthy_old() { send filter "$old_body" | jq -e '(.FailedNodes + .FailedAndUnresolvableNodes)["old-0001"] // "" | contains("unhealthy")' >/dev/null; }
wait_for 20 "a node with the original plugin does not fit while all its GPUs are on the list" unhealthy_old
kubectl -n kube-system patch configmap unhealthy-gpu-old-0001 -p '{"data": {"gpus": "0,1,3"}}' >/dev/null
wait_for 20 "it fits when one GPU is removed from the list" fits_old
pods_json old 1 '{"aliyun.com/gpu-mem": "16"}' | jq -c '.items[].spec.nodeSelector = {"kubernetes.io/hostname": "old-0001"}' | kubectl create -f - >/dev/null
wait_for 30 "a pod runs there" all_running old 1
expect "on the only healthy GPU" 2 "$(kubectl get pod old-0001 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')"
wait_for 20 "the node is full then" full_old
kubectl -n kube-system delete configmap unhealthy-gpu-old-0001 >/dev/null
wait_for 20 "it fits again when the list is deleted" fits_old
kubectl delete pods --all --wait=false >/dev/null
kubectl delete node old-0001 >/dev/null
wait_for 30 "all pods of that node are gone" no_pods

# On a node with the topology plugin of the original, in both of its designs, a pod with two GPUs gets
# the pair with the best link, and the annotations that the plugin reads. There is no agent, so there
# is no record of Tessera.
topology_node() {
  jq -c --arg name "$1" --argjson annotations "$2" --argjson resources "$3" '.items[0] | .metadata.name = $name |
    .metadata.labels["kubernetes.io/hostname"] = $name | .metadata.annotations |= (del(.["tessera.io/inventory"]) + $annotations) |
    (.status.capacity, .status.allocatable) |= (del(.["aliyun.com/gpu-mem", "aliyun.com/gpu", "aliyun.com/gpu-count"]) + $resources) |
    {apiVersion: "v1", kind: "List", items: [.]}' "$S/tmp/gpu-nodes.json" >"$S/tmp/$1.json"
  create_nodes "$S/tmp/$1.json"
}
topology_node topo-json '{"GPU_TOPOLOGY": "{\"GPU_NV1_0_1\":\"Single NVLink\",\"GPU_NV1_0_2\":\"Single NVLink\",\"GPU_NV2_0_3\":\"Two NVLinks\",\"GPU_NV1_1_2\":\"Single NVLink\",\"GPU_PHB_1_3\":\"Host PCI bridge\",\"GPU_SYS_2_3\":\"Cross CPU socket\"}"}' \
  '{"aliyun.com/gpu": "4"}'
topology_node topo-gsoc '{"GSOC_DEV_0_0": "0", "GSOC_DEV_0_1": "3", "GSOC_DEV_0_2": "1", "GSOC_DEV_0_3": "1", "GSOC_DEV_1_2": "8", "GSOC_DEV_2_1": "8"}' \
  '{"aliyun.com/gpu-count": "4"}'
pods_on() { pods_json "$1" 1 "$3" | jq -c --arg node "$2" '.items[].spec.nodeSelector = {"kubernetes.io/hostname": $node}' | kubectl create -f - >/dev/null; }
annotations_of() { kubectl get pod "$1" -o json | jq -r '.metadata.annotations | [."ALIYUN_COM_GPU_GROUP", ."ALIYUN_COM_GPU_IDX", ."ALIYUN_COM_GPU_COUNT_POD", ."ALIYUN_COM_GPU_ASSIGNED", ."tessera.io/allocation"] | join(" ")'; }
pods_on first topo-json '{"aliyun.com/gpu": "2"}'
pods_on gsoc topo-gsoc '{"aliyun.com/gpu-count": "2"}'
wait_for 30 "a pod with two GPUs runs on a node of the topology plugin" all_running first 1
expect "it has the pair with two NVLinks, and the plugin's annotations" "0,3 0,3 2 false " "$(annotations_of first-0001)"
check "the time is in nanoseconds" grep -Eq '^[0-9]{19}$' <<<"$(kubectl get pod first-0001 -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_ASSUME_TIME}')"
wait_for 30 "a pod runs on a node of its first design" all_running gsoc 1
expect "it has the pair with two NVLinks there" "1,2 1,2 2 false " "$(annotations_of gsoc-0001)"
pods_on second topo-json '{"aliyun.com/gpu": "2"}'
wait_for 30 "a second pod runs on the node" all_running second 1
expect "it has the pair that is left" "1,2 1,2 2 false " "$(annotations_of second-0001)"
pods_on third topo-json '{"aliyun.com/gpu": "1"}'
tessera() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" "$@" 2>&1; }
explained() { tessera why third-0001 | grep -Eq '^topo-json .*default/(first|second)-0001 \(2 GPUs\) ends'; }
wait_for 20 "tessera why names a pod that would have to end there" explained
check "tessera topo shows its links" grep -Eq '^GPU0 .*NV2' <<<"$(tessera topo topo-json)"
check "tessera inspect shows its GPUs" grep -Eq '^topo-json +4 +4' <<<"$(tessera inspect gpu)"
kubectl delete pods --all --wait=false >/dev/null
kubectl delete node topo-json topo-gsoc >/dev/null
wait_for 30 "all pods of these nodes are gone" no_pods

# A pod with high priority preempts another one where that frees a GPU for it.
kubectl create priorityclass important --value=1000 >/dev/null
fill_and_preempt() {
  pods_json low 8 '{"aliyun.com/gpu-mem": "16"}' | kubectl create -f - >/dev/null
  wait_for 30 "$1: 8 pods fill all GPUs" all_running low 8
  pods_json high 1 '{"aliyun.com/gpu-mem": "10"}' | jq -c '.items[].spec.priorityClassName = "important"' | kubectl create -f - >/dev/null
  wait_for 60 "$1: a pod with high priority gets the GPU of one of them" all_running high 1
  expect "$1: only one pod was preempted" 7 "$(running low)"
  check_ledger "$1: the ledger is correct"
}

# A scheduler that sends whole nodes (nodeCacheCapable: false) and whole pods. Its requests are
# recorded on the way.
WIRE_PORT=39995
(in_cluster_network setpriv --pdeathsig KILL -- socat -v "TCP-LISTEN:$WIRE_PORT,bind=127.0.0.1,reuseaddr,fork" "TCP:127.0.0.1:$PORT" \
  2>"$S/wire.log") &
wire=$!
{
  "$EXTENDER" --print-scheduler-config --attach service --url "http://127.0.0.1:$WIRE_PORT" --scheduler-kubeconfig "$S/kube/extender" |
    sed 's/nodeCacheCapable: true/nodeCacheCapable: false/'
  echo 'profiles: [{schedulerName: whole-nodes}]'
  echo 'leaderElection: {leaderElect: false}'
} >"$S/whole-nodes-scheduler.yaml"
scheduler_start whole-nodes 19995
SCHEDULER_NAME=whole-nodes fill_and_preempt "whole nodes"
# said REGEX: searches the recorded traffic, where quotes are escaped and each piece has a header
# line.
said() { sed -e '/^[<>] 2.* length=/d' -e 's/\\"/"/g' "$S/wire.log" | tr -d '\n' | grep -Eq "$1"; }
check "it sent whole nodes" said '"Pod":\{.*,"Nodes":\{"metadata":\{\},"items":\[\{"metadata":\{"name":"gpu-.*"NodeNames":null\}'
check "it received whole nodes" said '\{"Nodes":\{"metadata":\{\},"items":\[\{"metadata":\{"name":"gpu-.*"NodeNames":null,"FailedNodes"'
check "it called prioritize" said 'POST /gpushare-scheduler/prioritize'
check "it proposed whole pods as victims" said '"NodeNameToVictims":\{"gpu-000.*"containers"'
kill "$SCHEDULER_PID" "$wire"
wait "$SCHEDULER_PID" "$wire" 2>/dev/null || true
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods of that scheduler are gone" no_pods

# kube-scheduler starts with the converted Policy of an old cluster, and schedules by it.
policy_extenders='[{"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter", "bindVerb": "bind", "enableHttps": false,
  "nodeCacheCapable": true, "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": false}], "ignorable": false}]'
schedule_by_policy() {
  jq -n --argjson extenders "$policy_extenders" "{kind: \"Policy\", apiVersion: \"v1\", extenders: \$extenders} + $2" >"$S/tmp/$1.json"
  {
    "$EXTENDER" --print-scheduler-config --attach service --url "http://127.0.0.1:$PORT" --scheduler-kubeconfig "$S/kube/extender" \
      --merge "$S/tmp/$1.json" 2>"$S/tmp/$1-notes" | sed "s/schedulerName: default-scheduler/schedulerName: $1/"
    echo 'leaderElection: {leaderElect: false}'
  } >"$S/$1-scheduler.yaml"
  scheduler_start "$1" 19994
  SCHEDULER_NAME=$1 pods_json "$1" 1 '{"aliyun.com/gpu-mem": "2"}' | kubectl create -f - >/dev/null
  wait_for 40 "a pod runs by the converted Policy $1" all_running "$1" 1
  kill "$SCHEDULER_PID"
  wait "$SCHEDULER_PID" 2>/dev/null || true
}
schedule_by_policy policy-all '{
  "predicates": (["PodFitsHostPorts", "PodFitsResources", "HostName", "MatchNodeSelector", "GeneralPredicates", "NoDiskConflict",
    "NoVolumeZoneConflict", "CheckVolumeBinding", "MatchInterPodAffinity", "EvenPodsSpread", "PodToleratesNodeTaints",
    "CheckNodeUnschedulable", "MaxCSIVolumeCountPred", "MaxEBSVolumeCount", "CheckNodeMemoryPressure", "CheckNodeLabelPresence"] | map({name: .})),
  "priorities": (["MostRequestedPriority", "BalancedResourceAllocation", "EvenPodsSpreadPriority", "InterPodAffinityPriority",
    "NodeAffinityPriority", "TaintTolerationPriority", "ImageLocalityPriority", "NodePreferAvoidPodsPriority"] | map({name: ., weight: 3})),
  "hardPodAffinitySymmetricWeight": 10}'
check "a predicate without an equivalent is named" grep -q 'predicate "CheckNodeLabelPresence" has no equivalent' "$S/tmp/policy-all-notes"
check "a priority without an equivalent is named" grep -q 'priority "NodePreferAvoidPodsPriority" has no equivalent' "$S/tmp/policy-all-notes"
schedule_by_policy policy-none '{"predicates": [], "priorities": []}'
schedule_by_policy policy-some '{"predicates": [{"name": "PodFitsResources"}], "priorities": [{"name": "SelectorSpreadPriority", "weight": 1}]}'
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "the pods of the converted Policies are gone" no_pods

fill_and_preempt "names"

# Among otherwise equal pods, preemption spares those that a disruption budget protects. (The
# unprotected pod is listed first, because among equal pods the last one is chosen.)
spare=$(kubectl get pods -l set=low -o 'jsonpath={.items[0].metadata.name}')
kubectl label pod "$spare" spare=yes >/dev/null
kubectl create -f - >/dev/null <<'BUDGET'
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "low"}, "spec": {"minAvailable": 100,
 "selector": {"matchLabels": {"set": "low"}, "matchExpressions": [{"key": "spare", "operator": "DoesNotExist"}]}}}
BUDGET
preempt_body=$(kubectl get pods -o json | jq -c --arg spare "$spare" '
  (.items[] | select(.metadata.name == $spare)) as $first |
  [$first] + [.items[] | select(.spec.nodeName == $first.spec.nodeName and .metadata.labels.set == "low" and .metadata.name != $spare)] |
  {Pod: {metadata: {name: "p", namespace: "default", uid: "u"}, spec: {priority: 1000, containers: [{name: "main",
     resources: {limits: {"aliyun.com/gpu-mem": "16"}}}]}},
   NodeNameToMetaVictims: {($first.spec.nodeName): {Pods: [.[] | {UID: .metadata.uid}], NumPDBViolations: 0}}}')
spare_uid=$(kubectl get pod "$spare" -o 'jsonpath={.metadata.uid}')
spares_protected() {
  [[ $(send preempt "$preempt_body" | jq -c '[.NodeNameToMetaVictims[] | [.Pods[].UID], .NumPDBViolations]') == "[[\"$spare_uid\"],0]" ]]
}
wait_for 20 "pods that a disruption budget protects are spared" spares_protected
kubectl delete poddisruptionbudget low >/dev/null

# Change the policy without a restart: the order of the nodes reverses.
prioritize_body=$(jq -cn '{Pod: {metadata: {name: "p", namespace: "default", uid: "u"}, spec: {containers: [{name: "main",
  resources: {limits: {"aliyun.com/gpu-mem": "2"}}}]}}, Nodes: null, NodeNames: ["gpu-0001", "gpu-0002"]}')
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone again" no_pods
pods_json one 1 '{"aliyun.com/gpu-mem": "4"}' | kubectl create -f - >/dev/null
wait_for 20 "one pod runs" all_running one 1
used=$(kubectl get pod one-0001 -o 'jsonpath={.spec.nodeName}')
best() { send prioritize "$prioritize_body" | jq -r 'max_by(.Score).Host'; }
expect "binpack prefers the node that is in use" "$used" "$(best)"
echo 'policies: {shared: spread}' >"$S/extender.yaml"
kill -HUP "$EXTENDER_PID"
spreads() { [[ $(best) != "$used" ]]; }
wait_for 10 "after SIGHUP, spread prefers the other node" spreads
echo 'policies: {shared: lucky}' >"$S/extender.yaml"
kill -HUP "$EXTENDER_PID"
complains() { grep -q 'configuration not reloaded.*extender.yaml:1:20: policies.shared' "$S/extender.log"; }
wait_for 10 "an invalid configuration is rejected with its line and column" complains
check "the previous configuration stays in use" spreads
kubectl delete pods --all --wait=false >/dev/null
wait_for 30 "all pods are gone once more" no_pods
echo 'policies: {shared: binpack}' >"$S/extender.yaml"
kill -HUP "$EXTENDER_PID"

# 25 nodes with 4 GPUs of 10 units: exactly 500 pods of 2 units fit.
kubectl delete nodes gpu-0001 gpu-0002 >/dev/null
gpu_nodes 25 4 10
begin=$(now_ms)
create_in_background many 500 '{"aliyun.com/gpu-mem": "2"}'
some_run() { (($(running many) >= 100)); }
wait_for 60 "the first hundred of 500 run" some_run
failed=$(failed_binds)
kill -KILL "$EXTENDER_PID"
wait "$EXTENDER_PID" 2>/dev/null || true
extender_start
wait_for 20 "the extender is back after kill -9" extender_ready
wait "$CREATION_PID"
wait_for 120 "all 500 run, where exactly 500 fit" all_running many 500
say "      500 pods in $(seconds_since "$begin") s, extender killed once"
check_ledger "no GPU is allocated twice, and the ledger has all pods"
failed=$((failed + $(failed_binds)))
check "at most 2% of the binds had to be repeated ($failed)" test "$failed" -le 10

pods_json more 1 '{"aliyun.com/gpu-mem": "1"}' | kubectl create -f - >/dev/null
waits() { kubectl get pod more-0001 -o 'jsonpath={.status.conditions[0].message}' | grep -q 'Insufficient aliyun.com/gpu-mem\|no single GPU has 1GiB free'; }
wait_for 20 "the next pod stays Pending" waits
kubectl delete pod many-0250 >/dev/null
wait_for 30 "it gets the GPU of the first pod that ends" pod_is more-0001 Running
check_ledger "the ledger is correct"
kill "$EXTENDER_PID"
ended=0
wait "$EXTENDER_PID" || ended=$?
expect "the extender exits with 0" 0 "$ended"
finish
