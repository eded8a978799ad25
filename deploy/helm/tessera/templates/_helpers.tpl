{{/* Names. A release called tessera-anything is not called tessera twice. */}}
{{- define "tessera.name" -}}
{{- if .Values.nameOverride -}}
{{ .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains "tessera" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-tessera" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "tessera.secondScheduler" -}}
{{- if eq .Values.attach "second-scheduler" }}true{{ end -}}
{{- end -}}

{{/* The Deployment, its accounts and its roles: named after what runs in it. */}}
{{- define "tessera.placerName" -}}
{{ include "tessera.name" . }}-{{ ternary "scheduler" "extender" (eq .Values.attach "second-scheduler") }}
{{- end -}}
{{- define "tessera.agentName" -}}
{{ include "tessera.name" . }}-agent
{{- end -}}

{{/* Labels that a selector may use never change for a component. */}}
{{- define "tessera.placerSelector" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ ternary "scheduler" "extender" (eq .Values.attach "second-scheduler") }}
{{- end -}}
{{- define "tessera.agentSelector" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}
{{- define "tessera.labels" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "tessera.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* kube-scheduler must be as new as the API server: v1.33.4+k3s1 and v1.33.4-eks-b123 are v1.33.4. */}}
{{- define "tessera.schedulerImage" -}}
{{- $repository := .Values.scheduler.image.repository -}}
{{- if not $repository -}}
{{- range (lookup "v1" "Pod" "kube-system" "").items -}}
{{- if eq (dig "metadata" "labels" "component" "" .) "kube-scheduler" -}}
{{- $repository = regexReplaceAll "(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]+)?$" (first .spec.containers).image "" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $repository -}}
{{- fail "\n\nThe second scheduler runs a stock kube-scheduler, and this cluster shows no pod of one to learn from where its image comes.\nSay it with --set scheduler.image.repository=REGISTRY/kube-scheduler (without a tag; the tag follows from the cluster's version).\nOr let the cluster's own kube-scheduler call Tessera: --set attach=cluster-scheduler (docs/install.md)." -}}
{{- end -}}
{{- $tag := .Values.scheduler.image.tag | default (regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{ $repository }}:{{ $tag }}
{{- end -}}

{{/* Resource names, as src/alloc/names.h makes them. */}}
{{- define "tessera.wholeResource" -}}
{{ .Values.resourceNames.whole | default (printf "%s/gpu" .Values.resourceNames.prefix) }}
{{- end -}}
{{- define "tessera.resourceList" -}}
{{- $prefix := .Values.resourceNames.prefix -}}
{{- list (printf "%s/gpu-mem" $prefix) (include "tessera.wholeResource" .) (printf "%s/gpu-count" $prefix) (printf "%s/gpu-core.percentage" $prefix) | toJson -}}
{{- end -}}

{{/* What kube-scheduler is told; the same as `tessera-extender --print-scheduler-config` (tests/chart compares them). */}}
{{- define "tessera.extenderStanza" -}}
filterVerb: filter/best
prioritizeVerb: prioritize
weight: 1
preemptVerb: preempt
bindVerb: bind
httpTimeout: 10s
nodeCacheCapable: true
ignorable: false
managedResources:
{{- range $index, $name := include "tessera.resourceList" . | fromJsonArray }}
  - name: {{ $name }}
    ignoredByScheduler: {{ eq $index 3 }}
{{- end }}
{{- end -}}

{{- define "tessera.secure" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tessera.ownPod" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- end -}}

{{/* Which MutatingAdmissionPolicy sets schedulerName; empty: none. It is on by default from 1.36 on; 1.34 and 1.35 have it behind a gate. */}}
{{- define "tessera.mutatingApi" -}}
{{- $wanted := toString .Values.schedulerNamePolicy.enabled -}}
{{- if and (eq .Values.attach "second-scheduler") (ne $wanted "false") -}}
{{- if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
admissionregistration.k8s.io/v1
{{- else if eq $wanted "true" -}}
{{- if semverCompare "<1.34.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "schedulerNamePolicy.enabled is true, but Kubernetes %s has no MutatingAdmissionPolicy to use: set it to auto, and schedulerName in your pods" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
admissionregistration.k8s.io/v1beta1
{{- end -}}
{{- end -}}
{{- end -}}
{{- define "tessera.hasValidating" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- end -}}

{{/* Does the agent have to be privileged to reach the driver? */}}
{{- define "tessera.agentPrivileged" -}}
{{- if kindIs "bool" .Values.agent.privileged -}}
{{ .Values.agent.privileged }}
{{- else if or .Values.simulate.machine .Values.agent.runtimeClassName (eq .Values.agent.strategy "env") -}}
false
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/* Where the cluster's own kube-scheduler calls: the machine's own NodePort as the original, or the Service's address. */}}
{{- define "tessera.serviceUrl" -}}
{{- $scheme := ternary "https" "http" .Values.tls.enabled -}}
{{- if eq .Values.service.type "NodePort" -}}
{{ $scheme }}://127.0.0.1:{{ .Values.service.nodePort }}
{{- else if .Values.service.clusterIP -}}
{{ $scheme }}://{{ .Values.service.clusterIP }}:12345
{{- else -}}
{{ $scheme }}://{{ dig "spec" "clusterIP" (printf "%s-extender.%s.svc" (include "tessera.name" .) .Release.Namespace) (lookup "v1" "Service" .Release.Namespace (printf "%s-extender" (include "tessera.name" .))) }}:12345
{{- end -}}
{{- end -}}
