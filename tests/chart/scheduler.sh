#!/usr/bin/env bash
# Checks what the chart renders for the scheduler and the extender, for both values of `attach`.
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
expect_match "helm lint finds no error" '0 chart\(s\) failed' "$(check_lint)"
render
expect "second scheduler: there are only Services for metrics" "tessera-agent-metrics tessera-scheduler-metrics " "$(kinds Service)"
expect "second scheduler: a pod has two containers" "extender kube-scheduler" "$(the $deployment '[.spec.template.spec.containers[].name] | join(" ")')"
expect "containers run without root, privilege escalation, writable root or capabilities" "true false true [\"ALL\"]" "$(the $deployment '.spec.template.spec as $p | $p.containers[0].securityContext as $c |
  "\($p.securityContext.runAsNonRoot) \($c.allowPrivilegeEscalation) \($c.readOnlyRootFilesystem) \($c.capabilities.drop | tojson)"')"
image() { the $deployment '.spec.template.spec.containers[] | select(.name == "kube-scheduler").image'; }
expect "kube-scheduler has the version of the API server" registry.example/kube-scheduler:v1.36.4 "$(image)"
for version in v1.33.4+k3s1 v1.33.4-eks-b123abc v1.33.4-gke.1789 v1.33.4; do
  KUBE_VERSION=$version render
  expect "Kubernetes $version uses kube-scheduler v1.33.4" registry.example/kube-scheduler:v1.33.4 "$(image)"
done
render --set scheduler.image.tag=v1.35.0
expect "scheduler.image.tag overrides the version" registry.example/kube-scheduler:v1.35.0 "$(image)"
SCHEDULER_REPOSITORY='' refused "without an image for kube-scheduler, helm says what to set" 'scheduler.image.repository=REGISTRY/kube-scheduler'

expect "the extender watches the Lease of kube-scheduler" "schedulerLease: tessera-system/tessera-scheduler" \
  "$(the ConfigMap/tessera-scheduler '.data."extender.yaml"' | grep schedulerLease)"
expect "the role allows kube-scheduler and the extender to use the Lease" "get update list watch" "$(the Role/tessera-scheduler '.rules[] | select(.resourceNames).verbs | join(" ")')"
pause() { the $deployment 'first(.spec.template.spec.containers[] | select(.name == "kube-scheduler")).lifecycle.preStop.sleep.seconds // ""'; }
render
expect "preStop keeps the Lease until the extender's last bind is done" 5 "$(pause)"
expect "the grace period is longer than preStop" 30 "$(the $deployment '.spec.template.spec.terminationGracePeriodSeconds')"
KUBE_VERSION=v1.29.4 render
expect "before 1.30 there is no preStop sleep" "" "$(pause)"

# kube-scheduler must get the configuration that the extender prints, and the extender must accept
# its own configuration.
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
# settings_of DEPLOYMENT: the annotations from which the tessera program reads the cluster's settings.
settings_of() { the "$1" '.spec.template.metadata.annotations | [.["tessera.io/resource-prefix", "tessera.io/resource-whole", "tessera.io/policy-shared", "tessera.io/policy-whole"]] | join(" ")'; }
render
expect "annotations of the scheduler pods have resource names and policies" "aliyun.com aliyun.com/gpu binpack ring" "$(settings_of Deployment/tessera-scheduler)"
SCHEDULER_REPOSITORY='' render --set attach=cluster-scheduler --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu \
  --set policies.shared=spread --set policies.whole=best_effort
expect "behind a Service, the extender pods have these annotations" "example.com nvidia.com/gpu spread best_effort" "$(settings_of Deployment/tessera-extender)"

if [[ -x $extender ]]; then
  render
  same_as_printed "kube-scheduler gets the configuration that the extender prints"
  read_by_extender "the extender accepts its configuration" tessera-scheduler
  render --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu
  same_as_printed "the configurations are equal with other resource names"
  render --set policies.whole=static --set-json 'policies.staticSets={"box":{"2":[[0,1],[2,3]]}}' --set policies.shared=fgd \
    --set-json 'typicalPods=[{"memory":4,"count":10},{"gpus":64,"cpu":"1500m"},{"gpus":2,"cpu":8}]' --set unit=999GiB --set scoreStep=1000000 --set log.format=json
  read_by_extender "the extender accepts a configuration with every setting changed" tessera-scheduler
  render --set attach=cluster-scheduler --set tls.enabled=false
  read_by_extender "the extender accepts its configuration behind a Service" tessera-extender
  # The chart writes leaderElection explicitly; it is on by default.
  expect "the Secret has the configuration that the extender prints" "$(printed)" \
    "$(as_json "$(the Secret/tessera-kube-scheduler '.stringData."config.yaml"')" | jq -c 'del(.leaderElection)')"
