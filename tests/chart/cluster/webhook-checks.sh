# shellcheck shell=bash
# Checks of the webhook that sets schedulerName, on a cluster with the chart. Source this file after
# lib.sh.

# Certificates that are renewed every 20 s.
WEBHOOK_VALUES=(--set schedulerNameWebhook.certificates.lifetime=30s --set schedulerNameWebhook.certificates.settle=2s
  --set schedulerNameWebhook.certificates.checkEvery=1s)

# sets_scheduler_names BY: the pods of tests/webhook/pods.json get the schedulerName that they should
# have. Does not create them.
sets_scheduler_names() {
  local cases=$CHART_ROOT/tests/webhook/pods.json
  expect "$1 changes exactly the pods that need it" \
    "$(jq -c '[.[] | if .changed then "tessera-scheduler" else .spec.schedulerName // "default-scheduler" end]' "$cases")" \
    "$(jq -c 'to_entries[] | {apiVersion: "v1", kind: "Pod", metadata: {name: "case-\(.key)"}, spec: .value.spec}' "$cases" |
      kubectl create --dry-run=server -o json -f - | jq -sc 'map(.items // [.]) | add | sort_by(.metadata.name | ltrimstr("case-") | tonumber) | map(.spec.schedulerName)')"
}

scheduler_for() { gpu_pod probe "$1" | kubectl create --dry-run=server -o 'jsonpath={.spec.schedulerName}' -f -; }
gets_scheduler() { [[ $(scheduler_for '{"aliyun.com/gpu-mem": "1"}') == "$1" ]]; }
webhook_secret() { in_space get secret tessera-webhook-tls -o json | jq -S .data; }
ca_bundle() { kubectl get mutatingwebhookconfiguration tessera-scheduler-name -o 'jsonpath={.webhooks[0].clientConfig.caBundle}'; }
has_bundle() { [[ -n $(ca_bundle) ]]; }
secret_is() { [[ $(webhook_secret) == "$1" ]]; }
binpack_runs() { [[ $(kubectl get pods -l app=binpack -o json | jq -c '[.items[] | [.status.phase, .spec.schedulerName]] | unique') == '[["Running","tessera-scheduler"]]' ]]; }
webhooks_gone() { prints_nothing in_space get pods -l app.kubernetes.io/component=webhook -o name; }
# reviews RESULT: how many calls the webhooks answered with this result.
reviews() {
  local pod total=0 count
  for pod in $(in_space get pods -l app.kubernetes.io/component=webhook --field-selector=status.phase=Running -o 'jsonpath={.items[*].metadata.name}'); do
    count=$(kubectl get --raw "/api/v1/namespaces/$RELEASE_SPACE/pods/$pod:39996/proxy/metrics" | sed -n "s/^tessera_webhook_reviews_total{result=\"$1\"} //p")
    total=$((total + count))
  done
  echo "$total"
}
# create_until CONDITION...: creates GPU pods, without keeping them, until the condition holds. Prints
# each other outcome than the right schedulerName.
create_until() {
  local deadline=$((SECONDS + 60)) got
  until "$@"; do
    got=$(scheduler_for '{"aliyun.com/gpu": "1"}' 2>&1) || true
    [[ $got == tessera-scheduler ]] || echo "after $SECONDS s: $got"
    ((SECONDS < deadline)) || { echo "not in time: $*" && return; }
  done
}

