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
asks_for='schedulerName: tessera-scheduler'

expect_match "from 1.36 on, the notes say that manifests stay unchanged" 'your manifests stay as they are' "$(notes)"
lacks "from 1.36 on, the notes do not ask for schedulerName" "$asks_for" "$(notes)"
expect_match "before 1.36, the notes say that a webhook keeps manifests unchanged" 'your manifests stay as they are.*The webhook tessera-webhook does this' "$(KUBE_VERSION=v1.33.4 notes)"
lacks "before 1.36, the notes do not ask for schedulerName" "$asks_for" "$(KUBE_VERSION=v1.33.4 notes)"
expect_match "without the webhook, the notes ask for schedulerName" "because schedulerNameWebhook.enabled is false.*comes with Kubernetes 1.36; this is v1.33.4.*$asks_for" "$(KUBE_VERSION=v1.33.4 notes --set schedulerNameWebhook.enabled=false)"
expect_match "before 1.30, the notes ask for schedulerName" "before Kubernetes 1.30.*this is v1.29.0.*$asks_for" "$(KUBE_VERSION=v1.29.0 notes)"
expect_match "without the policy, the notes ask for schedulerName" "because schedulerNamePolicy.enabled is false.*$asks_for" "$(notes --set schedulerNamePolicy.enabled=false)"
lacks "without the policy, the notes do not blame the API server" 'comes with Kubernetes 1.36' "$(notes --set schedulerNamePolicy.enabled=false)"
expect_match "auto without a cluster: the notes say why records are not protected" 'can still write .*recordPolicy.action is auto, and Helm cannot see the cluster.*The first helm upgrade that finds no such component denies' "$(notes)"
expect_match "audit: the notes say that it was chosen" 'can still write .*recordPolicy.action is audit\).*When there are no more warnings' "$(notes --set recordPolicy.action=audit)"
expect_match "deny: the notes name the way to allow another writer" 'Only Tessera can write .*recordPolicy.action is deny\).*recordPolicy.alsoAllowed' "$(notes --set recordPolicy.action=deny)"
expect_match "off: the notes warn" 'WARNING: recordPolicy.action is off' "$(notes --set recordPolicy.action=off)"
lacks "before 1.30, the notes do not claim that records are protected" 'Only Tessera can write|Clients other than Tessera' "$(KUBE_VERSION=v1.29.0 notes --set recordPolicy.action=deny)"
expect_match "with a second scheduler, the notes say what the account of the extender can do" 'shares its account .tessera-scheduler. with the kube-scheduler.*to delete pods' "$(notes)"
lacks "with cluster-scheduler, the extender has its own account" 'shares its account' "$(notes --set attach=cluster-scheduler)"
expect_match "the notes show an upgrade command that keeps values" 'helm upgrade tessera CHART -n tessera-system --reset-then-reuse-values --set recordPolicy.action=deny' "$(notes)"

expect_match "before 1.30, the notes warn about the permissions of the agents" 'can write every node and every pod and every ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes)"
lacks "without the ConfigMap, the warning does not mention ConfigMaps" 'ConfigMap in kube-system' "$(KUBE_VERSION=v1.29.0 notes --set agent.unhealthyConfigMap=false)"
lacks "without agents, there is no such warning" "agent's account" "$(KUBE_VERSION=v1.29.0 notes --set agent.enabled=false)"
lacks "from 1.30 on, there is no such warning" "agent's account" "$(notes)"
expect_match "with cluster-scheduler, the notes name the Secret for kube-scheduler" 'get secret tessera-kube-scheduler' "$(notes --set attach=cluster-scheduler)"

# Values of the original installer.
both=$(notes --set kubeVersion=1.20.11 --set masterCount=3)
expect_match "kubeVersion of gpushare-installer is accepted and explained" 'kubeVersion=1.20.11 has no effect: Helm has read the version from the cluster .v1.36.4.' "$both"
expect_match "masterCount of gpushare-installer is accepted and explained" 'masterCount=3 has no effect.*The second scheduler runs 2 replicas' "$both"
expect_match "with cluster-scheduler, the notes say what to do on each control-plane node" 'to each of your 3 control-plane nodes yourself' "$(notes --set masterCount=3 --set attach=cluster-scheduler)"
expect_match "a version that looks like a number is accepted" 'kubeVersion=1.2 has no effect' "$(notes --set kubeVersion=1.2)"
lacks "without these values, the notes do not mention them" 'kubeVersion|masterCount' "$(notes)"
render --set kubeVersion=1.20.11 --set masterCount=3 && cp "$WORK/objects" "$WORK/with"
render
expect "they change no object" "$(jq -c 'select(.metadata.name != "notes")' "$WORK/objects" | sha256sum)" "$(jq -c 'select(.metadata.name != "notes")' "$WORK/with" | sha256sum)"
finish
