#!/usr/bin/env bash
# Checks what the chart renders for the webhook that sets schedulerName.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
webhook=${TESSERA_BIN:-$CHART_ROOT/build/release/bin}/tessera-webhook

# Never the policy and the webhook.
who() { # VERSION VALUES...: prints who sets schedulerName
  KUBE_VERSION=$1 render "${@:2}"
  echo "$(kinds MutatingAdmissionPolicy)/$(kinds MutatingWebhookConfiguration)"
}
policy='tessera-scheduler-name /' hook='/tessera-scheduler-name ' neither=/
expect "from 1.36 on, the policy" "$policy" "$(who v1.36.4)"
expect "from 1.30 to 1.35, the webhook" "$hook" "$(who v1.35.1)"
expect "the same on 1.30" "$hook" "$(who v1.30.0)"
expect "before 1.30, neither by default" $neither "$(who v1.29.0)"
expect "before 1.30, the webhook if it is asked for" "$hook" "$(who v1.29.0 --set schedulerNameWebhook.enabled=true)"
expect "then it has no matchConditions, which 1.29 may not have" null "$(the MutatingWebhookConfiguration/tessera-scheduler-name '.webhooks[0].matchConditions')"
expect "the webhook replaces the policy if it is asked for" "$hook" "$(who v1.36.4 --set schedulerNameWebhook.enabled=true)"
expect "schedulerNamePolicy.enabled=false turns off both" $neither "$(who v1.33.4 --set schedulerNamePolicy.enabled=false)"
expect "the webhook without the policy" "$hook" "$(who v1.36.4 --set schedulerNamePolicy.enabled=false --set schedulerNameWebhook.enabled=true)"
expect "schedulerNameWebhook.enabled=false turns it off" $neither "$(who v1.33.4 --set schedulerNameWebhook.enabled=false)"
expect "the policy with its feature gate needs no webhook" "$policy" "$(who v1.35.1 --set schedulerNamePolicy.enabled=true)"
expect "the cluster's own kube-scheduler needs neither" $neither "$(who v1.33.4 --set attach=cluster-scheduler)"
refused "both at once are rejected" 'only one of them may set schedulerName' --set schedulerNamePolicy.enabled=true --set schedulerNameWebhook.enabled=true

# A webhook that cannot stop other pods.
KUBE_VERSION=v1.33.4 render --set resourceNames.whole=nvidia.com/gpu
configuration() { the MutatingWebhookConfiguration/tessera-scheduler-name "[.webhooks[] | $1] | if length == 1 then .[0] else \"not one webhook\" end"; }
expect "a webhook that does not answer stops no pod" "Ignore 3 None IfNeeded" "$(configuration '"\(.failurePolicy) \(.timeoutSeconds) \(.sideEffects) \(.reinvocationPolicy)"')"
expect "only the creation of pods is sent" '[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"],"scope":"Namespaced"}]' "$(configuration .rules)"
expect "no pods of kube-system or of Tessera are sent" '["kube-system","tessera-system"]' "$(configuration '.namespaceSelector.matchExpressions[0].values')"
conditions=$(configuration .matchConditions)
expect_match "only GPU pods are sent" "\['aliyun.com/gpu-mem','nvidia.com/gpu','aliyun.com/gpu-count','aliyun.com/gpu-core.percentage'\]" "$conditions"
expect "the webhook calls its Service" 'tessera-webhook tessera-system /scheduler-name 443' "$(configuration '.clientConfig.service | "\(.name) \(.namespace) \(.path) \(.port)"')"
render --set resourceNames.whole=nvidia.com/gpu
expect "its conditions are those of the policy" "$(the MutatingAdmissionPolicy/tessera-scheduler-name .spec.matchConditions)" "$conditions"

KUBE_VERSION=v1.33.4 render
pod() { the Deployment/tessera-webhook ".spec.template.spec | $1"; }
expect "two replicas, and one may be unavailable" "2 1" "$(the Deployment/tessera-webhook .spec.replicas) $(the PodDisruptionBudget/tessera-webhook .spec.maxUnavailable)"
expect "the pods have no privileges" "true 65532 true false ALL" \
  "$(pod '"\(.securityContext.runAsNonRoot) \(.securityContext.runAsUser) \(.containers[0].securityContext | "\(.readOnlyRootFilesystem) \(.allowPrivilegeEscalation) \(.capabilities.drop[0])")"')"
