#!/usr/bin/env bash
# Checks what the chart renders for Prometheus, Grafana and network policies. The test cluster
# cannot run these.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
all=(--set metrics.serviceMonitor.enabled=true --set metrics.prometheusRule.enabled=true --set metrics.grafanaDashboard.enabled=true --set networkPolicy.enabled=true)

render
expect "by default, there are no monitoring objects and no network policies" "  " "$(kinds ServiceMonitor) $(kinds PrometheusRule) $(kinds NetworkPolicy)"

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
unknown() { comm -23 <(used) <(echo "$exported"); }
expect "alerts use only metrics that exist" "" "$(the PrometheusRule/tessera '.spec.groups[].rules[].expr' | unknown)"
expect "the dashboard uses only metrics that exist" "" "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq -r '.panels[].targets[].expr' | unknown)"
expect "every alert has a severity, a summary and a description" 0 \
  "$(the PrometheusRule/tessera '[.spec.groups[].rules[] | select((.labels.severity and .annotations.summary and .annotations.description) | not)] | length')"
expect_match "Helm keeps the templates of Prometheus" '\{\{ \$labels.kind \}\}' "$(the PrometheusRule/tessera '.spec.groups[].rules[].annotations.summary')"
not_one_leader() { the PrometheusRule/tessera '.spec.groups[].rules[] | select(.alert == "TesseraLeaderCountNotOne").annotations.description'; }
expect_match "second scheduler: the alert names the Lease of the scheduler" 'the Lease tessera-scheduler in tessera-system' "$(not_one_leader)"
expect "no two panels of the dashboard overlap" 0 "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq '[.panels[].gridPos] | . as $p |
  [range(length) as $i | range($i + 1; length) as $j | $p[$i] as $a | $p[$j] as $b |
   select($a.x < $b.x + $b.w and $b.x < $a.x + $a.w and $a.y < $b.y + $b.h and $b.y < $a.y + $a.h)] | length')"

expect "there is a network policy for the scheduler and one for the agent" "tessera-agent tessera-scheduler " "$(kinds NetworkPolicy)"
expect "only the metrics ports of the scheduler are open" '[39998,10259]' "$(the NetworkPolicy/tessera-scheduler '[.spec.ingress[].ports[].port]')"
render "${all[@]}" --set attach=cluster-scheduler --set-json 'networkPolicy.schedulerCIDRs=["10.0.0.1/32"]' \
  --set-json 'networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]'
expect_match "behind a Service: the alert names the Lease of the extender" 'the Lease tessera-extender in tessera-system' "$(not_one_leader)"
expect "schedulerCIDRs restricts the port that kube-scheduler calls" '[{"ipBlock":{"cidr":"10.0.0.1/32"}}]' \
  "$(the NetworkPolicy/tessera-extender '.spec.ingress[] | select(.ports[0].port == 12345).from')"
expect "metricsFrom restricts the metrics port of the agent" monitoring "$(the NetworkPolicy/tessera-agent '.spec.ingress[0].from[0].namespaceSelector.matchLabels.name')"
finish
