#!/usr/bin/env bash
# attach=cluster-scheduler: the cluster's own kube-scheduler calls a Service over mutual TLS, with
# the configuration from the chart. An upgrade keeps the certificates. When the leader is killed,
# the Service leads to the other replica.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

config=$(mktemp)
printf 'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n' >"$config"
chart_cluster_start --nodes 1 --sim-nodes 2 --sim-machine dgx1v --scheduler-config "$config"
values=(--set attach=cluster-scheduler --set agent.enabled=false --set kubeScheduler.kubeconfig="$S/kube/kube-scheduler")
notes=$(chart install "${values[@]}" --wait --timeout 90s)
expect_match "the notes of helm install name the Secret with the configuration" 'get secret tessera-kube-scheduler' "$notes"
secret() { in_space get secret "$1" -o json | jq -S .data; }
leader() { in_space get pods -l tessera.io/leader=true -o 'jsonpath={.items[*].metadata.name}'; }
one_leads() { [[ $(leader | wc -w) == 1 ]]; }
wait_for 20 "one replica leads" one_leads

secret tessera-kube-scheduler | jq -r '."config.yaml"' | base64 -d >"$config"
cluster restart kube-scheduler
gpu_pod shared '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "the cluster's own kube-scheduler places a GPU pod" pod_is shared Running
expect "its record has its share" '[3]' "$(record shared | jq -c '[.containers.main[].mem]')"
for part in client.crt client.key; do secret tessera-extender-tls | jq -r ".\"$part\"" | base64 -d >"$S/tmp/$part"; done
inspect() { cluster exec -- curl -sk --max-time 5 "$@" https://127.0.0.1:32766/gpushare-scheduler/inspect || true; }
expect_match "a client with kube-scheduler's certificate gets a response" '"nodes"' "$(inspect --cert "$S/tmp/client.crt" --key "$S/tmp/client.key")"
expect "a client without a certificate gets no response" "" "$(inspect)"

expect "as security.md says, the extender's account cannot delete pods or write their status" "no no" "$(may tessera-extender delete pods) $(may tessera-extender patch pods --subresource=status)"
expect "it can patch pods only in its own namespace" "no yes" "$(may tessera-extender patch pods) $(may tessera-extender patch pods -n "$RELEASE_SPACE")"

certificates=$(secret tessera-extender-tls)
printed=$(secret tessera-kube-scheduler)
check "helm upgrade succeeds" chart upgrade "${values[@]}" --set policies.shared=spread --wait --timeout 90s
expect "the upgrade keeps the certificates" "$certificates" "$(secret tessera-extender-tls)"
expect "the upgrade keeps the configuration for kube-scheduler" "$printed" "$(secret tessera-kube-scheduler)"
wait_for 20 "one replica leads again" one_leads
gpu_pod after '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "pods are placed with the unchanged kube-scheduler" pod_is after Running

was=$(leader)
in_space delete pod "$was" --grace-period=0 --force >/dev/null 2>&1
other_leads() { one_leads && [[ $(leader) != "$was" ]]; }
wait_for 40 "after the leader is killed, another replica leads" other_leads
gpu_pod again '{"aliyun.com/gpu": "1"}' | kubectl create -f - >/dev/null
wait_for 60 "pods are placed by the new leader" pod_is again Running
# Changes attach to second-scheduler and back. kube-scheduler keeps its configuration.
to_scheduler() { [[ $(gpu_pod probe '{"aliyun.com/gpu-mem": "1"}' | kubectl create --dry-run=server -o 'jsonpath={.spec.schedulerName}' -f -) == "$1" ]]; }
check "helm upgrade to second-scheduler succeeds" chart upgrade --reset-then-reuse-values --set attach=second-scheduler --set "scheduler.image.repository=$SCHEDULER_IMAGE" --wait --timeout 90s
expect "the certificates are kept" "$certificates" "$(secret tessera-extender-tls)"
wait_for 20 "the policy sends GPU pods to the second scheduler" to_scheduler tessera-scheduler
gpu_pod second '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "the second scheduler places them" pod_is second Running
check "helm upgrade back to cluster-scheduler succeeds" chart upgrade --reset-then-reuse-values --set attach=cluster-scheduler --wait --timeout 90s
expect "the certificates are still the same" "$certificates" "$(secret tessera-extender-tls)"
expect "the configuration for kube-scheduler is still the same" "$printed" "$(secret tessera-kube-scheduler)"
wait_for 20 "GPU pods use the cluster's kube-scheduler again" to_scheduler default-scheduler
wait_for 20 "one replica leads after the change" one_leads
gpu_pod back '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 60 "the unchanged kube-scheduler places them" pod_is back Running
no_forbidden_calls "the API server rejected no call of the extenders" app.kubernetes.io/component=extender
uninstall_removes_all helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
rm -f "$config"
finish
