#!/usr/bin/env bash
# What helm says after an installation, on clusters of any version: helm renders notes only for a cluster that it reaches, so here they are
# the text of a ConfigMap in a copy of the chart.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
cp -r "$CHART" "$WORK/chart"
CHART=$WORK/chart
{
  echo '{{- define "notes" }}'
  cat "$CHART/templates/NOTES.txt"
  echo '{{- end }}'
} >"$CHART/templates/_notes.tpl"
rm "$CHART/templates/NOTES.txt"
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {text: {{ include "notes" . | quote }}}\n' >"$CHART/templates/notes.yaml"
notes() { # values...
  render "$@"
  the ConfigMap/notes .data.text
}
lacks() { if [[ $3 =~ $2 ]]; then fail "$1" "$3"; else pass; fi; }
told='schedulerName: tessera-scheduler'

expect_match "pods find the scheduler by themselves" 'your manifests stay as they are' "$(notes)"
lacks "and need not name it" "$told" "$(notes)"
expect_match "before 1.36 they must" "comes with Kubernetes 1.36; this is v1.33.4.*$told" "$(KUBE_VERSION=v1.33.4 notes)"
expect_match "and where the policy is not wanted" "because schedulerNamePolicy.enabled is false.*$told" "$(notes --set schedulerNamePolicy.enabled=false)"
lacks "which is not the API server's fault" 'This API server cannot' "$(notes --set schedulerNamePolicy.enabled=false)"
expect_match "the next step is an upgrade that keeps values" 'helm upgrade tessera CHART -n tessera-system --reset-then-reuse-values --set recordPolicy.action=deny' "$(notes)"

expect_match "before 1.30 the agents' account is broad" 'can write every node and every pod and every ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes)"
lacks "less so without the ConfigMap" 'ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes --set agent.unhealthyConfigMap=false)"
lacks "not at all without agents" "agent's account" "$(KUBE_VERSION=v1.29.0 notes --set agent.enabled=false)"
lacks "nor from 1.30 on" "agent's account" "$(notes)"
expect_match "the cluster's own kube-scheduler has to be told" 'get secret tessera-kube-scheduler' "$(notes --set attach=cluster-scheduler)"
finish
