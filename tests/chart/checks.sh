#!/usr/bin/env bash
# Breaks the checks of tests/chart on purpose: each must fail if the thing that it looks for is
# there, and also if it could not look.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip

# counts COMMAND...: runs a check in a subshell and prints how often it passed and failed.
counts() { (
  PASSED=0 FAILED=0
  "$@" >/dev/null
  echo "$PASSED $FAILED"
); }
fails() { expect "it fails: $*" "0 1" "$(counts "$@")"; }
passes() { expect "it passes: $*" "1 0" "$(counts "$@")"; }

passes lacks w bad good
fails lacks w bad "a bad word"
fails lacks w bad ""
passes nothing_in w true
fails nothing_in w echo something
fails nothing_in w false
passes names_only_known w $'a\nb\nc' $'a\nc'
fails names_only_known w $'a\nb' $'a\nc'
fails names_only_known w $'a\nb' ""

# A cluster whose kubectl prints $answer and ends with $code.
answer='' code=0
kubectl() { printf '%s' "$answer" && return "$code"; }
in_space() { kubectl; }
check() { if "${@:2}" >/dev/null 2>&1; then pass; else fail "$1"; fi; }
answer='[pod/agent-x] INFO  start version=0.1.0' passes no_forbidden_calls w app=x
answer='[pod/agent-x] INFO  start version=0.1.0 WARN pods is forbidden' fails no_forbidden_calls w app=x
answer='' fails no_forbidden_calls w app=x
answer='No resources found in tessera-system namespace.' fails no_forbidden_calls w app=x
answer='INFO  starting version=' code=1 fails no_forbidden_calls w app=x

# helm removes everything; nothing; or kubectl fails before or after it.
removes_all() { answer=''; }
keeps_all() { :; }
breaks() { answer='' code=1; }
uninstalled_by() { answer=deployment.apps/x && check() { "${@:2}" && pass; } && uninstall_removes_all "$1"; }
expect "a complete uninstallation passes" "3 0" "$(counts uninstalled_by removes_all)"
expect "an object that is left is a failure" "2 1" "$(counts uninstalled_by keeps_all)"
expect "a kubectl that fails after the uninstallation is a failure" "2 1" "$(counts uninstalled_by breaks)"
never_installed() { answer='' && uninstall_removes_all true; }
expect "nothing to uninstall is a failure" "2 1" "$(counts never_installed)"

# What helm did not render is not empty, but a failure.
render
expect "the filter of a missing object is a failure" "there is no Role/none" "$(the Role/none .rules)"
expect "a filter without result prints nothing" "" "$(the ServiceAccount/tessera-agent '.none // empty')"
: >"$WORK/objects"
expect "if nothing was rendered, there are no kinds either" "nothing was rendered" "$(kinds Role)"
render_fails() { render --set attach=nonsense; }
expect "values that helm rejects are a failure" "0 1" "$(counts render_fails)"
expect "after such a failure, no older object is left" "there is no ServiceAccount/tessera-agent" "$(the ServiceAccount/tessera-agent .metadata.name)"
finish
