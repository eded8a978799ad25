#!/usr/bin/env bash
# The long one (make soak): extender killed, API server restarted, etcd paused, each while 500 pods are being scheduled.
# After each, books and cluster agree and nothing is given away twice.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
ROUNDS=${SOAK_ROUNDS:-3}

extender_cluster_start
gpu_nodes 25 4 10
extender_start
wait_for 20 "the extender is ready" extender_ready || finish

# fault NAME: does it while pods are being scheduled.
fault() {
  case $1 in
    kill-extender)
      kill -KILL "$EXTENDER_PID"
      wait "$EXTENDER_PID" 2>/dev/null || true
      extender_start
      ;;
    restart-apiserver)
      cluster restart kube-apiserver
      ;;
    pause-etcd)
      tell_driver signal etcd STOP
      sleep 6 # longer than a bind may take
      tell_driver signal etcd CONT
      ;;
  esac
}
export CLUSTER_EXPECT_DEAD="kube-apiserver kube-scheduler kube-controller-manager kwok"

for ((round = 1; round <= ROUNDS; round++)); do
  for what in kill-extender restart-apiserver pause-etcd; do
    set_name=s$round-$what
    pods_json "$set_name" 500 '{"aliyun.com/gpu-mem": "2"}' | kubectl create -f - >/dev/null
    some_run() { (($(running "$set_name") >= 50)); }
    wait_for 120 "round $round: pods begin to run" some_run || true
    fault "$what"
    wait_for 60 "$what: the extender is ready" extender_ready || true
    wait_for 300 "$what: all 500 run" all_running "$set_name" 500 || true
    check_books "$what: annotations, books and inventory agree"
    kubectl delete pods --all --wait=false >/dev/null
    wait_for 120 "$what: and all go" no_pods || true
    check_books "$what: and nothing stays in the books"
  done
done
kill "$EXTENDER_PID"
wait "$EXTENDER_PID" || true
finish