else
  say "$extender is missing: cannot compare configurations"
fi

# A policy of the API server sets schedulerName, if the version supports it.
render
expect "from 1.36 on, a policy sets schedulerName" "tessera-scheduler-name " "$(kinds MutatingAdmissionPolicy)"
expect_match "the policy covers all resources of Tessera" "\['aliyun.com/gpu-mem','aliyun.com/gpu','aliyun.com/gpu-count','aliyun.com/gpu-core.percentage'\]" \
  "$(the MutatingAdmissionPolicy/tessera-scheduler-name '.spec.matchConditions[2].expression')"
expect_match "the policy ignores amounts of 0" "limits\[name\]\)\)\.isGreaterThan\(quantity\('0'\)\)" \
  "$(the MutatingAdmissionPolicy/tessera-scheduler-name '.spec.matchConditions[2].expression')"
KUBE_VERSION=v1.33.4 render
expect "before 1.36, there is no such policy by default" "" "$(kinds MutatingAdmissionPolicy)"
KUBE_VERSION=v1.35.0 render --set schedulerNamePolicy.enabled=true
expect "1.35 with the feature gate uses the beta API" admissionregistration.k8s.io/v1beta1 "$(the MutatingAdmissionPolicy/tessera-scheduler-name .apiVersion)"
KUBE_VERSION=v1.33.4 refused "schedulerNamePolicy.enabled=true is rejected on Kubernetes 1.33" 'has no MutatingAdmissionPolicy' --set schedulerNamePolicy.enabled=true
render --set schedulerNamePolicy.enabled=false
expect "schedulerNamePolicy.enabled=false removes the policy" "" "$(kinds MutatingAdmissionPolicy)"

# Warnings about requests that are often a mistake.
requests=ValidatingAdmissionPolicy/tessera-requests
render
expect "a policy warns about requests, and rejects nothing" 'Ignore ["Warn"]' \
  "$(the $requests .spec.failurePolicy) $(the ValidatingAdmissionPolicyBinding/tessera-requests .spec.validationActions)"
render --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu --set unit=256MiB
expect_match "the warnings use the resource names of the cluster" "'example.com/gpu-mem'.*'nvidia.com/gpu', 'example.com/gpu-count'" "$(the $requests .spec.variables)"
expect_match "the warning about a suffix names the unit" 'counts units of 256MiB of GPU memory' "$(the $requests '.spec.validations[1].messageExpression')"
expect "no part of that policy has a default name" 0 "$(the $requests '.spec | tojson | [scan("aliyun.com")] | length')"
render --set requestWarnings.enabled=false
expect "requestWarnings.enabled=false removes the policy" "there is no $requests" "$(the $requests .metadata.name)"
KUBE_VERSION=v1.29.4 render
expect "before 1.30, there are no warnings" "" "$(kinds ValidatingAdmissionPolicy)"

# Roles for people.
render
expect "the viewer role can only read nodes, pods and Events" '["get","list","watch"] events nodes pods' \
  "$(the ClusterRole/tessera-viewer '"\([.rules[].verbs[]] | unique | tojson) \([.rules[].resources[]] | sort | join(" "))"')"
expect "the chart binds the viewer role to no account" "" "$(jq -c 'select(.roleRef.name == "tessera-viewer")' "$WORK/objects")"

# The cluster's own kube-scheduler.
SCHEDULER_REPOSITORY='' render --set attach=cluster-scheduler
deployment=Deployment/tessera-extender
expect "cluster-scheduler: a pod contains only the extender" extender "$(the $deployment '[.spec.template.spec.containers[].name] | join(" ")')"
expect "cluster-scheduler: the Service has gpushare's port and selects only the leader" 'NodePort 32766 true' \
  "$(the Service/tessera-extender '"\(.spec.type) \(.spec.ports[0].nodePort) \(.spec.selector["tessera.io/leader"])"')"
