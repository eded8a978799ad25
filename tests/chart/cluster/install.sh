#!/usr/bin/env bash
# The chart's default, a second scheduler: installed, upgraded and uninstalled on a real cluster; manifests stay as they are,
# and nobody but Tessera can write a record once the policy denies it.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# As on GKE: pods are critical only where a quota of their namespace says so.
limits=$(mktemp)
cat >"$limits" <<'YAML'
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}]
YAML
chart_cluster_start --nodes 1 --sim-nodes 2 --sim-machine dgx1v --admission-config "$limits"
without=$(chart install --set agent.enabled=false 2>&1 || true)
expect_match "where no kube-scheduler can be seen, helm says what to do" 'scheduler.image.repository=REGISTRY/kube-scheduler' "$without"
kube_scheduler_pod
# An earlier version of the chart: it lacks a value that there is today, and has one that is gone.
older=$S/tmp/older-chart
cp -r "$CHART" "$older"
rm "$older/values.schema.json" "$older/templates/networkpolicy.yaml"
sed -i '/^networkPolicy:/,$d' "$older/values.yaml"
echo 'gone: true' >>"$older/values.yaml"
critical() { kubectl run critical --image="$BUSYBOX_IMAGE" --overrides='{"spec": {"priorityClassName": "system-cluster-critical"}}' --dry-run=server 2>&1 || true; }
expect_match "critical pods need a quota in this cluster" 'insufficient quota to match these scopes' "$(critical)"
notes=$(CHART=$older chart install --set agent.enabled=false --set criticalPodsQuota.enabled=true --wait --timeout 90s)
expect_match "helm install ends well and says what comes next" 'STATUS: deployed.*tessera-scheduler.*use it automatically; your manifests stay as they are' "$notes"

gpu_pod shared '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
kubectl run plain --image="$BUSYBOX_IMAGE" --restart=Never -- true >/dev/null
wait_for 30 "a pod of an unchanged manifest runs on a GPU" pod_is shared Running
scheduler_of() { kubectl get pod "$1" -o 'jsonpath={.spec.schedulerName}'; }
expect "because the policy sent it to our scheduler" tessera-scheduler "$(scheduler_of shared)"
expect "with its share on record" '[3]' "$(record shared | jq -c '[.containers.main[].mem]')"
expect "a pod without GPUs is left alone" default-scheduler "$(scheduler_of plain)"

forge() { gpu_pod forged '{"aliyun.com/gpu-mem": "1"}' '{"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}' | kubectl create --dry-run=server -f - 2>&1; }
expect_match "at first, who writes a record himself is only warned" 'Warning:.*only Tessera may write the annotation ALIYUN_COM_GPU_MEM_IDX.*created' "$(forge || true)"

expect "its kube-scheduler is the cluster's" "$SCHEDULER_IMAGE:$(tool_version kube-scheduler)" \
  "$(in_space get deployment tessera-scheduler -o json | jq -r '.spec.template.spec.containers[1].image')"

before=$(in_space get pods -o name | sort)
with_old_defaults() { chart upgrade --reuse-values 2>&1 || true; }
expect_match "helm upgrade with the old chart's defaults is refused" "additional properties 'gone' not allowed" "$(with_old_defaults)"
check "helm upgrade as the guide has it: another policy, records closed" chart upgrade --reset-then-reuse-values --set recordPolicy.action=deny --set policies.shared=spread --wait --timeout 90s
expect "what was set at the installation is kept" "" "$(in_space get daemonsets -o name)"
check "the new configuration has new pods" test "$before" != "$(in_space get pods -o name | sort)"
expect "a pod that was there before keeps running, with its record" 'Running [3]' \
  "$(kubectl get pod shared -o 'jsonpath={.status.phase}') $(record shared | jq -c '[.containers.main[].mem]')"
