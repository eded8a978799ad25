#!/usr/bin/env bash
# Uses the tokens of the agent and of the scheduler as an attacker would who took them from a node.
# The policies of the chart limit each account to the keys that its program writes. Also checks what
# users see: warnings about requests, and the tessera command with few rights.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

chart_cluster_start --nodes 1 --sim-nodes 1
kube_scheduler_pod
kubectl label node node-a gpushare=true >/dev/null
kubectl taint node node-a kept=true:PreferNoSchedule >/dev/null
check "the chart is installed" chart install --set simulate.machine=dgx1v --set agent.stateDir=/run/tessera --wait --timeout 90s
gpu_pod shared '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "a GPU pod runs" pod_is shared Running

server=$(sed -n 's/ *server: //p' "$(cluster kubeconfig)")
# token ACCOUNT POD: prints a token as kubelet mounts it into that pod.
token() { in_space create token "$1" --bound-object-kind=Pod --bound-object-name="$2"; }
# as TOKEN KUBECTL-ARGUMENTS...: runs kubectl with that token and no other credentials.
as() { "$(tool_path kubectl)" --kubeconfig=/dev/null --server="$server" --insecure-skip-tls-verify --token="$1" "${@:2}" 2>&1 || true; }
# patch TOKEN PATH PATCH [TYPE]: sends a patch as a dry run. Prints "patched NAME" or the error. Unlike
# kubectl, it does not read the object first, for which the accounts have no permission everywhere.
patch() {
  curl -sSk --max-time 10 -X PATCH -H "Authorization: Bearer $1" -H "Content-Type: application/${4:-strategic-merge}-patch+json" \
    "$server/api/v1/$2?dryRun=All" -d "$3" 2>&1 |
    jq -rR -s '. as $body | try (fromjson | if .kind == "Status" then .message else "patched \(.metadata.name)" end) catch $body'
}
pod_of() { in_space get pods -l "app.kubernetes.io/component=$1" -o 'jsonpath={.items[0].metadata.name}'; }
agent=$(pod_of agent)
scheduler=$(pod_of scheduler)
agent_token=$(token tessera-agent "$agent")
scheduler_token=$(token tessera-scheduler "$scheduler")
as_agent() { as "$agent_token" "$@"; }
agent_patch() { patch "$agent_token" "$@"; }
scheduler_patch() { patch "$scheduler_token" "$@"; }
own=nodes/node-a
shared=namespaces/default/pods/shared

# The agent writes its keys on its own Node. The agent itself has written its inventory, labels and
# condition under the policy; if the policy had rejected a write, the agent would have logged it.
labelled() { [[ $(kubectl get node node-a -o 'jsonpath={.metadata.labels.nvidia\.com/gpu\.count}') == 8 ]]; }
wait_for 20 "the agent labels its node" labelled
condition() { kubectl get node node-a -o 'jsonpath={.status.conditions[?(@.type=="GPUsHealthy")].status}'; }
expect "the agent sets its condition" True "$(condition)"
echo 'gpus: {5: {lost: true}}' | cluster exec --node node-a -- tee /run/tessera/sim/control.yaml >/dev/null
unhealthy() { [[ $(condition) == False ]]; }
wait_for 20 "the agent changes its condition" unhealthy
for key in $(jq -r '.nodes.annotations | to_entries[] | select(.value | index("agent")).key | sub("\\*"; "0_1")' "$CHART/files/keys.json"); do
  expect_match "the agent can write the annotation $key of its node" '^patched node-a' "$(agent_patch $own "{\"metadata\": {\"annotations\": {\"$key\": \"x\"}}}")"
done