expect "cluster-scheduler: the leader can label pods of its own namespace" '["patch"]' "$(the Role/tessera-extender '[.rules[] | select(.resources == ["pods"])][0].verbs')"
config() { the Secret/tessera-kube-scheduler '.stringData."config.yaml"'; }
expect_match "cluster-scheduler: kube-scheduler calls the Service over TLS" 'urlPrefix: https://127.0.0.1:32766/gpushare-scheduler' "$(config)"
expect_match "cluster-scheduler: kube-scheduler has a client certificate" 'certData: [A-Za-z0-9+/]{100}' "$(config)"
expect "cluster-scheduler: there is no policy for schedulerName" "" "$(kinds MutatingAdmissionPolicy)"
verify() { # server or client certificate
  the Secret/tessera-extender-tls '.data."ca.crt"' | base64 -d >"$WORK/ca"
  the Secret/tessera-extender-tls ".data.\"$1.crt\"" | base64 -d >"$WORK/crt"
  openssl verify -CAfile "$WORK/ca" "$WORK/crt" 2>&1
}
expect "the CA signed the server certificate" "$WORK/crt: OK" "$(verify tls)"
expect_match "the server certificate has the name that kube-scheduler expects" 'DNS:tessera-extender.tessera-system.svc' "$(openssl x509 -in "$WORK/crt" -noout -ext subjectAltName)"
expect "the CA signed the client certificate" "$WORK/crt: OK" "$(verify client)"
render --set attach=cluster-scheduler --set tls.enabled=false
expect_match "tls.enabled=false uses plain HTTP, like gpushare" 'http://127.0.0.1:32766/gpushare-scheduler' "$(config)"
expect "tls.enabled=false creates no certificates" "tessera-kube-scheduler " "$(kinds Secret)"
render --set attach=cluster-scheduler --set tls.existingSecret=mine
expect "tls.existingSecret is mounted" mine "$(the $deployment '.spec.template.spec.volumes[] | select(.name == "tls").secret.secretName')"
expect_match "with tls.existingSecret, kube-scheduler reads certificate files" 'certFile: /etc/kubernetes/tessera/client.crt' "$(config)"
render --set attach=cluster-scheduler --set service.type=ClusterIP --set service.clusterIP=10.96.0.77
expect_match "service.clusterIP is the address that kube-scheduler calls" 'https://10.96.0.77:12345/gpushare-scheduler' "$(config)"

render
expect "of two replicas, one may be unavailable" 1 "$(the PodDisruptionBudget/tessera-scheduler .spec.maxUnavailable)"
render --set replicas=1
expect "a single replica has no budget, because its node could never be drained" "" "$(kinds PodDisruptionBudget)"
render --set image.repository=mirror.example/t --set image.digest="sha256:$(printf '%064d' 1)"
expect "image.digest pins the image" "mirror.example/t@sha256:$(printf '%064d' 1)" "$(the Deployment/tessera-scheduler '.spec.template.spec.containers[0].image')"

# GKE rejects critical pods outside kube-system unless a quota names their priority classes.
KUBE_VERSION=v1.33.4-gke.1789 render
expect "on GKE, a quota allows the critical pods" '["system-cluster-critical","system-node-critical"]' \
  "$(the ResourceQuota/tessera-critical-pods '.spec.scopeSelector.matchExpressions[0].values')"
KUBE_VERSION=v1.33.4-gke.1789 render --set agent.enabled=false --set criticalPodsQuota.enabled=auto
expect "the quota covers only the priority classes that are used" '["system-cluster-critical"]' "$(the ResourceQuota/tessera-critical-pods '.spec.scopeSelector.matchExpressions[0].values')"
KUBE_VERSION=v1.33.4-gke.1789 render --set priorityClassName= --set agent.priorityClassName=mine
expect "without critical priority classes, there is no quota" "" "$(kinds ResourceQuota)"
render
expect "on other clusters, there is no quota by default" "" "$(kinds ResourceQuota)"
render --set criticalPodsQuota.enabled=true
expect "criticalPodsQuota.enabled=true creates the quota" "tessera-critical-pods " "$(kinds ResourceQuota)"

# Values that a program would reject at its start must be rejected by helm, with the name of the
# value.
refused "static without a table is rejected" 'policies.staticSets is empty' --set policies.whole=static
refused "a GPU set of the wrong size is rejected" 'policies.staticSets.box.2 has the set \[0\]' --set-json 'policies.staticSets={"box":{"2":[[0]]}}'
refused "a GPU set whose key is no number is rejected" "'/policies/staticSets/box'" --set-json 'policies.staticSets={"box":{"two":[[0,1]]}}'
refused "a scoreStep above the maximum is rejected" "'/scoreStep'" --set scoreStep=1000001
refused "a typical pod without GPUs is rejected" "'/typicalPods/0'" --set-json 'typicalPods=[{"cpu":8}]'
refused "a unit larger than any GPU is rejected" "'/unit'" --set unit=2000GiB
refused "an unknown value is rejected" "additional properties 'replica' not allowed" --set replica=3
refused "an unknown policy is rejected" "policies/shared" --set policies.shared=lucky
refused "an unknown unit is rejected" "'/unit'" --set unit=GB
finish
