#!/usr/bin/env bash
# Kills every part in turn while a test waits. `status` and the output of the test must name the
# part and show the end of its log, at once and not after a timeout.
set -euo pipefail
# shellcheck source=../lib/api.sh
source "$(dirname "$0")/../lib/api.sh"

cluster_require_or_skip kwok
cluster_start --nodes 1 --sim-nodes 3

# waiting_test: prints the output of a test that waits for up to 60 s.
waiting_test() { (wait_for 60 "a condition that never holds" false) 2>&1; }

# expect_named PART HOW OUTPUT
expect_named() {
  expect_match "a waiting test names $1" "cluster $CLUSTER: $1 is dead: $2" "$3"
  expect_match "and shows the end of its log" "log of $1 \\($S/parts/$1/log\\)" "$3"
}

for part in $(all_parts); do
  [[ $part != node-* ]] || continue
  begin=$SECONDS
  cluster kill "$part"
  output=$(waiting_test)
  expect_named "$part" "killed by signal 9" "$output"
  if ((SECONDS - begin < 15)); then pass "without waiting for the timeout"; else fail "$part took $((SECONDS - begin)) s"; fi
  if status=$(cluster status 2>&1); then fail "status fails while $part is dead" "$status"; fi
  expect_match "status names it" "$part +dead" "$status"
  cluster restart "$part"
  wait_for 30 "$part answers again" probe "$part"
done
cluster_is_healthy() { cluster status >/dev/null 2>&1; }
wait_for 30 "the cluster is healthy after all restarts" cluster_is_healthy

# Killed by another program than our command.
cluster exec -- kill -KILL "$(<"$S/parts/kubelet-node-a/pid")"
expect_named kubelet-node-a "killed by signal 9" "$(waiting_test)"
cluster restart kubelet-node-a

# A part that runs but does not answer.
cluster exec -- kill -STOP "$(<"$S/parts/kube-controller-manager/pid")"
expect_match "a part that does not answer is named" "kube-controller-manager runs but does not answer" "$(diagnose)"

kill -KILL "$(driver_pid)"
expect_match "the death of the driver is named" "the driver is dead" "$(waiting_test)"
expect_match "also by status" "driver of cluster \"$CLUSTER\" is dead" "$(cluster status 2>&1 || true)"
finish
