#!/usr/bin/env bash
# Kubernetes before 1.36 has no policy that sets schedulerName: the chart installs a webhook by
# default. install.sh makes the same checks on the current version.
#
#   K8S=1.33 (default) chooses the version.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=webhook-checks.sh
source "$(dirname "$0")/webhook-checks.sh"

K8S=${K8S:-1.33} # also for the kube-scheduler in the image
chart_cluster_start --nodes 1 --sim-nodes 2 --sim-machine dgx1v --k8s "$K8S"
kube_scheduler_pod
# A lifetime applies to new certificates only, so it is short from the beginning.
check "helm install succeeds with default values" chart install --set agent.enabled=false "${WEBHOOK_VALUES[@]}" --wait --timeout 120s
wait_for 20 "GPU pods use Tessera's scheduler" gets_scheduler tessera-scheduler
webhook_checks
uninstall_removes_all helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
finish
