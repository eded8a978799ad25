#!/usr/bin/env bash
# Checks the notes that helm prints after an installation, for several versions of Kubernetes. helm
# renders notes only for a cluster that it can reach. This test therefore renders them as the text
# of a ConfigMap in a copy of the chart.
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
asks_for='schedulerName: tessera-scheduler'

expect_match "from 1.36 on, the notes say that manifests stay unchanged" 'your manifests stay as they are' "$(notes)"
lacks "from 1.36 on, the notes do not ask for schedulerName" "$asks_for" "$(notes)"
expect_match "before 1.36, the notes ask for schedulerName" "comes with Kubernetes 1.36; this is v1.33.4.*$asks_for" "$(KUBE_VERSION=v1.33.4 notes)"
expect_match "without the policy, the notes ask for schedulerName" "because schedulerNamePolicy.enabled is false.*$asks_for" "$(notes --set schedulerNamePolicy.enabled=false)"
lacks "without the policy, the notes do not blame the API server" 'This API server cannot' "$(notes --set schedulerNamePolicy.enabled=false)"
expect_match "the notes show an upgrade command that keeps values" 'helm upgrade tessera CHART -n tessera-system --reset-then-reuse-values --set recordPolicy.action=deny' "$(notes)"

expect_match "before 1.30, the notes warn about the permissions of the agents" 'can write every node and every pod and every ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes)"
lacks "without the ConfigMap, the warning does not mention ConfigMaps" 'ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes --set agent.unhealthyConfigMap=false)"
lacks "without agents, there is no such warning" "agent's account" "$(KUBE_VERSION=v1.29.0 notes --set agent.enabled=false)"
lacks "from 1.30 on, there is no such warning" "agent's account" "$(notes)"
expect_match "with cluster-scheduler, the notes name the Secret for kube-scheduler" 'get secret tessera-kube-scheduler' "$(notes --set attach=cluster-scheduler)"
finish