denied='the agent of node node-a may not change'
expect_match "the agent cannot write another annotation" "$denied the annotation try of nodes node-a" "$(agent_patch $own '{"metadata": {"annotations": {"try": "1"}}}')"
expect_match "the agent cannot remove another annotation" "$denied the annotation node.alpha.kubernetes.io/ttl" "$(agent_patch $own '{"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": null}}}' merge)"
for label in node-restriction.kubernetes.io/secure node-role.kubernetes.io/control-plane kubernetes.io/hostname gpushare; do
  expect_match "the agent cannot write the label $label" "$denied the label $label of nodes node-a" "$(agent_patch $own "{\"metadata\": {\"labels\": {\"$label\": \"mine\"}}}")"
done
expect_match "the agent cannot remove a label of others" "$denied the label gpushare" "$(agent_patch $own '{"metadata": {"labels": {"gpushare": null}}}')"
expect_match "the agent cannot remove a taint" "$denied the field spec of nodes node-a" "$(agent_patch $own '{"spec": {"taints": []}}' merge)"
expect_match "the agent cannot cordon its node" "$denied the field spec" "$(agent_patch $own '{"spec": {"unschedulable": true}}')"
expect_match "the agent cannot add a finalizer" "$denied the field finalizers" "$(agent_patch $own '{"metadata": {"finalizers": ["example.com/x"]}}')"
for field in capacity allocatable; do
  expect_match "the agent cannot write $field" "$denied the field $field of nodes node-a" "$(agent_patch $own/status "{\"status\": {\"$field\": {\"example.com/fpga\": \"9\"}}}")"
done
expect_match "the agent cannot write the addresses of its node" "$denied the field addresses" "$(agent_patch $own/status '{"status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}}')"
expect_match "the agent cannot write another condition" "$denied the condition Ready of nodes node-a" "$(agent_patch $own/status '{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}')"
# shellcheck disable=SC2016 # a directive of strategic merge patches
expect_match "the agent cannot remove another condition" "$denied the condition Ready" "$(agent_patch $own/status '{"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}')"
expect_match "the agent cannot write a label in a status update" "$denied the label node-role.kubernetes.io/x" "$(agent_patch $own/status '{"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}}')"
expect_match "the agent cannot write another node" 'the agent of node node-a may not write nodes sim-0001' "$(agent_patch nodes/sim-0001 '{"metadata": {"annotations": {"tessera.io/inventory": "{}"}}}')"
expect_match "an account cannot use a token without a node" 'does not name a node' \
  "$(patch "$(in_space create token tessera-agent)" $own '{"metadata": {"annotations": {"tessera.io/inventory": "x"}}}')"

# The agent and pods.
expect_match "the agent can correct the record of a pod on its node" '^patched shared' "$(agent_patch $shared '{"metadata": {"annotations": {"tessera.io/allocation": "x"}}}')"
expect_match "the agent cannot write another annotation of that pod" "$denied the annotation try of pods shared" "$(agent_patch $shared '{"metadata": {"annotations": {"try": "1"}}}')"
expect_match "the agent cannot write a label of that pod" "$denied the label app of pods shared" "$(agent_patch $shared '{"metadata": {"labels": {"app": "x"}}}')"
expect_match "the agent cannot change the image of that pod" "$denied the field spec of pods shared" "$(agent_patch $shared '{"spec": {"containers": [{"name": "main", "image": "other"}]}}')"
expect_match "the agent cannot write a pod on another node" 'may not write pods kube-scheduler-sim-0001' \
  "$(agent_patch namespaces/kube-system/pods/kube-scheduler-sim-0001 '{"metadata": {"annotations": {"tessera.io/allocation": "x"}}}')"
expect_match "the agent cannot delete a pod" 'cannot delete resource "pods"' "$(as_agent delete pod shared --dry-run=server)"
expect_match "the agent cannot write the ConfigMap of another node" 'may not write configmaps unhealthy-gpu-sim-0001' "$(as_agent -n kube-system create configmap unhealthy-gpu-sim-0001)"

