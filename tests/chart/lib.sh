# shellcheck shell=bash
# For tests of what the chart renders: helm and kubectl are those of the test cluster's tools, no cluster is needed. Sourced.

CHART_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../cluster/lib/common.sh
source "$CHART_ROOT/tests/cluster/lib/common.sh"
# shellcheck source=../cluster/lib/tools.sh
source "$CHART_ROOT/tests/cluster/lib/tools.sh"
CHART=$CHART_ROOT/deploy/helm/tessera
PASSED=0
FAILED=0

# require_tools_or_skip: helm and kubectl are built with the test cluster.
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

# template ARGUMENTS...: as on Kubernetes 1.36.4, with an image for the second scheduler unless told otherwise.
template() {
  "$(tool_path helm)" template tessera "$CHART" -n tessera-system --kube-version "${KUBE_VERSION:-v1.36.4}" \
    --set scheduler.image.repository="${SCHEDULER_REPOSITORY-registry.example/kube-scheduler}" "$@"
}

# render ARGUMENTS...: every object as JSON, one per line, into $WORK/objects.
render() {
  template "$@" >"$WORK/rendered.yaml" 2>"$WORK/errors" || { fail "helm template $*" "$(<"$WORK/errors")" && return; }
  KUBECONFIG=/dev/null "$(tool_path kubectl)" patch --local -f "$WORK/rendered.yaml" --type=merge -p '{}' -o json | jq -c . >"$WORK/objects"
}

# the KIND/NAME JQ: of that object; "" where it is not there.
the() { jq -rc --arg kind "${1%%/*}" --arg name "${1#*/}" "select(.kind == \$kind and .metadata.name == \$name) | $2" "$WORK/objects"; }
# kinds KIND: names of all objects of a kind.
kinds() { jq -r --arg kind "$1" 'select(.kind == $kind) | .metadata.name' "$WORK/objects" | sort | tr '\n' ' '; }

pass() { PASSED=$((PASSED + 1)); }
fail() {
  FAILED=$((FAILED + 1))
  say "FAIL  $1"
  printf '%s\n' "${2:-}" | sed 's/^/      /'
}
expect() { if [[ $2 == "$3" ]]; then pass; else fail "$1" "wanted: $2"$'\n'"got:    $3"; fi; }
expect_match() { if [[ $3 =~ $2 ]]; then pass; else fail "$1" "wanted a match of: $2"$'\n'"got: $3"; fi; }
# refused WHAT REGEX ARGUMENTS...: helm does not render this, and says why.
refused() {
  local what=$1 regex=$2 out
  shift 2
  if out=$(template "$@" 2>&1); then fail "$what" "it was rendered"; else expect_match "$what" "$regex" "$out"; fi
}
finish() {
  say "$(basename "$0" .sh): $PASSED passed, $FAILED failed"
  ((FAILED == 0))
}
