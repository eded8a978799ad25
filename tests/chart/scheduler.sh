#!/usr/bin/env bash
# What the chart renders for the part that decides, either way of attaching.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=readme.sh
source "$(dirname "$0")/readme.sh"
require_tools_or_skip
extender=${TESSERA_BIN:-$CHART_ROOT/build/release/bin}/tessera-extender
deployment=Deployment/tessera-scheduler

# The second scheduler.
check_lint() { "$(tool_path helm)" lint "$CHART" --strict --set scheduler.image.repository=x 2>&1; }
expect_match "helm lint" '0 chart\(s\) failed' "$(check_lint)"
render
expect "one Deployment, no Service for kube-scheduler" "tessera-agent-metrics tessera-scheduler-metrics " "$(kinds Service)"
expect "two containers" "extender kube-scheduler" "$(the $deployment '[.spec.template.spec.containers[].name] | join(" ")')"
expect "nobody is root or may become it" "true false true [\"ALL\"]" "$(the $deployment '.spec.template.spec as $p | $p.containers[0].securityContext as $c |
  "\($p.securityContext.runAsNonRoot) \($c.allowPrivilegeEscalation) \($c.readOnlyRootFilesystem) \($c.capabilities.drop | tojson)"')"
image() { the $deployment '.spec.template.spec.containers[] | select(.name == "kube-scheduler").image'; }
expect "kube-scheduler is as new as the API server" registry.example/kube-scheduler:v1.36.4 "$(image)"
for version in v1.33.4+k3s1 v1.33.4-eks-b123abc v1.33.4-gke.1789 v1.33.4; do
  KUBE_VERSION=$version render
  expect "$version is v1.33.4" registry.example/kube-scheduler:v1.33.4 "$(image)"
done
render --set scheduler.image.tag=v1.35.0
expect "unless told otherwise" registry.example/kube-scheduler:v1.35.0 "$(image)"
SCHEDULER_REPOSITORY='' refused "without a place to get it from, helm says what to do" 'scheduler.image.repository=REGISTRY/kube-scheduler'

expect "the extender watches the lease that kube-scheduler takes" "schedulerLease: tessera-system/tessera-scheduler" \
  "$(the ConfigMap/tessera-scheduler '.data."extender.yaml"' | grep schedulerLease)"
expect "and may" "get update list watch" "$(the Role/tessera-scheduler '.rules[] | select(.resourceNames).verbs | join(" ")')"
pause() { the $deployment 'first(.spec.template.spec.containers[] | select(.name == "kube-scheduler")).lifecycle.preStop.sleep.seconds // ""'; }
render
expect "a scheduler that ends keeps its lease until the last bind beside it is over" 5 "$(pause)"
expect "and is not killed meanwhile" 30 "$(the $deployment '.spec.template.spec.terminationGracePeriodSeconds')"
KUBE_VERSION=v1.29.4 render
expect "where the API server knows such a pause" "" "$(pause)"

# What kube-scheduler reads is what the extender would print, and what the extender reads is right.
as_json() { printf '%s\n' "$1" | sed '1i kind: X\napiVersion: v1\nmetadata: {name: x}\ndata:' | sed '5,$s/^/  /' |
  KUBECONFIG=/dev/null "$(tool_path kubectl)" patch --local -f - --type=merge -p '{}' -o json | jq -Sc .data; }
extender_config() { # ConfigMap
  the "ConfigMap/$1" '.data."extender.yaml"' >"$WORK/extender.yaml"
  the "ConfigMap/$1" '.data."static-sets.json" // "{}"' >"$WORK/static-sets.json"
  sed -i "s#/etc/tessera/#$WORK/#; s#/etc/tessera-tls/#$WORK/#" "$WORK/extender.yaml"
}
printed() { as_json "$("$extender" --config "$WORK/extender.yaml" --print-scheduler-config)"; }
same_as_printed() { # what
  extender_config tessera-scheduler
  expect "$1" "$(printed)" "$(as_json "$(the ConfigMap/tessera-scheduler '.data."scheduler.yaml"')")"
}
read_by_extender() { # what, ConfigMap
  local out
  extender_config "$2"
  if out=$("$extender" --config "$WORK/extender.yaml" --check-config 2>&1); then pass; else fail "$1" "$out"; fi
}
# What the tessera program reads of a cluster's settings.
told() { the "$1" '.spec.template.metadata.annotations | [.["tessera.io/resource-prefix", "tessera.io/resource-whole", "tessera.io/policy-shared", "tessera.io/policy-whole"]] | join(" ")'; }
render
expect "names and policies stand on the pods that decide" "aliyun.com aliyun.com/gpu binpack ring" "$(told Deployment/tessera-scheduler)"
SCHEDULER_REPOSITORY='' render --set attach=cluster-scheduler --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu \
  --set policies.shared=spread --set policies.whole=best_effort
