#!/usr/bin/env bash
# Runs the demo, starting with the installation of the chart: two real nodes simulate GPU machines,
# and the examples run. New agents know all allocations, and after `helm uninstall` every pod keeps running.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

chart_cluster_start --nodes 2
# looks: the state of the nodes, without values that change all the time. The label that is set here
# has the name of one of the agent's labels, but belongs to the user.
kubectl label node node-a nvidia.com/gpu.machine=mine >/dev/null
looks() { kubectl get nodes -o json | jq -S '[.items[] | {name: .metadata.name, labels: (.metadata.labels | del(.gpushare)),
  annotations: (.metadata.annotations | keys), conditions: ([.status.conditions[].type] | sort)}]'; }
untouched=$(looks)
demo() { TESSERA_IMAGE_LOADED=1 TESSERA_CLUSTER=$CLUSTER "$CHART_ROOT/scripts/demo" "$@" 2>&1; }
if installed=$(demo install); then pass "the demo installs the chart"; else fail "the demo installs the chart" "$installed"; fi
if tour=$(demo tour); then pass "the tour of the demo succeeds"; else fail "the tour of the demo succeeds" "$(tail -n 30 <<<"$tour")"; fi
lines() { grep -c -- "$1" <<<"$tour" || true; }
expect "three pods share one GPU" 1 "$(sed -n 's/.*binpack-.*GiB of \(GPU [0-9]*\)$/\1/p' <<<"$tour" | sort -u | wc -l)"
expect "all three pods have 3 GiB" 3 "$(lines 'binpack-.*3 GiB of GPU')"
expect_match "a job trains on two GPUs" 'training on GPU-[0-9a-f-]+,GPU-[0-9a-f-]+' "$tour"
expect_match "tessera why explains why a pod waits" 'too-large needs 100 GiB on one GPU .binpack.. No node fits now' "$tour"
expect_match "the tour shows an unhealthy GPU" 'GPU 5 is unhealthy: GPU is lost' "$tour"
expect "at the end, tessera check finds nothing" "No problems found." "$(tail -n 1 <<<"$tour")"

# seen: prints each container with the GPUs that it has. recorded: the same according to the records.
recorded() { kubectl get pods -o json | jq -r '.items[] | select(.status.phase == "Running") | .metadata.name as $pod | .metadata.annotations["tessera.io/allocation"] | fromjson |
  .containers | to_entries[] | "\($pod) \(.key) \([.value[].gpu] | sort | join(","))"'; }
seen() { recorded | while read -r pod container _; do
  echo "$pod $container $(kubectl exec "$pod" -c "$container" -- sh -c 'echo $NVIDIA_VISIBLE_DEVICES' </dev/null | tr , '\n' | sort | paste -sd,)"
done; }
expect_match "pods run" 'GPU-' "$(recorded)"
expect "every container has the GPUs of its record" "$(recorded)" "$(seen)"

# The objects of gpushare's demo, unchanged except for the API version. Its image is not available
# here, so the test builds another image of the same name.
mkdir -p "$S/tmp/player/bin"
for program in sh sleep; do cp "$(command -v busybox)" "$S/tmp/player/bin/$program"; done
printf '%s\n' '#!/bin/sh' 'trap exit TERM' 'echo $ALIYUN_COM_GPU_MEM_CONTAINER of $ALIYUN_COM_GPU_MEM_DEV' 'sleep 3600 &' wait >"$S/tmp/player/bin/play"
chmod 755 "$S/tmp/player/bin/play"
make_image cheyang/gpu-player:v2 "$S/tmp/player" "$S/tmp/player.tar" /bin/play
cluster load-image "$S/tmp/player.tar"
original_demo() { # KIND REPLICAS
  jq -cn --arg kind "$1" --argjson replicas "$2" '{app: "binpack-1"} as $labels | {apiVersion: "apps/v1", kind: $kind, metadata: {name: "binpack-1", labels: $labels},
    spec: ({replicas: $replicas, selector: {matchLabels: $labels}, template: {metadata: {labels: $labels}, spec: {containers: [
      {name: "binpack-1", image: "cheyang/gpu-player:v2", resources: {limits: {"aliyun.com/gpu-mem": 3}}}]}}}
      + if $kind == "StatefulSet" then {serviceName: "binpack-1", podManagementPolicy: "Parallel"} else {} end)}'
}
player_pods() { kubectl get pods -l app=binpack-1 -o json | jq -c "$1"; }
players_run() { [[ $(player_pods '[.items[] | select(.status.phase == "Running")] | length') == 4 ]]; }
for demo in StatefulSet:3 Deployment:1; do original_demo "${demo%:*}" "${demo#*:}" | kubectl create -f - >/dev/null; done
wait_for 40 "the StatefulSet and the Deployment of gpushare's demo run unchanged" players_run
# The tour leaves two GPUs partly used that are large enough. Each of them has 7 GiB free.
expect "they share GPUs that are already in use and leave unused GPUs free" 2 "$(player_pods '[.items[].metadata.annotations["tessera.io/allocation"] | fromjson | .containers[][].gpu] | unique | length')"
expect "each container has 3 GiB in its environment" "3 3 3 3" "$(kubectl logs -l app=binpack-1 --tail=1 | awk '{print $1}' | paste -sd' ')"
kubectl delete statefulset,deployment binpack-1 --cascade=foreground --wait=true >/dev/null

