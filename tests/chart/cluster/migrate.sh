#!/usr/bin/env bash
# docs/migration.md, as far as a cluster without the old components can show it: nodes of the old plugin and pods with records of the
# old extender are counted as they are, new pods go beside them, and nothing that runs is touched when a node gets its agent.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
OLD_PLUGIN=system:serviceaccount:kube-system:gpushare-device-plugin

page() { eval "$(page_command migration.md "$1")"; }

# kube-scheduler asks the old extender, as its own installation has it.
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
# Something that has the old extender's name and labels; it answers nobody.
jq -cn --arg image "$BUSYBOX_IMAGE" '{app: "gpushare", component: "gpushare-schd-extender"} as $labels | {apiVersion: "v1", kind: "List", items: [
  {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: "gpushare-schd-extender", namespace: "kube-system"},
   spec: {replicas: 1, selector: {matchLabels: $labels}, template: {metadata: {labels: $labels}, spec: {terminationGracePeriodSeconds: 0,
     nodeSelector: {"kubernetes.io/hostname": "node-a"}, containers: [{name: "main", image: $image, command: ["sleep", "3600"]}]}}}},
  {apiVersion: "v1", kind: "Service", metadata: {name: "gpushare-schd-extender", namespace: "kube-system"},
   spec: {type: "NodePort", selector: $labels, ports: [{port: 12345, nodePort: 32766}]}}]}' | kubectl create -f - >/dev/null
# What a node with the old plugin looks like: two GPUs of 16 GiB, and no inventory.
has='{"cpu":"32","memory":"128Gi","pods":"110","aliyun.com/gpu-mem":"32","aliyun.com/gpu-count":"2"}'
jq -cn --argjson has "$has" '{apiVersion: "v1", kind: "Node",
  metadata: {name: "old-a", annotations: {"kwok.x-k8s.io/node": "fake"}, labels: {"kubernetes.io/hostname": "old-a", gpushare: "true"}},
  status: {capacity: $has, allocatable: $has}}' | kubectl create -f - >/dev/null

# old_pod NAME UNITS GPU: as the old extender binds: annotations first, then the Binding; the old plugin sets ASSIGNED.
old_pod() {
  gpu_pod "$1" "{\"aliyun.com/gpu-mem\": \"$2\"}" "{\"annotations\": {\"ALIYUN_COM_GPU_MEM_IDX\": \"$3\", \"ALIYUN_COM_GPU_MEM_POD\": \"$2\",
    \"ALIYUN_COM_GPU_MEM_DEV\": \"16\", \"ALIYUN_COM_GPU_MEM_ASSUME_TIME\": \"1700000000000000000\", \"ALIYUN_COM_GPU_MEM_ASSIGNED\": \"true\"}}" |
    jq -c '.spec.schedulerName = "gone-by-now" | .spec.nodeName = "old-a"' | kubectl create -f - >/dev/null
}
old_pod before 10 0
kube_scheduler_pod
wait_for 20 "a pod of the old system runs" pod_is before Running

check "step 1: the old extender decides no more" page 'scale deployment/gpushare-schd-extender'
check "and its pod is gone" page 'wait --for=delete pod -l app=gpushare'
jq -cn --argjson pod "$(gpu_pod late '{"aliyun.com/gpu-mem": "6"}')" '{app: "late"} as $labels | {apiVersion: "apps/v1", kind: "Deployment", metadata: {name: "late"},
  spec: {replicas: 1, selector: {matchLabels: $labels}, template: {metadata: {labels: $labels}, spec: $pod.spec}}}' | kubectl create -f - >/dev/null
late() { kubectl get pods -l app=late -o "jsonpath={.items[*]$1}"; }
late_was_tried() { [[ $(late .status.conditions[0].message) == *32766* ]]; }
wait_for 20 "a GPU pod that comes now waits, because kube-scheduler reaches no extender" late_was_tried
kubectl run plain --image="$BUSYBOX_IMAGE" --restart=Never -- sleep 3600 >/dev/null
wait_for 20 "everything else goes on" pod_is plain Running

check "step 2: the part that decides, agents later" chart install --set agent.enabled=false --wait --timeout 90s \
  --set-json "recordPolicy.alsoAllowed=[\"$OLD_PLUGIN\"]"