expect "others too, behind a Service" "example.com nvidia.com/gpu spread best_effort" "$(told Deployment/tessera-extender)"

if [[ -x $extender ]]; then
  render
  same_as_printed "the configuration of kube-scheduler is the one that the extender prints"
  read_by_extender "the extender can read its own" tessera-scheduler
  render --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu
  same_as_printed "with other resource names too"
  render --set policies.whole=static --set-json 'policies.staticSets={"box":{"2":[[0,1],[2,3]]}}' --set policies.shared=fgd \
    --set-json 'typicalPods=[{"memory":4,"count":10},{"gpus":64,"cpu":"1500m"},{"gpus":2,"cpu":8}]' --set unit=999GiB --set scoreStep=1000000 --set log.format=json
  read_by_extender "with every setting changed" tessera-scheduler
  render --set attach=cluster-scheduler --set tls.enabled=false
  read_by_extender "behind a Service" tessera-extender
  # Leader election is on by default; the chart only says it.
  expect "where the cluster's own kube-scheduler is told the same, too" "$(printed)" \
    "$(as_json "$(the Secret/tessera-kube-scheduler '.stringData."config.yaml"')" | jq -c 'del(.leaderElection)')"
else
  say "$extender is missing: its own opinion is not asked"
fi

# Pods find the scheduler by themselves where the API server can do that.
render
expect "from 1.36 on a policy sets schedulerName" "tessera-scheduler-name " "$(kinds MutatingAdmissionPolicy)"
expect_match "for all our resources" "\['aliyun.com/gpu-mem','aliyun.com/gpu','aliyun.com/gpu-count','aliyun.com/gpu-core.percentage'\]" \
  "$(the MutatingAdmissionPolicy/tessera-scheduler-name '.spec.matchConditions[2].expression')"
expect_match "but not for an amount of 0" "limits\[name\]\)\)\.isGreaterThan\(quantity\('0'\)\)" \
  "$(the MutatingAdmissionPolicy/tessera-scheduler-name '.spec.matchConditions[2].expression')"
KUBE_VERSION=v1.33.4 render
expect "before, there is none" "" "$(kinds MutatingAdmissionPolicy)"
KUBE_VERSION=v1.35.0 render --set schedulerNamePolicy.enabled=true
expect "behind a gate it is beta" admissionregistration.k8s.io/v1beta1 "$(the MutatingAdmissionPolicy/tessera-scheduler-name .apiVersion)"
KUBE_VERSION=v1.33.4 refused "what cannot be had is not promised" 'has no MutatingAdmissionPolicy' --set schedulerNamePolicy.enabled=true
render --set schedulerNamePolicy.enabled=false
expect "who does not want it" "" "$(kinds MutatingAdmissionPolicy)"

# Before 1.36 the README has a line that puts schedulerName into an example; it does so in all of them.
for example in "$CHART_ROOT"/deploy/examples/*.yaml; do
  expect "schedulerName in ${example##*/}" "tessera-scheduler true" \
    "$(with_scheduler_name "$example" | KUBECONFIG=/dev/null "$(tool_path kubectl)" patch --local -f - --type=merge -p '{}' -o json |
      jq -r '(.spec.template.spec // .spec) | "\(.schedulerName) \(.containers | length > 0)"')"
done

# The cluster's own kube-scheduler.
SCHEDULER_REPOSITORY='' render --set attach=cluster-scheduler
deployment=Deployment/tessera-extender
expect "only the extender" extender "$(the $deployment '[.spec.template.spec.containers[].name] | join(" ")')"
expect "a Service with the original's port, for the leader only" 'NodePort 32766 true' \
  "$(the Service/tessera-extender '"\(.spec.type) \(.spec.ports[0].nodePort) \(.spec.selector["tessera.io/leader"])"')"