# The extender's account, which in a second scheduler is also that of kube-scheduler.
expect_match "the extender can acknowledge that an agent leaves" '^patched node-a' "$(scheduler_patch $own '{"metadata": {"annotations": {"tessera.io/draining-seen": "x"}}}')"
expect_match "the extender cannot write another annotation of a node" 'the extender may not change the annotation tessera.io/inventory of node node-a' "$(scheduler_patch $own '{"metadata": {"annotations": {"tessera.io/inventory": "{}"}}}')"
expect_match "the extender cannot write a label of a node" 'the extender may not change the label node-role.kubernetes.io/x' "$(scheduler_patch $own '{"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}}')"
expect_match "the extender cannot remove a taint" 'the extender may not change the field spec' "$(scheduler_patch $own '{"spec": {"taints": []}}' merge)"
expect_match "outside a Binding, the extender's account cannot write a record" 'only Tessera may write the annotation tessera.io/allocation' \
  "$(scheduler_patch $shared/status '{"metadata": {"annotations": {"tessera.io/allocation": "{}"}}}')"

# A tenant in a cluster that never had gpushare: the default is deny.
forge() { gpu_pod forged '{"aliyun.com/gpu-mem": "1"}' '{"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}' | kubectl create --dry-run=server -f - 2>&1 || true; }
expect_match "by default, a forged record is rejected" 'denied.*only Tessera may write the annotation ALIYUN_COM_GPU_MEM_IDX' "$(forge)"
# Many small annotations must not exhaust the budget of a policy and so keep the agent from
# repairing a record.
jq -cn '{metadata: {annotations: ([range(2000) | {key: "a\(.)", value: ""}] | from_entries)}}' >"$S/tmp/many.json"
check "a pod can have 2,000 annotations" kubectl patch pod shared --type=merge --patch-file "$S/tmp/many.json"
expect_match "the agent can correct the record of that pod" '^patched shared' "$(agent_patch $shared '{"metadata": {"annotations": {"tessera.io/allocation": "x"}}}')"

# Warnings about requests that are often a mistake. kubectl prints them, and the pod is accepted.
dry_run() { kubectl create --dry-run=server -f - 2>&1 || true; }
mixed='{"aliyun.com/gpu-mem": "3", "aliyun.com/gpu": "1"}'
warning='Warning:.*container "main" gets whole GPUs .aliyun.com/gpu. and also a share of another GPU .aliyun.com/gpu-mem: 3.; for a share of one GPU, remove aliyun.com/gpu;'
expect_match "whole and shared GPUs in one container cause a warning" "$warning.*created" "$(gpu_pod both "$mixed" | dry_run)"
expect_match "the warning names the resource that the container requests" 'for a share of one GPU, remove aliyun.com/gpu-count;' \
  "$(gpu_pod both '{"aliyun.com/gpu-mem": "3", "aliyun.com/gpu-count": "1"}' | dry_run)"
deployment() { gpu_pod x "$1" '{"labels": {"app": "x"}}' | jq -c '{apiVersion: "apps/v1", kind: "Deployment", metadata: {name: "x"}, spec: {
  selector: {matchLabels: {app: "x"}}, template: {metadata: {labels: {app: "x"}}, spec: (.spec | del(.terminationGracePeriodSeconds))}}}'; }
expect_match "a Deployment with such a container causes the warning, too" "$warning.*created" "$(deployment "$mixed" | dry_run)"
cron() { deployment "$1" | jq -c '{apiVersion: "batch/v1", kind: "CronJob", metadata: {name: "x"}, spec: {schedule: "0 * * * *",
  jobTemplate: {spec: {template: (.spec.template | .spec.restartPolicy = "Never")}}}}'; }
