#!/usr/bin/env bash
# The demo, from the chart on: two real nodes become GPU machines, the examples run and show what they promise; agents keep to their
# own node, a new agent forgets nothing, and after `uninstall` every pod runs on.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

chart_cluster_start --nodes 2
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

agent_on() { in_space get pods -l app.kubernetes.io/component=agent -o json | jq -r --arg node "$1" '.items[] | select(.spec.nodeName == $node).metadata.name'; }
token=$(in_space create token tessera-agent --bound-object-kind=Pod --bound-object-name="$(agent_on node-a)")
as_agent() { # kubectl as node-a's agent, by its token and nothing else
  local server
  server=$(sed -n 's/ *server: //p' "$(cluster kubeconfig)")
  "$(tool_path kubectl)" --kubeconfig=/dev/null --server="$server" --insecure-skip-tls-verify --token="$token" "$@" 2>&1 || true
}
expect_match "an agent writes its own node" 'node/node-a annotated' "$(as_agent annotate node node-a try=1)"
expect_match "and no other" 'the agent of node node-a may not write nodes node-b' "$(as_agent annotate node node-b try=1)"
expect_match "nor any pod" 'cannot patch resource "pods"' "$(as_agent annotate pod several-gpus try=1)"
expect_match "nor another node's ConfigMap" 'may not write configmaps unhealthy-gpu-node-b' "$(as_agent -n kube-system create configmap unhealthy-gpu-node-b)"
expect "agents were never refused anything" "" "$(forbidden_calls app.kubernetes.io/component=agent)"

before=$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')
check "agents are replaced by others that hand out devices by CDI" helm upgrade tessera "$CHART" -n "$RELEASE_SPACE" --reuse-values --set agent.strategy=cdi
check "one node after the other" in_space rollout status daemonset/tessera-agent --timeout=90s
all_agrees() { [[ $(KUBECONFIG=$(cluster kubeconfig) "$TESSERA" check 2>&1) == *"All agrees." ]]; }
wait_for 20 "they have forgotten nothing" all_agrees || true
gpu_pod after '{"aliyun.com/gpu-mem": "5"}' | kubectl create -f - >/dev/null
wait_for 30 "new pods get their share" pod_is after Running || true
minor=$(kubectl get pod after -o 'jsonpath={.metadata.annotations.ALIYUN_COM_GPU_MEM_IDX}')
expect "with the device of their GPU and of no other" "nvidia$minor" "$(kubectl exec after -- ls /dev | grep -x 'nvidia[0-9]*')"
kubectl delete pod after --wait=true >/dev/null
check "helm uninstall" helm uninstall tessera -n "$RELEASE_SPACE" --wait --timeout 60s
expect "leaves nothing of the chart" "" "$(ours_left)"
expect "and every pod as it was" "$before" "$(kubectl get pods -o json | jq -c '[.items[] | [.metadata.name, .metadata.uid, .status.phase]]')"
finish
