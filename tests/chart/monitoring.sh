#!/usr/bin/env bash
# What the chart renders for Prometheus, Grafana and network policies, which the test cluster cannot run.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
require_tools_or_skip
all=(--set metrics.serviceMonitor.enabled=true --set metrics.prometheusRule.enabled=true --set metrics.grafanaDashboard.enabled=true --set networkPolicy.enabled=true)

render
expect "nothing of it by default" "  " "$(kinds ServiceMonitor) $(kinds PrometheusRule) $(kinds NetworkPolicy)"

render "${all[@]}" --set metrics.serviceMonitor.labels.release=prom
expect "a ServiceMonitor with the label that Prometheus looks for" prom "$(the ServiceMonitor/tessera '.metadata.labels.release')"
# Every port it names exists in a Service that it selects.
ports=$(jq -r 'select(.kind == "Service" and (.metadata.labels["app.kubernetes.io/component"] // "") != "") | .spec.ports[].name' "$WORK/objects" | sort | tr '\n' ' ')
expect "scrapes every port there is" "$ports" "$(the ServiceMonitor/tessera '.spec.endpoints[].port' | sort | tr '\n' ' ')"

expect "agents' metrics are told apart by node, containers' by their own pod" "node true" \
  "$(the ServiceMonitor/tessera '.spec.endpoints[] | select(.port == "metrics") | "\(.relabelings[0].targetLabel) \(.honorLabels)"')"

# Each metric in an alert or on the dashboard is one that a program exports.
exported=$(grep -rhoE '"tessera_[a-z_]+"' "$CHART_ROOT/src" | tr -d '"' | sort -u)
used() { grep -oE 'tessera_[a-z_]+' | sed -E 's/_(bucket|sum|count)$//' | sort -u; }
unknown() { comm -23 <(used) <(echo "$exported"); }
expect "alerts use metrics that exist" "" "$(the PrometheusRule/tessera '.spec.groups[].rules[].expr' | unknown)"
expect "so does the dashboard" "" "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq -r '.panels[].targets[].expr' | unknown)"
expect "every alert says how bad, what and what to do" 0 \
  "$(the PrometheusRule/tessera '[.spec.groups[].rules[] | select((.labels.severity and .annotations.summary and .annotations.description) | not)] | length')"
expect_match "templates of Prometheus survive Helm's" '\{\{ \$labels.kind \}\}' "$(the PrometheusRule/tessera '.spec.groups[].rules[].annotations.summary')"
not_one_leader() { the PrometheusRule/tessera '.spec.groups[].rules[] | select(.alert == "TesseraLeaderCountNotOne").annotations.description'; }
expect_match "an extender beside a scheduler leads with it, so leaders are counted" 'the Lease tessera-scheduler in tessera-system' "$(not_one_leader)"
expect "no two panels lie on each other" 0 "$(the ConfigMap/tessera-dashboard '.data."tessera.json"' | jq '[.panels[].gridPos] | . as $p |
  [range(length) as $i | range($i + 1; length) as $j | $p[$i] as $a | $p[$j] as $b |
   select($a.x < $b.x + $b.w and $b.x < $a.x + $a.w and $a.y < $b.y + $b.h and $b.y < $a.y + $a.h)] | length')"

expect "policies for both parts" "tessera-agent tessera-scheduler " "$(kinds NetworkPolicy)"
expect "metrics come in, nothing else" '[39998,10259]' "$(the NetworkPolicy/tessera-scheduler '[.spec.ingress[].ports[].port]')"
render "${all[@]}" --set attach=cluster-scheduler --set-json 'networkPolicy.schedulerCIDRs=["10.0.0.1/32"]' \
  --set-json 'networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]'
expect_match "leaders behind a Service, too" 'the Lease tessera-extender in tessera-system' "$(not_one_leader)"
expect "kube-scheduler's machines reach the extender" '[{"ipBlock":{"cidr":"10.0.0.1/32"}}]' \
  "$(the NetworkPolicy/tessera-extender '.spec.ingress[] | select(.ports[0].port == 12345).from')"
expect "and only Prometheus the metrics" monitoring "$(the NetworkPolicy/tessera-agent '.spec.ingress[0].from[0].namespaceSelector.matchLabels.name')"
finish