expect "the leader may label its pod, here only" '["patch"]' "$(the Role/tessera-extender '[.rules[] | select(.resources == ["pods"])][0].verbs')"
config() { the Secret/tessera-kube-scheduler '.stringData."config.yaml"'; }
expect_match "kube-scheduler calls it over TLS" 'urlPrefix: https://127.0.0.1:32766/gpushare-scheduler' "$(config)"
expect_match "with a certificate of its own" 'certData: [A-Za-z0-9+/]{100}' "$(config)"
expect "no policy for schedulerName" "" "$(kinds MutatingAdmissionPolicy)"
verify() { # server or client certificate
  the Secret/tessera-extender-tls '.data."ca.crt"' | base64 -d >"$WORK/ca"
  the Secret/tessera-extender-tls ".data.\"$1.crt\"" | base64 -d >"$WORK/crt"
  openssl verify -CAfile "$WORK/ca" "$WORK/crt" 2>&1
}
expect "the server's certificate is signed" "$WORK/crt: OK" "$(verify tls)"
expect_match "for the name that kube-scheduler expects" 'DNS:tessera-extender.tessera-system.svc' "$(openssl x509 -in "$WORK/crt" -noout -ext subjectAltName)"
expect "and so is the client's" "$WORK/crt: OK" "$(verify client)"
render --set attach=cluster-scheduler --set tls.enabled=false
expect_match "plain HTTP, as the original, if wanted" 'http://127.0.0.1:32766/gpushare-scheduler' "$(config)"
expect "then there are no certificates" "tessera-kube-scheduler " "$(kinds Secret)"
render --set attach=cluster-scheduler --set tls.existingSecret=mine
expect "certificates of your own" mine "$(the $deployment '.spec.template.spec.volumes[] | select(.name == "tls").secret.secretName')"
expect_match "are files for kube-scheduler" 'certFile: /etc/kubernetes/tessera/client.crt' "$(config)"
render --set attach=cluster-scheduler --set service.type=ClusterIP --set service.clusterIP=10.96.0.77
expect_match "a fixed address" 'https://10.96.0.77:12345/gpushare-scheduler' "$(config)"

render
expect "one of two replicas may be away" 1 "$(the PodDisruptionBudget/tessera-scheduler .spec.maxUnavailable)"
render --set replicas=1
expect "one replica has no budget, or its node could never be drained" "" "$(kinds PodDisruptionBudget)"
render --set image.repository=mirror.example/t --set image.digest="sha256:$(printf '%064d' 1)"
expect "an image by its digest" "mirror.example/t@sha256:$(printf '%064d' 1)" "$(the Deployment/tessera-scheduler '.spec.template.spec.containers[0].image')"

# GKE refuses critical pods outside kube-system without a quota that names their classes.
KUBE_VERSION=v1.33.4-gke.1789 render
expect "on GKE a quota lets the pods be critical" '["system-cluster-critical","system-node-critical"]' \
  "$(the ResourceQuota/tessera-critical-pods '.spec.scopeSelector.matchExpressions[0].values')"
KUBE_VERSION=v1.33.4-gke.1789 render --set agent.enabled=false --set criticalPodsQuota.enabled=auto
expect "for the classes that are used" '["system-cluster-critical"]' "$(the ResourceQuota/tessera-critical-pods '.spec.scopeSelector.matchExpressions[0].values')"
KUBE_VERSION=v1.33.4-gke.1789 render --set priorityClassName= --set agent.priorityClassName=mine
expect "and for no others" "" "$(kinds ResourceQuota)"
render
expect "elsewhere there is none" "" "$(kinds ResourceQuota)"
render --set criticalPodsQuota.enabled=true
expect "unless it is wanted" "tessera-critical-pods " "$(kinds ResourceQuota)"

# What a program would refuse at its start is refused by helm, by the value's name.
refused "static without a table" 'policies.staticSets is empty' --set policies.whole=static
refused "a set of another size" 'policies.staticSets.box.2 has the set \[0\]' --set-json 'policies.staticSets={"box":{"2":[[0]]}}'
refused "a set under no number" "'/policies/staticSets/box'" --set-json 'policies.staticSets={"box":{"two":[[0,1]]}}'
refused "scores too coarse" "'/scoreStep'" --set scoreStep=1000001
refused "a typical pod that asks for nothing" "'/typicalPods/0'" --set-json 'typicalPods=[{"cpu":8}]'
refused "a unit larger than any GPU" "'/unit'" --set unit=2000GiB
refused "a value that does not exist" "additional properties 'replica' not allowed" --set replica=3
refused "a policy that does not exist" "policies/shared" --set policies.shared=lucky
refused "a unit that is none" "'/unit'" --set unit=GB
finish
