#!/usr/bin/env bash
# Runs the steps of docs/migration.md, as far as that is possible without the programs of gpushare.
# Tessera counts nodes with gpushare's plugin and pods with annotations of gpushare's extender,
# places new pods next to them, and does not affect running pods when a node gets its agent.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
OLD_PLUGIN=system:serviceaccount:kube-system:gpushare-device-plugin

page() { eval "$(page_command migration.md "$1")"; }

# kube-scheduler calls gpushare's extender, as gpushare's installation configures it.
config=$(mktemp)
plain_scheduler() { printf 'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n' >"$config"; }
plain_scheduler
cat >>"$config" <<'YAML'
extenders:
  - urlPrefix: http://127.0.0.1:32766/gpushare-scheduler
    filterVerb: filter
    bindVerb: bind
    nodeCacheCapable: true
    managedResources: [{name: aliyun.com/gpu-mem, ignoredByScheduler: false}]
    ignorable: false
YAML
chart_cluster_start --nodes 1 --sim-nodes 1 --scheduler-config "$config"
# A Deployment and a Service with the names and labels of gpushare's extender. They do not answer.
jq -cn --arg image "$BUSYBOX_IMAGE" '{app: "gpushare", component: "gpushare-schd-extender"} as $labels | {apiVersion: "v1", kind: "List", items: [
  {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: "gpushare-schd-extender", namespace: "kube-system"},
   spec: {replicas: 1, selector: {matchLabels: $labels}, template: {metadata: {labels: $labels}, spec: {terminationGracePeriodSeconds: 0,
     nodeSelector: {"kubernetes.io/hostname": "node-a"}, containers: [{name: "main", image: $image, command: ["sleep", "3600"]}]}}}},
  {apiVersion: "v1", kind: "Service", metadata: {name: "gpushare-schd-extender", namespace: "kube-system"},
   spec: {type: "NodePort", selector: $labels, ports: [{port: 12345, nodePort: 32766}]}}]}' | kubectl create -f - >/dev/null
# A node with gpushare's plugin: two GPUs of 16 GiB, and no inventory.
has='{"cpu":"32","memory":"128Gi","pods":"110","aliyun.com/gpu-mem":"32","aliyun.com/gpu-count":"2"}'
jq -cn --argjson has "$has" '{apiVersion: "v1", kind: "Node",
  metadata: {name: "old-a", annotations: {"kwok.x-k8s.io/node": "fake"}, labels: {"kubernetes.io/hostname": "old-a", gpushare: "true"}},
  status: {capacity: $has, allocatable: $has}}' | kubectl create -f - >/dev/null

# old_pod NAME UNITS GPU: creates a pod that gpushare's extender bound. The extender writes the
# annotations before the Binding, and gpushare's plugin sets ASSIGNED.
old_pod() {
  gpu_pod "$1" "{\"aliyun.com/gpu-mem\": \"$2\"}" "{\"annotations\": {\"ALIYUN_COM_GPU_MEM_IDX\": \"$3\", \"ALIYUN_COM_GPU_MEM_POD\": \"$2\",
    \"ALIYUN_COM_GPU_MEM_DEV\": \"16\", \"ALIYUN_COM_GPU_MEM_ASSUME_TIME\": \"1700000000000000000\", \"ALIYUN_COM_GPU_MEM_ASSIGNED\": \"true\"}}" |
    jq -c '.spec.schedulerName = "gone-by-now" | .spec.nodeName = "old-a"' | kubectl create -f - >/dev/null
}
old_pod before 10 0
kube_scheduler_pod
wait_for 20 "a pod that gpushare placed runs" pod_is before Running

check "step 1: gpushare's extender is scaled down" page 'scale deployment/gpushare-schd-extender'
check "step 1: its pod is gone" page 'wait --for=delete pod -l app=gpushare'
jq -cn --argjson pod "$(gpu_pod late '{"aliyun.com/gpu-mem": "6"}')" '{app: "late"} as $labels | {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: "late"},
  spec: {replicas: 1, selector: {matchLabels: $labels}, template: {metadata: {labels: $labels}, spec: $pod.spec}}}' | kubectl create -f - >/dev/null
late() { kubectl get pods -l app=late -o "jsonpath={.items[*]$1}"; }
late_was_tried() { [[ $(late .status.conditions[0].message) == *32766* ]]; }
wait_for 20 "a new GPU pod waits, because kube-scheduler cannot reach an extender" late_was_tried
kubectl run plain --image="$BUSYBOX_IMAGE" --restart=Never -- sleep 3600 >/dev/null
wait_for 20 "a new pod without GPUs runs" pod_is plain Running

notes=$(chart install --set agent.enabled=false --wait --timeout 90s --set-json "recordPolicy.alsoAllowed=[\"$OLD_PLUGIN\"]")
expect_match "step 2: the chart is installed without agents, and the notes say why records are not protected yet" \
  'STATUS: deployed.*can still write.*still has a component of an original system .Deployment kube-system/gpushare-schd-extender.' "$notes"
