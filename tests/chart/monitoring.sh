#!/usr/bin/env bash
# Checks what the chart renders for Prometheus, Grafana and network policies. The test cluster
# cannot run these.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
all=(--set metrics.serviceMonitor.enabled=true --set metrics.prometheusRule.enabled=true --set metrics.grafanaDashboard.enabled=true)

render
expect "by default, there are no monitoring objects" " " "$(kinds ServiceMonitor) $(kinds PrometheusRule)"
expect "by default, there is a network policy for the scheduler and one for the agent" "tessera-agent tessera-scheduler " "$(kinds NetworkPolicy)"
expect "by default, only the metrics ports of the scheduler are open" '[{"ports":[{"port":39998,"protocol":"TCP"},{"port":10259,"protocol":"TCP"}]}]' "$(the NetworkPolicy/tessera-scheduler .spec.ingress)"
expect "by default, only the metrics port of the agent is open" '[{"ports":[{"port":39997,"protocol":"TCP"}]}]' "$(the NetworkPolicy/tessera-agent .spec.ingress)"
# Every open port is one that a container of the selected pods declares.
declared() { jq -r 'select(.kind == "Deployment" or .kind == "DaemonSet") | .spec.template.spec.containers[].ports[].containerPort' "$WORK/objects" | sort; }
opened() { jq -r 'select(.kind == "NetworkPolicy") | .spec.ingress[].ports[].port' "$WORK/objects" | sort; }
expect "second scheduler: exactly the declared ports are open" "$(declared)" "$(opened)"
render --set attach=cluster-scheduler
expect "behind a Service: exactly the declared ports are open" "$(declared)" "$(opened)"
expect "behind a Service: any kube-scheduler can reach the NodePort" null "$(the NetworkPolicy/tessera-extender '.spec.ingress[] | select(.ports[0].port == 12345).from')"
render --set networkPolicy.enabled=false
expect "networkPolicy.enabled=false removes the policies" "" "$(kinds NetworkPolicy)"

render "${all[@]}" --set metrics.serviceMonitor.labels.release=prom
expect "the ServiceMonitor has the label that Prometheus selects by" prom "$(the ServiceMonitor/tessera '.metadata.labels.release')"
# Every port that the ServiceMonitor names must exist in a Service that it selects.
ports=$(jq -r 'select(.kind == "Service" and (.metadata.labels["app.kubernetes.io/component"] // "") != "") | .spec.ports[].name' "$WORK/objects" | sort | tr '\n' ' ')
expect "the ServiceMonitor scrapes every metrics port" "$ports" "$(the ServiceMonitor/tessera '.spec.endpoints[].port' | sort | tr '\n' ' ')"

expect "metrics of agents get a node label, metrics of containers keep their own pod label" "node true" \
  "$(the ServiceMonitor/tessera '.spec.endpoints[] | select(.port == "metrics") | "\(.relabelings[0].targetLabel) \(.honorLabels)"')"

# Each metric in an alert or on the dashboard must be one that a program exports.
exported=$(grep -rhoE '"tessera_[a-z_]+"' "$CHART_ROOT/src" | tr -d '"' | sort -u)
used() { grep -oE 'tessera_[a-z_]+' | sed -E 's/_(bucket|sum|count)$//' | sort -u; }
names_only_known "alerts use only metrics that exist" "$exported" "$(the PrometheusRule/tessera '.spec.groups[].rules[].expr' | used)"
names_only_known "the dashboard uses only metrics that exist" "$exported" \
  "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq -r '.panels[].targets[].expr' | used)"
expect "every alert has a severity, a summary and a description" 0 \
  "$(the PrometheusRule/tessera '[.spec.groups[].rules[] | select((.labels.severity and .annotations.summary and .annotations.description) | not)] | length')"
expect_match "Helm keeps the templates of Prometheus" '\{\{ \$labels.kind \}\}' "$(the PrometheusRule/tessera '.spec.groups[].rules[].annotations.summary')"
agent_missing() { the PrometheusRule/tessera '.spec.groups[].rules[] | select(.alert == "TesseraAgentMissing")'; }
expect "an alert fires if a node that should have an agent has none" "max(tessera_extender_agent_missing_nodes) > 0" "$(agent_missing | jq -r .expr)"
expect_match "this alert says how to find the node" 'kubectl -n tessera-system get pods -o wide -l app.kubernetes.io/component=agent' "$(agent_missing | jq -r .annotations.description)"
not_one_leader() { the PrometheusRule/tessera '.spec.groups[].rules[] | select(.alert == "TesseraLeaderCountNotOne").annotations.description'; }
expect_match "second scheduler: the alert names the Lease of the scheduler" 'the Lease tessera-scheduler in tessera-system' "$(not_one_leader)"
expect "no two panels of the dashboard overlap" 0 "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq '[.panels[].gridPos] | . as $p |
  [range(length) as $i | range($i + 1; length) as $j | $p[$i] as $a | $p[$j] as $b |
   select($a.x < $b.x + $b.w and $b.x < $a.x + $a.w and $a.y < $b.y + $b.h and $b.y < $a.y + $a.h)] | length')"

render "${all[@]}" --set attach=cluster-scheduler --set-json 'networkPolicy.schedulerCIDRs=["10.0.0.1/32"]' \
  --set-json 'networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]'
expect_match "behind a Service: the alert names the Lease of the extender" 'the Lease tessera-extender in tessera-system' "$(not_one_leader)"
expect_match "the alert about missing agents keeps its value" '\{\{ \$value \}\} nodes' "$(agent_missing | jq -r .annotations.summary)"
expect "schedulerCIDRs restricts the port that kube-scheduler calls" '[{"ipBlock":{"cidr":"10.0.0.1/32"}}]' \
  "$(the NetworkPolicy/tessera-extender '.spec.ingress[] | select(.ports[0].port == 12345).from')"
expect "metricsFrom restricts the metrics port of the agent" monitoring "$(the NetworkPolicy/tessera-agent '.spec.ingress[0].from[0].namespaceSelector.matchLabels.name')"

# docs/metrics.md has a command that renders the alerts for a Prometheus without the operator.
command=$(sed -n '/^    helm template/,/tessera-rules.yaml$/s/^    //p' "$CHART_ROOT/docs/metrics.md")
mkdir "$WORK/bin"
ln -s "$(tool_path helm)" "$WORK/bin/helm"
(cd "$CHART_ROOT" && PATH=$WORK/bin:$PATH && eval "${command/> tessera-rules.yaml/> "$WORK/rules.yaml"}")
expect "the rendered file is a rule file" groups: "$(head -n 1 "$WORK/rules.yaml")"
expect "it has every alert" "$(sed -n 's/^- alert: //p' "$CHART/files/alerts.yaml")" "$(sed -n 's/^ *- alert: //p' "$WORK/rules.yaml")"
expect "no text of the template is left in it" 0 "$(grep -cF '{{ .' "$WORK/rules.yaml")"
# Without agents, the extender does not export their metric.
render "${all[@]}" --set agent.enabled=false
expect "without agents, no alert is about them" "" "$(agent_missing)"
finish
