# shellcheck shell=bash
# Functions for tests of what the chart renders. They use helm and kubectl of the test cluster's
# tools, and need no cluster. Source this file.

CHART_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../cluster/lib/common.sh
source "$CHART_ROOT/tests/cluster/lib/common.sh"
# shellcheck source=../cluster/lib/tools.sh
source "$CHART_ROOT/tests/cluster/lib/tools.sh"
CHART=$CHART_ROOT/deploy/helm/tessera
PASSED=0
FAILED=0

# require_tools_or_skip: skips the test if helm or kubectl is not built.
require_tools_or_skip() {
  local program missing=
  for program in helm kubectl; do [[ -x $(tool_path "$program") ]] || missing+=" $program"; done
  [[ -n $missing ]] || return 0
  say "$(basename "$0"): skipped: not built:$missing (tests/cluster/build-tools --only helm,kubectl)"
  [[ ${TESSERA_REQUIRE_CLUSTER:-} == 1 ]] && exit 1
  exit 77
}

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# template ARGUMENTS...: renders the chart for Kubernetes KUBE_VERSION (default 1.36.4), with
# SCHEDULER_REPOSITORY as the image of the second scheduler.
template() {
  "$(tool_path helm)" template tessera "$CHART" -n tessera-system --kube-version "${KUBE_VERSION:-v1.36.4}" \
    --set scheduler.image.repository="${SCHEDULER_REPOSITORY-registry.example/kube-scheduler}" "$@"
}

# render ARGUMENTS...: renders the chart and writes every object as JSON, one per line, to
# $WORK/objects.
render() {
  : >"$WORK/objects"
  template "$@" >"$WORK/rendered.yaml" 2>"$WORK/errors" || { fail "helm template $*" "$(<"$WORK/errors")" && return; }
  KUBECONFIG=/dev/null "$(tool_path kubectl)" patch --local -f "$WORK/rendered.yaml" --type=merge -p '{}' -o json | jq -c . >"$WORK/objects"
}

# the KIND/NAME FILTER: applies a jq filter to that object. Prints "there is no KIND/NAME" if helm did
# not render it.
the() {
  jq -nrc --arg kind "${1%%/*}" --arg name "${1#*/}" "
    [inputs | select(.kind == \$kind and .metadata.name == \$name)] |
    if . == [] then \"there is no \(\$kind)/\(\$name)\" else .[] | $2 end" "$WORK/objects"
}
# kinds KIND: prints the names of all objects of this kind.
kinds() {
  [[ -s $WORK/objects ]] || { echo "nothing was rendered" && return; }
  jq -r --arg kind "$1" 'select(.kind == $kind) | .metadata.name' "$WORK/objects" | sort | tr '\n' ' '
}

pass() { PASSED=$((PASSED + 1)); }
fail() {
  FAILED=$((FAILED + 1))
  say "FAIL  $1"
  printf '%s\n' "${2:-}" | sed 's/^/      /'
}
expect() { if [[ $2 == "$3" ]]; then pass; else fail "$1" "wanted: $2"$'\n'"got:    $3"; fi; }
expect_match() { if [[ $3 =~ $2 ]]; then pass; else fail "$1" "wanted a match of: $2"$'\n'"got: $3"; fi; }
# refused WHAT REGEX ARGUMENTS...: checks that helm does not render this, with an error that matches
# REGEX.
refused() {
  local what=$1 regex=$2 out
  shift 2
  if out=$(template "$@" 2>&1); then fail "$what" "it was rendered"; else expect_match "$what" "$regex" "$out"; fi
}
# shellcheck source=evidence.sh
source "$CHART_ROOT/tests/chart/evidence.sh"
finish() {
  say "$(basename "$0" .sh): $PASSED passed, $FAILED failed"
  ((FAILED == 0))
}
