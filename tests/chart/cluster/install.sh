#!/usr/bin/env bash
# Installs, upgrades and uninstalls the chart with its default, a second scheduler, on a real
# cluster. Manifests of users stay unchanged. Only Tessera can write records once the policy denies
# it to others, which is the default where no original system is installed.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=webhook-checks.sh
source "$(dirname "$0")/webhook-checks.sh"

# As on GKE, critical pods need a ResourceQuota in their namespace.
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
expect_match "without a kube-scheduler pod, helm says what to set" 'scheduler.image.repository=REGISTRY/kube-scheduler' "$without"
kube_scheduler_pod
# An earlier version of the chart, which lacks one current value and has one that no longer exists.
older=$S/tmp/older-chart
cp -r "$CHART" "$older"
rm "$older/values.schema.json" "$older/templates/networkpolicy.yaml"
sed -i '/^networkPolicy:/,$d' "$older/values.yaml"
echo 'gone: true' >>"$older/values.yaml"
critical() { kubectl run critical --image="$BUSYBOX_IMAGE" --overrides='{"spec": {"priorityClassName": "system-cluster-critical"}}' --dry-run=server 2>&1 || true; }
expect_match "critical pods need a quota in this cluster" 'insufficient quota to match these scopes' "$(critical)"
notes=$(CHART=$older chart install --set agent.enabled=false --set criticalPodsQuota.enabled=true --set recordPolicy.action=audit --wait --timeout 90s)
expect_match "helm install succeeds and prints the next steps" 'STATUS: deployed.*tessera-scheduler.*use it automatically; your manifests stay as they are' "$notes"

gpu_pod shared '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
kubectl run plain --image="$BUSYBOX_IMAGE" --restart=Never -- true >/dev/null
wait_for 30 "a GPU pod with an unchanged manifest runs" pod_is shared Running
scheduler_of() { kubectl get pod "$1" -o 'jsonpath={.spec.schedulerName}'; }
expect "the policy set its schedulerName" tessera-scheduler "$(scheduler_of shared)"
expect "the record has the pod's share" '[3]' "$(record shared | jq -c '[.containers.main[].mem]')"
expect "the policy does not change a pod without GPUs" default-scheduler "$(scheduler_of plain)"
sets_scheduler_names "the policy"

forge() { gpu_pod forged '{"aliyun.com/gpu-mem": "1"}' '{"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}' | kubectl create --dry-run=server -f - 2>&1; }
expect_match "audit: a pod that brings its own record causes only a warning" 'Warning:.*only Tessera may write the annotation ALIYUN_COM_GPU_MEM_IDX.*created' "$(forge || true)"

expect "Tessera's kube-scheduler has the version of the cluster" "$SCHEDULER_IMAGE:$(tool_version kube-scheduler)" \
  "$(in_space get deployment tessera-scheduler -o json | jq -r '.spec.template.spec.containers[1].image')"

before=$(in_space get pods -o name | sort)
with_old_defaults() { chart upgrade --reuse-values 2>&1 || true; }
expect_match "helm upgrade with --reuse-values is rejected" "additional properties 'gone' not allowed" "$(with_old_defaults)"
notes=$(chart upgrade --reset-then-reuse-values --set recordPolicy.action=auto --set policies.shared=spread --wait --timeout 90s)
expect_match "helm upgrade with --reset-then-reuse-values succeeds; auto denies, because there is no original system" \
  'STATUS: deployed.*Only Tessera can write.*recordPolicy.action is auto, and the cluster has no component of an original system' "$notes"
expect "values of the installation are kept" "" "$(in_space get daemonsets -o name)"
check "the changed configuration creates new pods" test "$before" != "$(in_space get pods -o name | sort)"
expect "an existing pod keeps running and keeps its record" 'Running [3]' \
  "$(kubectl get pod shared -o 'jsonpath={.status.phase}') $(record shared | jq -c '[.containers.main[].mem]')"
refuses() { [[ $(forge || true) == *denied* ]]; } # the API server takes a moment to learn of a changed policy
wait_for 10 "deny: the policy is active" refuses
expect_match "deny: a forged record is rejected with advice" 'denied.*only Tessera may write the annotation ALIYUN_COM_GPU_MEM_IDX' "$(forge || true)"
annotate() { kubectl annotate pod shared tessera.io/allocation- 2>&1 || true; }
expect_match "deny: removing a record is rejected, even for an administrator" 'denied.*tessera.io/allocation.*admin tried' "$(annotate)"
patch_status() { kubectl patch pod shared --subresource=status --type=merge -p "$1" 2>&1 || true; }
expect_match "deny: a record in a status update is rejected" 'denied.*tessera.io/allocation' "$(patch_status '{"metadata": {"annotations": {"tessera.io/allocation": "{}"}}}')"
expect_match "deny: a status update without a record is accepted" 'pod/shared patched' "$(patch_status '{"status": {"message": "x"}}')"
held=$(record shared)
replace_by() { kubectl get pod shared -o json | jq -c '.metadata.annotations["tessera.io/allocation"] = "{}"' | kubectl replace --raw "/api/v1/namespaces/default/pods/shared/$1" -f - 2>&1; }
for way in ephemeralcontainers resize; do
  expect_match "the API server serves pods/$way" 'shared' "$(replace_by "$way" || true)"
  expect "that subresource cannot change a record" "$held" "$(record shared)"
