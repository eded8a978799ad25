# shellcheck shell=bash
# Checks that something is absent. A check of this kind needs evidence that it could have found the
# thing: empty output of a command that failed is no success. checks.sh breaks each of them on
# purpose. Source this file; it uses pass, fail, expect, kubectl and in_space of the caller.

# lacks WHAT REGEX TEXT: TEXT does not match. An empty TEXT fails.
lacks() {
  if [[ -z $3 ]]; then
    fail "$1" "there is no text to search"
  elif [[ $3 =~ $2 ]]; then
    fail "$1" "$3"
  else
    pass "$1"
  fi
}

# nothing_in WHAT COMMAND...: the command succeeds and prints nothing.
nothing_in() {
  local what=$1 out
  shift
  if ! out=$("$@" 2>/dev/null); then fail "$what" "this command failed: $*"; else expect "$what" "" "$out"; fi
}

# names_only_known WHAT KNOWN NAMES: every line of NAMES, of which there is at least one, is a line of
# KNOWN.
names_only_known() {
  if [[ -z $3 ]]; then fail "$1" "there is no name to compare"; else expect "$1" "" "$(comm -23 <(sort -u <<<"$3") <(sort -u <<<"$2"))"; fi
}

# no_forbidden_calls WHAT SELECTOR: the logs of these pods, from the start of their programs, contain
# no call that the API server rejected.
no_forbidden_calls() {
  local logs
  if ! logs=$(in_space logs -l "$2" --all-containers --prefix --tail=-1 2>&1); then
    fail "$1" "$logs"
  elif [[ ! $logs =~ INFO\ +start(ing)?\ version= ]]; then
    fail "$1" "no pod with $2 has the log of a program"
  else
    expect "$1" "" "$(grep -iE 'forbidden|denied request|cannot (list|watch)' <<<"$logs" || true)"
  fi
}

# chart_objects: prints all objects of the chart, of the kinds that it creates.
chart_objects() {
  local policies=""
  # Kubernetes before 1.36 does not serve them.
  ! kubectl api-resources --api-group=admissionregistration.k8s.io -o name | grep -q '^mutatingadmissionpolicies' ||
    policies=,mutatingadmissionpolicies,mutatingadmissionpolicybindings
  kubectl get -A -l app.kubernetes.io/instance=tessera -o name \
    deployments,daemonsets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,resourcequotas,networkpolicies,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"$policies"
}

# uninstall_removes_all COMMAND...: the command, which uninstalls the chart, succeeds and removes all
# objects of the chart.
uninstall_removes_all() {
  lacks "the objects of the chart can be listed" 'rror' "$(chart_objects 2>&1 || true)"
  check "helm uninstall succeeds" "$@"
  nothing_in "no object of the chart is left" chart_objects
}
