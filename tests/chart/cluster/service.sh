#!/usr/bin/env bash
# The other way to attach: the cluster's own kube-scheduler calls a Service over mutual TLS with the configuration that the chart
# prints. Certificates survive an upgrade, and the leader's end moves the Service to the other replica.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

config=$(mktemp)
printf 'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n' >"$config"
chart_cluster_start --nodes 1 --sim-nodes 2 --sim-machine dgx1v --scheduler-config "$config"
values=(--set attach=cluster-scheduler --set agent.enabled=false --set kubeScheduler.kubeconfig="$S/kube/kube-scheduler")
notes=$(chart install "${values[@]}" --wait --timeout 90s)
expect_match "helm install names the Secret with the configuration" 'get secret tessera-kube-scheduler' "$notes"
secret() { in_space get secret "$1" -o json | jq -S .data; }
leader() { in_space get pods -l tessera.io/leader=true -o 'jsonpath={.items[*].metadata.name}'; }
one_leads() { [[ $(leader | wc -w) == 1 ]]; }
wait_for 20 "one replica leads" one_leads

secret tessera-kube-scheduler | jq -r '."config.yaml"' | base64 -d >"$config"
cluster restart kube-scheduler
gpu_pod shared '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "the cluster's own kube-scheduler places a GPU pod" pod_is shared Running
expect "with a record" '[3]' "$(record shared | jq -c '[.containers.main[].mem]')"
without_certificate() { cluster exec -- curl -sk --max-time 5 https://127.0.0.1:32766/gpushare-scheduler/inspect; }
expect "who has no certificate gets no answer" "" "$(without_certificate || true)"

certificates=$(secret tessera-extender-tls)
printed=$(secret tessera-kube-scheduler)
check "helm upgrade" chart upgrade "${values[@]}" --set policies.shared=spread --wait --timeout 90s
expect "keeps the certificates" "$certificates" "$(secret tessera-extender-tls)"
expect "and so the configuration that kube-scheduler has" "$printed" "$(secret tessera-kube-scheduler)"
wait_for 20 "one replica leads again" one_leads
gpu_pod after '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "and pods are placed without a change to kube-scheduler" pod_is after Running

was=$(leader)
in_space delete pod "$was" --grace-period=0 --force >/dev/null 2>&1
other_leads() { one_leads && [[ $(leader) != "$was" ]]; }
wait_for 40 "when the leader dies, another one leads" other_leads
gpu_pod again '{"aliyun.com/gpu": "1"}' | kubectl create -f - >/dev/null
wait_for 60 "and pods are placed" pod_is again Running
# The other way to attach, and back: kube-scheduler keeps the configuration that it has.
to_scheduler() { [[ $(gpu_pod probe '{"aliyun.com/gpu-mem": "1"}' | kubectl create --dry-run=server -o 'jsonpath={.spec.schedulerName}' -f -) == "$1" ]]; }
check "attached as a second scheduler" chart upgrade --reset-then-reuse-values --set attach=second-scheduler --set "scheduler.image.repository=$SCHEDULER_IMAGE" --wait --timeout 90s
expect "with the certificates kept for the way back" "$certificates" "$(secret tessera-extender-tls)"
wait_for 20 "GPU pods go there" to_scheduler tessera-scheduler
gpu_pod second '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 40 "and are placed" pod_is second Running
check "attached as before" chart upgrade --reset-then-reuse-values --set attach=cluster-scheduler --wait --timeout 90s
expect "with the same certificates" "$certificates" "$(secret tessera-extender-tls)"
expect "and the same configuration for kube-scheduler" "$printed" "$(secret tessera-kube-scheduler)"
wait_for 20 "GPU pods stay with the cluster's kube-scheduler" to_scheduler default-scheduler
wait_for 20 "one replica leads once more" one_leads
gpu_pod back '{"aliyun.com/gpu-mem": "3"}' | kubectl create -f - >/dev/null
wait_for 60 "which places them without a change" pod_is back Running
expect "the extenders were never refused anything" "" "$(forbidden_calls app.kubernetes.io/component=extender)"
check "helm uninstall" helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "leaves nothing of the chart" "" "$(ours_left)"
rm -f "$config"
finish