done
inventory() { kubectl annotate node sim-0001 tessera.io/inventory='{}' --overwrite 2>&1 || true; }
expect_match "deny: a forged inventory is rejected" 'denied.*tessera.io/inventory' "$(inventory)"
bind_forged() {
  gpu_pod bound '{"aliyun.com/gpu-mem": "1"}' | jq -c '.spec.schedulerName = "other-scheduler"' | kubectl create -f - >/dev/null
  jq -cn '{apiVersion: "v1", kind: "Binding", metadata: {name: "bound", annotations: {"tessera.io/allocation": "{}"}},
    target: {apiVersion: "v1", kind: "Node", name: "sim-0001"}}' |
    kubectl create --raw /api/v1/namespaces/default/pods/bound/binding -f - 2>&1 || true
}
expect_match "deny: a record in a foreign Binding is rejected" 'denied.*tessera.io/allocation' "$(bind_forged)"
tessera() { KUBECONFIG=$(cluster kubeconfig) "$TESSERA" "$@" 2>&1 || true; }
expect_match "tessera why reports a scheduler that does not call Tessera" 'its schedulerName is other-scheduler, which does not call Tessera: create it again with tessera-scheduler' "$(tessera why bound)"
expect_match "tessera check reports that scheduler as well" 'pod default/bound .*the scheduler other-scheduler' "$(tessera check)"
# The pods from before the upgrade may release the Lease only now.
schedulers_are_well() {
  local findings
  findings=$(tessera check)
  [[ $findings == *default/bound* && ! $findings =~ no_scheduler|scheduler_down|not_wired|no_leader ]]
}
try_wait_for 30 "tessera check has no other finding about schedulers" schedulers_are_well || tessera check
check "other annotations can be written" kubectl annotate pod shared team=ml
gpu_pod after '{"aliyun.com/gpu": "2"}' | kubectl create -f - >/dev/null
wait_for 30 "Tessera can still write records: a pod with two whole GPUs runs" pod_is after Running
expect "its record names two GPUs" 2 "$(record after | jq '[.containers.main[].gpu] | unique | length')"
no_forbidden_calls "the API server rejected no call of the scheduler or the extender" app.kubernetes.io/component=scheduler
expect "their account cannot replace nodes, read Secrets or do everything" "no no no" \
  "$(may tessera-scheduler update nodes) $(may tessera-scheduler get secrets -n kube-system) $(may tessera-scheduler '*' '*')"
expect "as security.md says, their account has the permissions of kube-scheduler" "yes yes" "$(may tessera-scheduler delete pods) $(may tessera-scheduler patch pods --subresource=status)"

# auto never opens the records again: not for a workload of a tenant, not for one in kube-system.
original() { kubectl -n "$1" create deployment gpushare-schd-extender --image="$BUSYBOX_IMAGE" --replicas=0 >/dev/null; }
original default
original kube-system
expect_match "auto keeps deny when an original system appears" 'other writers were already denied before' "$(chart upgrade --reset-then-reuse-values)"
expect_match "audit can be chosen" 'Clients other than Tessera can still write.*recordPolicy.action is audit' "$(chart upgrade --reset-then-reuse-values --set recordPolicy.action=audit)"
expect_match "auto chooses audit while kube-system has an original extender" 'has a component of an original system .Deployment kube-system/gpushare-schd-extender.' \
  "$(chart upgrade --reset-then-reuse-values --set recordPolicy.action=auto)"
kubectl -n kube-system delete deployment gpushare-schd-extender >/dev/null
expect_match "a Deployment of that name in another namespace does not count" 'Only Tessera can write' "$(chart upgrade --reset-then-reuse-values)"

notes=$(chart upgrade --reset-then-reuse-values --set schedulerNamePolicy.enabled=false)
expect_match "without the policy, the notes say why pods must set schedulerName" 'because schedulerNamePolicy.enabled is false.*schedulerName: tessera-scheduler' "$notes"
# As on Kubernetes before 1.36: a webhook instead of the policy.
webhook_checks --set schedulerNamePolicy.enabled=auto --set schedulerNameWebhook.enabled=true

uninstall_removes_all helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "all pods keep running" "Running Running" "$(kubectl get pods shared after -o 'jsonpath={.items[*].status.phase}')"
rm -f "$limits"
finish