expect "who was waiting belongs to nobody yet" default-scheduler: "$(late .spec.schedulerName):$(late .spec.nodeName)"
waiting=$(page 'kubectl get pods -A --field-selector')
expect_match "and is in the page's list" "$(late .metadata.name)" "$waiting"
kubectl delete pod "$(late .metadata.name)" >/dev/null
late_runs() { [[ $(late .status.phase) == Running ]]; }
wait_for 30 "its controller makes another one, which Tessera places" late_runs
expect "then the list is empty" "" "$(page 'kubectl get pods -A --field-selector' 2>/dev/null)"
check "the old extender goes for good" page 'delete deployment/gpushare-schd-extender'
plain_scheduler
cluster restart kube-scheduler
kubectl delete deployment late --cascade=foreground --wait=true >/dev/null
gpu_pod beside '{"aliyun.com/gpu-mem": "8"}' | kubectl create -f - >/dev/null
wait_for 30 "a new pod is placed on the old node" pod_is beside Running
legacy() { kubectl get pod "$1" -o json | jq -r --arg key "ALIYUN_COM_GPU_MEM_$2" '.metadata.annotations[$key]'; }
expect "on the GPU where the old pod is not, for the old plugin to serve" "1 8 false" "$(legacy beside IDX) $(legacy beside POD) $(legacy beside ASSIGNED)"
gpu_pod more '{"aliyun.com/gpu-mem": "9"}' | kubectl create -f - >/dev/null
waits() { kubectl get pod more -o 'jsonpath={.status.conditions[0].message}' | grep -q 'no single GPU has 9GiB free'; }
wait_for 20 "14 GiB are free, but no 9 on one GPU: the next one waits, with that reason" waits
shows() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" inspect gpushare | awk '$1 == "old-a" {print $3, $4}'; }
expect "kubectl inspect counts both kinds" "10/16 8/16" "$(shows)"

check "records closed, but not to the old components while they are needed" chart upgrade --reset-then-reuse-values --set recordPolicy.action=deny --wait --timeout 90s
assign() { kubectl annotate pod beside "ALIYUN_COM_GPU_MEM_ASSIGNED=${2:-true}" --overwrite --as="$1" ${3:+"$3"} 2>&1 || true; }
kubectl create clusterrole old-plugin --verb=get,patch --resource=pods >/dev/null
kubectl create clusterrolebinding old-plugin --clusterrole=old-plugin --user="$OLD_PLUGIN" --user=somebody >/dev/null
refused_to() { assign "$1" "$2" --dry-run=server | grep -q denied; } # the API server takes a moment to learn of a changed policy
wait_for 10 "somebody cannot say that a GPU was handed over" refused_to somebody true
expect_match "the old plugin can" annotated "$(assign "$OLD_PLUGIN")"

# Step 3: the node gets its agent, whose inventory says what is really there.
inventory=$("$TESSERA" inventory --machine "$CHART_ROOT/tests/chart/cluster/old-box.yaml" --name old-a -o json | jq -r '(.items[0] // .).metadata.annotations["tessera.io/inventory"]')
kubectl create clusterrole writes-nodes --verb=get,patch --resource=nodes >/dev/null
kubectl create clusterrolebinding writes-nodes --clusterrole=writes-nodes --user="$OLD_PLUGIN" >/dev/null
kubectl annotate node old-a "tessera.io/inventory=$inventory" --as="$OLD_PLUGIN" >/dev/null
expect "the same pods hold the same GPUs" "10/16 8/16" "$(shows)"
expect "and ran all the time" "Running Running 0 0" "$(kubectl get pods before beside -o 'jsonpath={.items[*].status.phase} {.items[*].status.containerStatuses[0].restartCount}')"
problems() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" check 2>&1 || true; }
expect "tessera check finds nothing wrong with them" "" "$(problems | grep -E 'before|beside' || true)"
kubectl delete pod before --grace-period=0 --force >/dev/null 2>&1
wait_for 30 "when the old pod ends, the waiting one gets its place" pod_is more Running
expect "on GPU 0" 0 "$(legacy more IDX)"

# Step 4, as the page has it.
check "clean up" chart upgrade --reset-values --set agent.enabled=false --set recordPolicy.action=deny --wait --timeout 90s
wait_for 10 "now the old plugin is somebody, too" refused_to "$OLD_PLUGIN" false
rm -f "$config"
finish
