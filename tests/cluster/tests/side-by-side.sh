#!/usr/bin/env bash
# Two clusters at the same time, one with its own scheduler configuration: they are isolated from
# each other, and removing one does not affect the other.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kubelet
config=$(mktemp)
trap 'rm -f "$config"' EXIT
cat >"$config" <<'EOF'
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: our-own-scheduler
EOF

cluster_start --as one
cluster_start --as two --scheduler-config "$config"
rm -f "$config"

kubectl run here --image="$BUSYBOX_IMAGE" --overrides='{"spec":{"schedulerName":"our-own-scheduler"}}' -- sleep 1000 >/dev/null
wait_for 30 "the given scheduler configuration is used" pod_is here Running
switch_cluster one
kubectl run there --image="$BUSYBOX_IMAGE" -- sleep 1000 >/dev/null
wait_for 30 "a pod runs in the other cluster" pod_is there Running
expect "each cluster has only its own pods" "pod/there" "$(kubectl get pods -o name)"
expect "a second up with the same settings succeeds" "cluster \"$CLUSTER\" is already up" "$(cluster up)"
if refused=$(cluster up --nodes 2 2>&1); then fail "an up with other settings is refused"; fi
expect_match "an up with other settings is refused" "already up with other settings" "$refused"

cluster down >/dev/null
switch_cluster two
check "the other cluster is still healthy" cluster status
expect "its pod still runs" "hello" "$(kubectl exec here -- echo hello)"
expect "its nodes still have their directories" "kubelet.sock" "$(cluster exec -- ls /var/lib/kubelet/device-plugins | grep kubelet.sock)"
finish