expect "the waiting pod still has the default scheduler and no node" default-scheduler: "$(late .spec.schedulerName):$(late .spec.nodeName)"
waiting=$(page 'kubectl get pods -A --field-selector')
expect_match "the command of the page lists the waiting pod" "$(late .metadata.name)" "$waiting"
kubectl delete pod "$(late .metadata.name)" >/dev/null
late_runs() { [[ $(late .status.phase) == Running ]]; }
wait_for 30 "after its deletion, its controller creates a pod that Tessera places" late_runs
nothing_in "the list is empty" page 'kubectl get pods -A --field-selector'
check "gpushare's extender is deleted" page 'delete deployment/gpushare-schd-extender'
plain_scheduler
cluster restart kube-scheduler
kubectl delete deployment late --cascade=foreground --wait=true >/dev/null
gpu_pod second '{"aliyun.com/gpu-mem": "8"}' | kubectl create -f - >/dev/null
wait_for 30 "a new pod runs on the node with gpushare's plugin" pod_is second Running
legacy() { kubectl get pod "$1" -o json | jq -r --arg key "ALIYUN_COM_GPU_MEM_$2" '.metadata.annotations[$key]'; }
expect "it is on the free GPU, with the annotations that gpushare's plugin needs" "1 8 false" "$(legacy second IDX) $(legacy second POD) $(legacy second ASSIGNED)"
gpu_pod more '{"aliyun.com/gpu-mem": "9"}' | kubectl create -f - >/dev/null
waits() { kubectl get pod more -o 'jsonpath={.status.conditions[0].message}' | grep -q 'no single GPU has 9GiB free'; }
wait_for 20 "9 GiB on one GPU are not free, and the pod waits with that reason" waits
shows() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" inspect gpushare | awk '$1 == "old-a" {print $3, $4}'; }
expect "tessera inspect counts both pods" "10/16 8/16" "$(shows)"

expect_match "without gpushare's extender, its plugin on a node still counts" 'can still write.*the device plugin of node old-a' "$(chart upgrade --reset-then-reuse-values)"
check "the policy is set to deny, with an exception for gpushare's plugin" chart upgrade --reset-then-reuse-values --set recordPolicy.action=deny --wait --timeout 90s
assign() { kubectl annotate pod second "ALIYUN_COM_GPU_MEM_ASSIGNED=${2:-true}" --overwrite --as="$1" ${3:+"$3"} 2>&1 || true; }
kubectl create clusterrole old-plugin --verb=get,patch --resource=pods >/dev/null
kubectl create clusterrolebinding old-plugin --clusterrole=old-plugin --user="$OLD_PLUGIN" --user=another-user >/dev/null
refused_to() { assign "$1" "$2" --dry-run=server | grep -q denied; } # the API server takes a moment to learn of a changed policy
wait_for 10 "another user cannot change the annotation ASSIGNED" refused_to another-user true
expect_match "gpushare's plugin can change it" annotated "$(assign "$OLD_PLUGIN")"

# Step 3: the node gets its agent, which publishes the inventory.
inventory=$("$TESSERA" inventory --machine "$CHART_ROOT/tests/chart/cluster/old-box.yaml" --name old-a -o json | jq -r '(.items[0] // .).metadata.annotations["tessera.io/inventory"]')
kubectl create clusterrole writes-nodes --verb=get,patch --resource=nodes >/dev/null
kubectl create clusterrolebinding writes-nodes --clusterrole=writes-nodes --user="$OLD_PLUGIN" >/dev/null
kubectl annotate node old-a "tessera.io/inventory=$inventory" --as="$OLD_PLUGIN" >/dev/null
expect "step 3: the pods hold the same GPUs" "10/16 8/16" "$(shows)"
expect "step 3: the pods kept running without a restart" "Running Running 0 0" "$(kubectl get pods before second -o 'jsonpath={.items[*].status.phase} {.items[*].status.containerStatuses[0].restartCount}')"
problems() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" check 2>&1 || true; }
lacks "step 3: tessera check has no finding about them" 'before|second' "$(problems)"
kubectl delete pod before --grace-period=0 --force >/dev/null 2>&1
wait_for 30 "when gpushare's pod ends, the waiting pod runs" pod_is more Running
expect "it is on GPU 0" 0 "$(legacy more IDX)"

# Step 4 of the page.
check "step 4: audit, as with a migration that kept the default" chart upgrade --reset-then-reuse-values --set recordPolicy.action=audit
expect_match "step 4: the exception is removed, and auto denies, because nothing of gpushare is left" \
  'Only Tessera can write.*the cluster has no component of an original system' "$(chart upgrade --reset-values --set agent.enabled=false --wait --timeout 90s)"
wait_for 10 "gpushare's plugin can no longer write records" refused_to "$OLD_PLUGIN" false
rm -f "$config"
finish