expect "its account may use one Secret and one webhook configuration" '[["secrets"],["tessera-webhook-tls"],["get","patch","create"]] [["mutatingwebhookconfigurations"],["tessera-scheduler-name"],["get","patch"]]' \
  "$(the Role/tessera-webhook '.rules[] | [.resources, .resourceNames, .verbs]') $(the ClusterRole/tessera-webhook '.rules[] | [.resources, .resourceNames, .verbs]')"
expect "the Secret of the chart has no data, so that upgrades keep the certificates" "null null" "$(the Secret/tessera-webhook-tls '"\(.data) \(.stringData)"')"
declared() { jq -r 'select(.kind == "Deployment" or .kind == "DaemonSet") | .spec.template.spec.containers[].ports[].containerPort' "$WORK/objects" | sort; }
opened() { jq -r 'select(.kind == "NetworkPolicy") | .spec.ingress[].ports[].port' "$WORK/objects" | sort; }
expect "exactly the declared ports are open" "$(declared)" "$(opened)"
settings() { the ConfigMap/tessera-webhook '.data."webhook.yaml"'; }
accepted() { # WHAT
  settings >"$WORK/webhook.yaml"
  # The files of another program are not there.
  if "$webhook" --config "$WORK/webhook.yaml" --check-config 2>"$WORK/errors"; then pass; else fail "$1" "$(<"$WORK/errors")"; fi
}
if [[ -x $webhook ]]; then
  accepted "the webhook accepts its configuration"
  KUBE_VERSION=v1.33.4 render --set log.format=json --set resourceNames.prefix=example.com --set resourceNames.whole=nvidia.com/gpu --set scheduler.name=gpus --set schedulerNameWebhook.certificates.lifetime=30s \
    --set schedulerNameWebhook.certificates.settle=2s --set schedulerNameWebhook.certificates.checkEvery=500ms --set schedulerNameWebhook.port=8443
  accepted "the webhook accepts a configuration with every setting changed"
  expect_match "the configuration has the scheduler's name" 'schedulerName: "gpus"' "$(settings)"
else
  say "$webhook is missing: cannot check its configuration"
fi

# Certificates of another program.
KUBE_VERSION=v1.33.4 render --set schedulerNameWebhook.existingSecret=mine --set-json 'schedulerNameWebhook.annotations={"cert-manager.io/inject-ca-from":"tessera-system/webhook"}'
expect "existingSecret is mounted" mine "$(pod '.volumes[] | select(.name == "tls").secret.secretName')"
expect "with existingSecret, the pods need no permissions and no token" "/false" \
  "$(jq -r 'select(.metadata.name == "tessera-webhook" and (.kind | test("Role"))) | .kind' "$WORK/objects")/$(pod .automountServiceAccountToken)"
expect "the annotations for cert-manager are set" tessera-system/webhook "$(the MutatingWebhookConfiguration/tessera-scheduler-name '.metadata.annotations["cert-manager.io/inject-ca-from"]')"
[[ ! -x $webhook ]] || accepted "the webhook accepts the configuration with files"
KUBE_VERSION=v1.33.4 render --set-json 'schedulerNameWebhook.apiServerCIDRs=["10.0.0.1/32"]' --set schedulerNameWebhook.replicas=1
expect "apiServerCIDRs restricts the port that the API server calls" '[{"ipBlock":{"cidr":"10.0.0.1/32"}}]' \
  "$(the NetworkPolicy/tessera-webhook '.spec.ingress[] | select(.ports[0].port == 10250).from')"
expect "a single replica has no budget" "tessera-scheduler " "$(kinds PodDisruptionBudget)"
refused "the port of health cannot be the webhook's" "'/schedulerNameWebhook/port'" --set schedulerNameWebhook.port=39996
refused "a lifetime without a unit is rejected" "'/schedulerNameWebhook/certificates/lifetime'" --set-string schedulerNameWebhook.certificates.lifetime=90
finish