# webhook_checks VALUES...: upgrades the chart with these values, so that the webhook runs, and checks
# it. Leaves it running.
webhook_checks() {
  local notes first before
  notes=$(chart upgrade --reset-then-reuse-values "${WEBHOOK_VALUES[@]}" "$@" --wait --timeout 120s)
  expect_match "the notes say that the webhook makes manifests work unchanged" 'your manifests stay as they are.*The webhook tessera-webhook does this' "$notes"
  expect "there is no policy in addition to the webhook" "" "$(kubectl get mutatingadmissionpolicies -o name 2>/dev/null || true)"
  wait_for 20 "the webhook sets schedulerName" gets_scheduler tessera-scheduler
  sets_scheduler_names "the webhook"
  kubectl apply -f "$CHART_ROOT/deploy/examples/binpack.yaml" >/dev/null
  wait_for 60 "an unchanged manifest of the README runs" binpack_runs

  before=$(reviews changed)
  check "the webhooks have answered" test "$before" -gt 0
  kubectl run not-sent --image="$BUSYBOX_IMAGE" --restart=Never -- true >/dev/null
  expect "pods without GPUs are not sent to the webhook" "0 0 0" "$(reviews unchanged) $(reviews other) $(reviews invalid)"

  # shellcheck disable=SC2317 # called by create_until
  renewed_twice() {
    local now
    now=$(webhook_secret | jq -r '."tls.crt"')
    [[ $now == "$seen" ]] || { seen=$now && renewals=$((renewals + 1)); }
    ((renewals >= 2))
  }
  local seen renewals=0
  seen=$(webhook_secret | jq -r '."tls.crt"')
  expect "no pod is missed while certificates are renewed twice" "" "$(create_until renewed_twice)"
  expect "the Secret keeps no key of an authority" '["ca.crt","previous-ca.crt","previous.crt","previous.key","tls.crt","tls.key"]' "$(webhook_secret | jq -c keys)"

  # Long certificates from here on, so that the Secret does not change by itself.
  check "helm upgrade succeeds" chart upgrade --reset-then-reuse-values "$@" --set schedulerNameWebhook.certificates.lifetime=2160h --wait --timeout 120s
  first=$(webhook_secret)
  check "an upgrade keeps the Secret" secret_is "$first"
  in_space delete secret tessera-webhook-tls >/dev/null
  wait_for 20 "a deleted Secret is written again, with the same certificates" secret_is "$first"
  in_space patch secret tessera-webhook-tls -p '{"data": {"tls.key": "eA=="}}' >/dev/null
  wait_for 20 "a damaged Secret is repaired" secret_is "$first"
  kubectl patch mutatingwebhookconfiguration tessera-scheduler-name --type=json -p '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]' >/dev/null
  wait_for 20 "a removed caBundle is written again" has_bundle
  wait_for 20 "the webhook works after that" gets_scheduler tessera-scheduler
  no_forbidden_calls "the API server rejected no call of the webhooks" app.kubernetes.io/component=webhook
  expect "the webhook's account can read its own Secret only, and no pod" "yes no no no" \
    "$(may tessera-webhook get secret/tessera-webhook-tls -n "$RELEASE_SPACE") $(may tessera-webhook get secrets -n "$RELEASE_SPACE") $(may tessera-webhook create secrets -n "$RELEASE_SPACE") $(may tessera-webhook list pods)"

  in_space scale deployment tessera-webhook --replicas=0 >/dev/null
  wait_for 40 "the webhook is down" webhooks_gone
  check "a pod without GPUs can be created while the webhook is down" kubectl run while-down --image="$BUSYBOX_IMAGE" --restart=Never -- true
  # No node fits, or the default scheduler would place it.
  gpu_pod missed '{"aliyun.com/gpu-mem": "1"}' | jq -c '.spec.nodeSelector = {none: "true"}' | kubectl create -f - >/dev/null
  expect "so can a GPU pod, unchanged" default-scheduler "$(kubectl get pod missed -o 'jsonpath={.spec.schedulerName}')"
  expect_match "tessera why says what is missing" 'schedulerName is default-scheduler, which does not call Tessera: create it again with tessera-scheduler' \
    "$(KUBECONFIG=$(cluster kubeconfig) "$TESSERA" why missed 2>&1 || true)"
  in_space scale deployment tessera-webhook --replicas=2 >/dev/null
  wait_for 40 "the webhook works again after its return" gets_scheduler tessera-scheduler
  kubectl delete pod missed --wait=false >/dev/null
  kubectl delete statefulset binpack --wait=false >/dev/null
}