expect_match "so does a CronJob" "$warning.*created" "$(cron "$mixed" | dry_run)"
expect_match "GPU memory with a suffix causes a warning" 'Warning:.*requests aliyun.com/gpu-mem: 3Gi, but the number counts GiB.*created' "$(gpu_pod gi '{"aliyun.com/gpu-mem": "3Gi"}' | dry_run)"
lacks "other requests cause none" Warning "$(gpu_pod one '{"aliyun.com/gpu-mem": "3"}' | dry_run) $(gpu_pod none '{}' | dry_run) $(deployment '{"aliyun.com/gpu": "1"}' | dry_run)"
lacks "the policy has no expression that the API server finds faulty" expressionWarnings "$(kubectl get validatingadmissionpolicy tessera-requests -o json)"
gpu_pod both "$mixed" | kubectl create -f - >/dev/null 2>&1
mixed_event() { [[ $(kubectl get events --field-selector involvedObject.name=both,reason=MixedGpuRequest -o 'jsonpath={.items[*].message}') == *'for 3GiB of one GPU, remove aliyun.com/gpu'* ]]; }
wait_for 20 "an Event of the pod says so, too" mixed_event

# A user with rights in one namespace, and then with the viewer role in the whole cluster.
kubectl create namespace team >/dev/null
kubectl -n team create serviceaccount jane >/dev/null
kubectl -n team create rolebinding jane --clusterrole=tessera-viewer --serviceaccount=team:jane >/dev/null
gpu_pod share '{"aliyun.com/gpu-mem": "2"}' '{"namespace": "team"}' | kubectl create -f - >/dev/null
gpu_pod huge '{"aliyun.com/gpu-mem": "100"}' '{"namespace": "team"}' | kubectl create -f - >/dev/null
cat >"$S/tmp/jane" <<END
{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x, namespace: team}}],
 clusters: [{name: x, cluster: {server: "$server", insecure-skip-tls-verify: true}}], users: [{name: x, user: {token: "$(kubectl -n team create token jane)"}}]}
END
# jane ARGUMENTS...: runs tessera as that user. Standard error comes after standard output.
jane() { "$TESSERA" "$@" --kubeconfig "$S/tmp/jane" 2>"$S/tmp/jane.err" && echo "exit 0" || echo "exit $?"; cat "$S/tmp/jane.err"; }
missing='Not shown: nodes and pods outside namespace team, which you may not list; ask for a ClusterRoleBinding to the ClusterRole tessera-viewer'
why_huge() { [[ $(jane why huge) == *'Event GpuUnavailable: '* ]]; }
wait_for 20 "with rights in one namespace, tessera why shows the Event of a pod that waits" why_huge
expect_match "it shows the request, what the scheduler says and what is missing" \
  "huge needs aliyun.com/gpu-mem: 100 on one GPU.*tessera-scheduler says: 0/2 nodes are available.*$missing.exit 0" "$(jane why huge)"
why_share() { [[ $(jane why share) == *'is on node node-a, with GPU GPU-'*' (aliyun.com/gpu-mem: 2), as requested.'*'exit 0'* ]]; }
wait_for 30 "it shows the record of a pod that has a node" why_share
expect_match "tessera top pod shows the pods of the namespace, and one warning" "team +huge +- +100 units +pending.team +share +node-a +2 units +GPU-[^ ]*\(2 units\).exit 0.warning: $missing$" "$(jane top pod)"
expect_match "another namespace is one error" '^exit 1.tessera: [^'$'\n'']*ClusterRole tessera-viewer in namespace default[^'$'\n'']*$' "$(jane why shared -n default)"
kubectl create clusterrolebinding jane --clusterrole=tessera-viewer --serviceaccount=team:jane >/dev/null
sees_all() { [[ $(jane why huge) == *'huge needs 100 GiB on one GPU (binpack). No node fits now.'*'exit 0'* ]]; }
wait_for 20 "with the viewer role in the whole cluster, tessera why names the nodes" sees_all
expect_match "tessera check works" '[0-9]+ pods? on ' "$(jane check)"

no_forbidden_calls "the API server rejected no call of the agents" app.kubernetes.io/component=agent
finish
