#!/usr/bin/env bash
# The demo, from the chart on: two real nodes become GPU machines, the examples run and show what they promise; agents keep to their
# own node, a new agent forgets nothing, and after `uninstall` every pod runs on.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

chart_cluster_start --nodes 2
# What the nodes have that is not of this moment; a label that is like one of the agent's is somebody else's.
kubectl label node node-a nvidia.com/gpu.machine=mine >/dev/null
looks() { kubectl get nodes -o json | jq -S '[.items[] | {name: .metadata.name, labels: (.metadata.labels | del(.gpushare)),
  annotations: (.metadata.annotations | keys), conditions: ([.status.conditions[].type] | sort)}]'; }
untouched=$(looks)
demo() { TESSERA_IMAGE_LOADED=1 TESSERA_CLUSTER=$CLUSTER "$CHART_ROOT/scripts/demo" "$@" 2>&1; }
if installed=$(demo install); then pass "the demo installs the chart"; else fail "the demo installs the chart" "$installed"; fi
if tour=$(demo tour); then pass "and its tour ends well"; else fail "its tour ends well" "$(tail -n 30 <<<"$tour")"; fi
lines() { grep -c -- "$1" <<<"$tour" || true; }
expect "three pods share one GPU" 1 "$(sed -n 's/.*binpack-.*GiB of \(GPU [0-9]*\)$/\1/p' <<<"$tour" | sort -u | wc -l)"
expect "all three of them" 3 "$(lines 'binpack-.*3 GiB of GPU')"
expect_match "a job trains on two GPUs" 'training on GPU-[0-9a-f-]+,GPU-[0-9a-f-]+' "$tour"
expect_match "and why a pod waits is told" 'too-large needs 100GiB on one GPU .binpack.. No node has it now' "$tour"
expect_match "an ill GPU is named" 'GPU 5 is unhealthy: GPU is lost' "$tour"
expect "and well again at the end" "All agrees." "$(tail -n 1 <<<"$tour")"

# What the containers have is what the records say.
seen() { kubectl get pods -o json | jq -r '.items[] | select(.status.phase == "Running") | .metadata.name as $pod | .metadata.annotations["tessera.io/allocation"] | fromjson |
  .containers | to_entries[] | "\($pod) \(.key) \([.value[].gpu] | sort | join(","))"' | while read -r pod container gpus; do
    has=$(kubectl exec "$pod" -c "$container" -- sh -c 'echo $NVIDIA_VISIBLE_DEVICES' | tr , '\n' | sort | paste -sd,)
    [[ $has == "$gpus" ]] || echo "$pod/$container has $has, its record says $gpus"
  done; }
expect "every container has the GPUs of its record" "" "$(seen)"

# The demo of the system that Tessera replaces: its objects, with today's API version and nothing else changed. Its image is not to be had here;
# one of the same name stands in for it.
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
wait_for 40 "the original's StatefulSet and Deployment run unchanged" players_run
# 7 GiB are free on each of the two GPUs that the tour has left partly used and that are large enough.
expect "beside pods that are there, and not on GPUs that could be had whole" 2 "$(player_pods '[.items[].metadata.annotations["tessera.io/allocation"] | fromjson | .containers[][].gpu] | unique | length')"
expect "each told its 3 GiB" "3 3 3 3" "$(kubectl logs -l app=binpack-1 --tail=1 | awk '{print $1}' | paste -sd' ')"
kubectl delete statefulset,deployment binpack-1 --cascade=foreground --wait=true >/dev/null

agent_on() { in_space get pods -l app.kubernetes.io/component=agent -o json | jq -r --arg node "$1" '.items[] | select(.spec.nodeName == $node).metadata.name'; }
token=$(in_space create token tessera-agent --bound-object-kind=Pod --bound-object-name="$(agent_on node-a)")
as_agent() { # kubectl as node-a's agent, by its token and nothing else
  local server
  server=$(sed -n 's/ *server: //p' "$(cluster kubeconfig)")
  "$(tool_path kubectl)" --kubeconfig=/dev/null --server="$server" --insecure-skip-tls-verify --token="$token" "$@" 2>&1 || true
}
expect_match "an agent writes its own node" 'node/node-a annotated' "$(as_agent annotate --dry-run=server node node-a try=1)"
expect_match "and no other" 'the agent of node node-a may not write nodes node-b' "$(as_agent annotate node node-b try=1)"
as_agent_pod() { as_agent -n "$RELEASE_SPACE" annotate --dry-run=server pod "$(agent_on "$1")" "$2"; }
expect_match "it may put the record of a pod right" 'pod/.* annotated' "$(as_agent_pod node-a tessera.io/allocation=x)"
expect_match "and change nothing else of it" 'may change only the GPU record of pod ' "$(as_agent_pod node-a try=1)"
expect_match "and no pod of another node" 'may not write pods' "$(as_agent_pod node-b tessera.io/allocation=x)"
expect_match "nor make or delete one" 'cannot delete resource "pods"' "$(as_agent delete pod several-gpus)"
expect_match "nor another node's ConfigMap" 'may not write configmaps unhealthy-gpu-node-b' "$(as_agent -n kube-system create configmap unhealthy-gpu-node-b)"
expect "agents were never refused anything" "" "$(forbidden_calls app.kubernetes.io/component=agent)"

before=$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')
check "agents are replaced by others that hand out devices by CDI" helm upgrade tessera "$CHART" -n "$RELEASE_SPACE" --reset-then-reuse-values --set agent.strategy=cdi
check "one node after the other" in_space rollout status daemonset/tessera-agent --timeout=90s
all_agrees() { [[ $(KUBECONFIG=$(cluster kubeconfig) "$TESSERA" check 2>&1) == *"All agrees." ]]; }
wait_for 20 "they have forgotten nothing" all_agrees
gpu_pod after '{"aliyun.com/gpu-mem": "5"}' | kubectl create -f - >/dev/null
wait_for 30 "new pods get their share" pod_is after Running
minor=$(kubectl get pod after -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
expect "with the device of their GPU and of no other" "nvidia$minor" "$(kubectl exec after -- ls /dev | grep -x 'nvidia[0-9]*')"
kubectl delete pod after --wait=true >/dev/null
# An ill GPU, so that everything is there that an agent writes.
clean_nodes() { KUBECONFIG=$(cluster kubeconfig) PATH=$S/bin:$PATH "$CHART_ROOT/scripts/clean-nodes" "$@" 2>&1 || true; }
expect_match "nodes are not cleaned while agents would write again" 'tessera-agent is still there' "$(clean_nodes)"
echo 'gpus: {5: {lost: true}}' | cluster exec --node node-b -- tee /run/tessera/sim/control.yaml >/dev/null
ill_gpus() { kubectl -n kube-system get configmap unhealthy-gpu-node-b -o name --ignore-not-found; }
is_told() { [[ -n $(ill_gpus) ]]; }
wait_for 20 "old extenders are told of an ill GPU" is_told
check "helm uninstall" helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "leaves nothing of the chart" "" "$(ours_left)"
expect "and every pod as it was" "$before" "$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')"
shown=$(clean_nodes --dry-run)
expect_match "what would be cleaned up is shown" 'node/node-b unlabeled.*node/node-b annotated.*node/node-b patched.*unhealthy-gpu-node-b. deleted' "$shown"
clean_nodes >/dev/null
expect "and nodes then look as they did before" "$untouched" "$(looks)"
expect "without a word of the ill GPU" "" "$(ill_gpus)"
finish
