#!/usr/bin/env bash
# Runs kube_bench, given as the argument, against a real API server that holds 5,000 nodes and 40,000 pods (about
# three minutes to create on two cores). What would change them meanwhile is ended first.
set -euo pipefail
# shellcheck source=../cluster/lib/api.sh
source "$(dirname "$0")/../cluster/lib/api.sh"
cluster_require_or_skip
cluster_start --nodes 0
export CLUSTER_EXPECT_DEAD="kube-scheduler kube-controller-manager"
cluster kill kube-scheduler
cluster kill kube-controller-manager
TESSERA_BENCH_KUBECONFIG=$(cluster kubeconfig)
export TESSERA_BENCH_KUBECONFIG
echo "creating the objects"
time "$1" --seed
# "run CMD..." in place of the program itself: for example a script that waits until the machine is quiet.
${BENCH_RUN:-} "$1"
