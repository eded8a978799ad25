{{/*
Checks that the schema cannot express: combinations of values. Without them a program would reject the
values when it starts, long after helm has reported "deployed".
*/}}
{{- define "tessera.checkValues" -}}
{{- if and (eq .Values.policies.whole "static") (not .Values.policies.staticSets) -}}
{{- fail "policies.whole is static, but policies.staticSets is empty: fill the table (docs/policies.md), or use ring, best_effort, prim or simple" -}}
{{- end -}}
{{- range $machine, $counts := .Values.policies.staticSets -}}
{{- range $count, $sets := $counts -}}
{{- range $set := $sets -}}
{{- if ne (len $set) (int $count) -}}
{{- fail (printf "policies.staticSets.%s.%s has the set %s, which does not have %s GPUs" $machine $count (toJson $set) $count) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.simulate.nodes (not .Values.simulate.machine) -}}
{{- fail "simulate.nodes is set, but simulate.machine is empty, so no node is simulated: set simulate.machine to the machine of the other nodes" -}}
{{- end -}}
{{- if and .Values.agent.enabled (eq .Values.agent.strategy "env") (ne .Values.agent.driverRoot "/") (not .Values.simulate.machine) -}}
{{- fail (printf "agent.driverRoot is %s, but with agent.strategy=env the NVIDIA runtime provides the driver and knows its location: remove agent.driverRoot (and set agent.runtimeClassName=nvidia if that runtime is not the default), or set agent.strategy to cdi or devices" .Values.agent.driverRoot) -}}
{{- end -}}
{{- if and (eq (toString .Values.schedulerNameWebhook.enabled) "true") (eq (toString .Values.schedulerNamePolicy.enabled) "true") (eq .Values.attach "second-scheduler") -}}
{{- fail "schedulerNameWebhook.enabled and schedulerNamePolicy.enabled are both true, but only one of them may set schedulerName: set one to auto or false" -}}
{{- end -}}
{{- end -}}