no_forbidden_calls "the API server rejected no call of the agents" app.kubernetes.io/component=agent

before=$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')
check "helm upgrade replaces the agents by agents with strategy cdi" helm upgrade tessera "$CHART" -n "$RELEASE_SPACE" --reset-then-reuse-values --set agent.strategy=cdi
check "the rollout finishes" in_space rollout status daemonset/tessera-agent --timeout=90s
no_problems() { [[ $(KUBECONFIG=$(cluster kubeconfig) "$TESSERA" check 2>&1) == *"No problems found." ]]; }
wait_for 20 "the new agents know all allocations" no_problems
gpu_pod after '{"aliyun.com/gpu-mem": "5"}' | kubectl create -f - >/dev/null
wait_for 30 "a new pod runs" pod_is after Running
minor=$(kubectl get pod after -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
expect "its container has only the device node of its GPU" "nvidia$minor" "$(kubectl exec after -- ls /dev | grep -x 'nvidia[0-9]*')"
kubectl delete pod after --wait=true >/dev/null
# With an unhealthy GPU, the agent writes every kind of object that it can write.
clean_nodes() { KUBECONFIG=$(cluster kubeconfig) PATH=$S/bin:$PATH "$CHART_ROOT/scripts/clean-nodes" "$@" 2>&1 || true; }
expect_match "clean-nodes refuses to run while agents exist" 'tessera-agent still exists' "$(clean_nodes)"
echo 'gpus: {5: {lost: true}}' | cluster exec --node node-b -- tee /run/tessera/sim/control.yaml >/dev/null
ill_gpus() { kubectl -n kube-system get configmap unhealthy-gpu-node-b -o name --ignore-not-found; }
is_told() { [[ -n $(ill_gpus) ]]; }
wait_for 20 "the ConfigMap for gpushare's extender lists an unhealthy GPU" is_told
uninstall_removes_all helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "all pods are unchanged" "$before" "$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')"
shown=$(clean_nodes --dry-run)
expect_match "clean-nodes --dry-run shows what it would remove" 'node/node-b unlabeled.*node/node-b annotated.*node/node-b patched.*unhealthy-gpu-node-b. deleted' "$shown"
clean_nodes >/dev/null
expect "after clean-nodes, the nodes look as before the installation" "$untouched" "$(looks)"
expect "clean-nodes deletes the ConfigMap of unhealthy GPUs" "" "$(ill_gpus)"
finish