refuses() { [[ $(forge || true) == *denied* ]]; } # the API server takes a moment to learn of a changed policy
wait_for 10 "records are closed" refuses
expect_match "a forged one is refused, with what to do" 'denied.*only Tessera may write the annotation ALIYUN_COM_GPU_MEM_IDX' "$(forge || true)"
annotate() { kubectl annotate pod shared tessera.io/allocation- 2>&1 || true; }
expect_match "taking one away is refused, to an administrator too" 'denied.*tessera.io/allocation.*admin tried' "$(annotate)"
patch_status() { kubectl patch pod shared --subresource=status --type=merge -p "$1" 2>&1 || true; }
expect_match "so is one that comes with a pod's status" 'denied.*tessera.io/allocation' "$(patch_status '{"metadata": {"annotations": {"tessera.io/allocation": "{}"}}}')"
expect_match "a status alone is not" 'pod/shared patched' "$(patch_status '{"status": {"message": "x"}}')"
held=$(record shared)
replace_by() { kubectl get pod shared -o json | jq -c '.metadata.annotations["tessera.io/allocation"] = "{}"' | kubectl replace --raw "/api/v1/namespaces/default/pods/shared/$1" -f - 2>&1; }
for way in ephemeralcontainers resize; do
  expect_match "the API server knows pods/$way" 'shared' "$(replace_by "$way" || true)"
  expect "and changes no record by it" "$held" "$(record shared)"
done
inventory() { kubectl annotate node sim-0001 tessera.io/inventory='{}' --overwrite 2>&1 || true; }
expect_match "so is an inventory" 'denied.*tessera.io/inventory' "$(inventory)"
bind_forged() {
  gpu_pod bound '{"aliyun.com/gpu-mem": "1"}' | jq -c '.spec.schedulerName = "nobody"' | kubectl create -f - >/dev/null
  jq -cn '{apiVersion: "v1", kind: "Binding", metadata: {name: "bound", annotations: {"tessera.io/allocation": "{}"}},
    target: {apiVersion: "v1", kind: "Node", name: "sim-0001"}}' |
    kubectl create --raw /api/v1/namespaces/default/pods/bound/binding -f - 2>&1 || true
}
expect_match "so is a record in a Binding of somebody else" 'denied.*tessera.io/allocation' "$(bind_forged)"
tessera() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" "$@" 2>&1 || true; }
expect_match "tessera why knows a scheduler that does not ask Tessera" 'its schedulerName is nobody, which does not ask Tessera: create it again with tessera-scheduler' "$(tessera why bound)"
expect_match "so does tessera check" 'pod default/bound .*the scheduler nobody' "$(tessera check)"
# The pods of before the upgrade hand the Lease over only now.
schedulers_are_well() { [[ -z $(tessera check | grep -E 'no_scheduler|scheduler_down|not_wired|no_leader') ]]; }
try_wait_for 30 "which finds nothing else about schedulers" schedulers_are_well || tessera check
check "other annotations are nobody's business" kubectl annotate pod shared team=ml
gpu_pod after '{"aliyun.com/gpu": "2"}' | kubectl create -f - >/dev/null
wait_for 30 "Tessera itself may: a pod gets two whole GPUs" pod_is after Running
expect "on record too" 2 "$(record after | jq '[.containers.main[].gpu] | unique | length')"
expect "the extender and its scheduler were never refused anything" "" "$(forbidden_calls app.kubernetes.io/component=scheduler)"
may() { kubectl auth can-i "$@" --as="system:serviceaccount:$RELEASE_SPACE:tessera-scheduler" 2>/dev/null || true; }
expect "and may not write what is not theirs" "no no no" "$(may patch nodes) $(may get secrets -n kube-system) $(may '*' '*')"

# As on a cluster before 1.36.
notes=$(chart upgrade --reset-then-reuse-values --set schedulerNamePolicy.enabled=false --wait --timeout 90s)
expect_match "without the policy helm says why pods must name the scheduler" 'because schedulerNamePolicy.enabled is false.*schedulerName: tessera-scheduler' "$notes"
with_scheduler_name "$CHART_ROOT/deploy/examples/first.yaml" | kubectl create -f - >/dev/null
wait_for 30 "an example runs with the README's line" pod_is first Running
expect "on a GPU" '[3]' "$(record first | jq -c '[.containers.main[].mem]')"

check "helm uninstall" helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "leaves nothing of the chart" "" "$(ours_left)"
expect "and every pod where it was" "Running Running" "$(kubectl get pods shared after -o 'jsonpath={.items[*].status.phase}')"
rm -f "$limits"
finish
