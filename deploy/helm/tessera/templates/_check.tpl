{{/*
What the schema cannot say: values that fit only together. A program would refuse them when it starts, long after helm has said "deployed".
*/}}
{{- define "tessera.checkValues" -}}
{{- if and (eq .Values.policies.whole "static") (not .Values.policies.staticSets) -}}
{{- fail "policies.whole is static, which chooses from a table, but policies.staticSets is empty: fill it (docs/policies.md), or use ring, best_effort or simple" -}}
{{- end -}}
{{- range $machine, $counts := .Values.policies.staticSets -}}
{{- range $count, $sets := $counts -}}
{{- range $set := $sets -}}
{{- if ne (len $set) (int $count) -}}
{{- fail (printf "policies.staticSets.%s.%s has the set %s, which is not of %s GPUs" $machine $count (toJson $set) $count) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.simulate.nodes (not .Values.simulate.machine) -}}
{{- fail "simulate.nodes says what some nodes are, but simulate.machine is empty, so that no node is simulated: set simulate.machine to what the others are" -}}
{{- end -}}
{{- if and .Values.agent.enabled (eq .Values.agent.strategy "env") (ne .Values.agent.driverRoot "/") (not .Values.simulate.machine) -}}
{{- fail (printf "agent.driverRoot is %s, but with agent.strategy=env NVIDIA's runtime brings the driver, to the agent as to all others, and knows itself where it is: leave driverRoot out (and set agent.runtimeClassName=nvidia where that runtime is not the default one), or set agent.strategy to cdi or devices" .Values.agent.driverRoot) -}}
{{- end -}}
{{- end -}}
