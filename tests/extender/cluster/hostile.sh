#!/usr/bin/env bash
# Attacks an extender while it places ordinary pods, all at once:
#   - a Node with a forged inventory of 64 GPUs with irregular links, before the extender starts,
#     and a different one every second
#   - pods with an annotation tessera.io/gpu-model of 196 KB, created and deleted
#   - connections to both ports that send one byte and no more
# Other pods must not notice: they are placed, kubelet has no reason to restart the extender, and its
# memory stays below the limit of the chart. With --full, filter also takes at most 5 ms (99% of the
# calls).
#
#   hostile.sh [--full]          40 pods, and as many connections as the extender accepts, 64; with
#                                --full (make soak) 1,000 pods and 1,100 connections of 1,024
#   ATTACKS=pods hostile.sh      only some of: inventories pods connections
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
HOSTILE_PODS=40 CONNECTIONS=64 ACCEPTED=64 FULL=
[[ ${1:-} != --full ]] || HOSTILE_PODS=1000 CONNECTIONS=1100 ACCEPTED=1024 FULL=1
ATTACKS=${ATTACKS:-inventories pods connections}
attacks_with() { [[ " $ATTACKS " == *" $1 "* ]]; }
HEALTH_PORT=39998
GPU_NODES=5
PODS=$((GPU_NODES * 20))

# kubelet restarts a container after three failed probes, 10 s apart.
LIVENESS_SECONDS=20
limit_kib=$(awk '/^[a-z]/ { section = $1 } section == "extender:" && /limits: .memory: [0-9]+Mi/ { gsub(/[^0-9]/, ""); print $0 * 1024 }' \
  "$root/deploy/helm/tessera/values.yaml")
expect_match "the chart has a memory limit for the extender ($limit_kib KiB)" '^[0-9]+$' "$limit_kib"

extender_cluster_start
gpu_nodes "$GPU_NODES" 4 10
python3 "$CLUSTER_DIR/lib/hostile.py" inventory 1 >"$S/tmp/forged"
jq -c --rawfile forged "$S/tmp/forged" '.items[0] | .metadata.name = "forged-0001" | .metadata.labels["kubernetes.io/hostname"] = "forged-0001" |
  .metadata.annotations["tessera.io/inventory"] = ($forged | rtrimstr("\n")) | {apiVersion: "v1", kind: "List", items: [.]}' \
  "$S/tmp/gpu-nodes.json" >"$S/tmp/forged.json"
! attacks_with inventories || create_nodes "$S/tmp/forged.json"

echo "limits: {connections: $ACCEPTED}" >"$S/extender.yaml"
extender_start --config "$S/extender.yaml" --health "127.0.0.1:$HEALTH_PORT"
never_waits "$EXTENDER_PID"
healthy() { ask /healthz "$HEALTH_PORT" >/dev/null 2>&1; }
wait_for "$LIVENESS_SECONDS" "the extender answers with a forged inventory in the cluster" healthy
wait_or_finish 120 "the extender is ready" extender_ready "$HEALTH_PORT"

filter_body=$(jq -cn --argjson nodes "$GPU_NODES" '{Pod: {metadata: {name: "probe", namespace: "default", uid: "u"}, spec: {containers: [{name: "main",
  resources: {limits: {"aliyun.com/gpu-mem": "1"}}}]}}, Nodes: null, NodeNames: [range(1; $nodes + 1) | "gpu-000\(.)"]}')
# For comparison: without the attacks, on the same machine at the same time.
measure before probe "$PORT" "$HEALTH_PORT" "$filter_body"
sleep 5
kill "$ATTACK_PID" && wait "$ATTACK_PID" || true
say "      before the attack: $(jq -c '{p50_ms, p99_ms, slowest_ms}' "$S/tmp/before.out")"

measure probe probe "$PORT" "$HEALTH_PORT" "$filter_body"
tools=("$ATTACK_PID")
for kind in $ATTACKS; do
  case $kind in
    inventories) attack inventories inventories forged-0001 ;;
    pods) attack pods pods "$HOSTILE_PODS" && count_pods "$HOSTILE_PODS" ;;
    connections) attack connections connections "$CONNECTIONS" "$PORT" "$HEALTH_PORT" ;;
  esac
  tools+=("$ATTACK_PID")
  count_fault "hostile-$kind"
done

# Ordinary pods, in four parts: all but 20 of those that fit, so that the probe always has a node.
calm=0
for part in 1 2 3 4; do
  create_in_background calm 20 '{"aliyun.com/gpu-mem": "2"}' $((calm + 1))
  calm=$((calm + 20))
  try_wait_for 60 "$calm ordinary pods run during the attack" all_running calm "$calm" || break
done
! attacks_with pods || wait_for 900 "$HOSTILE_PODS hostile pods were created and deleted" grep -q 'hostile pods' "$S/tmp/pods.out"
sleep 5 # the attacks that change nothing take at least this long
kill "${tools[@]}" 2>/dev/null || true
wait "${tools[@]}" 2>/dev/null || true
cat "$S"/tmp/{inventories,pods,connections,probe}.{out,err} 2>/dev/null | sed 's/^/      /' || true
for kind in $ATTACKS; do
  check "the attack took place: $kind" grep -q "hostile $kind" "$S/tmp/$kind.out"
done
measured() { jq -er "$1" "$S/tmp/probe.out"; }
# measures WHAT FILTER: whether a condition about the measured values holds.
measures() { check "$1" jq -e "$2" "$S/tmp/probe.out"; }
measures "no filter call of another pod failed ($(measured .errors) of $(measured .filters))" '.filters > 100 and .errors == 0'
# With other tests on the same processors, the time says little about the extender.
[[ -z $FULL ]] || measures "filter p99 of other pods is at most 5 ms ($(measured .p99_ms) ms)" '.p99_ms <= 5'
measures "kubelet has no reason to restart the extender ($(measured .longest_without_health_s) s without an answer)" \
  ".healthy > 0 and .longest_without_health_s < $LIVENESS_SECONDS"
if kill -0 "$EXTENDER_PID" 2>/dev/null; then pass "the extender still runs"; else fail "the extender still runs" "$(tail -n 5 "$S/extender.log")"; fi
kib=$(awk '/^VmHWM/ { print $2 }' "/proc/$EXTENDER_PID/status" || true)
check "its memory stays below the limit of the chart ($kib of $limit_kib KiB)" test "${kib:-$limit_kib}" -lt "$limit_kib"

kubectl delete node forged-0001 --ignore-not-found >/dev/null
kubectl delete pods -l hostile --wait=false >/dev/null
check_ledger "annotations, ledger and inventory agree after the attack"
kill "$EXTENDER_PID" 2>/dev/null || true
ended() { ! kill -0 "$EXTENDER_PID" 2>/dev/null; }
wait_for 10 "it ends after SIGTERM" ended
kill -KILL "$EXTENDER_PID" 2>/dev/null || true
finish
