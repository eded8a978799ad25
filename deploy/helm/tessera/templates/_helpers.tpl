{{/* The name prefix of all objects. "tessera" is not added if the release name already contains it. */}}
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

{{/* The name of the Deployment, its service account and its roles. */}}
{{- define "tessera.placerName" -}}
{{ include "tessera.name" . }}-{{ ternary "scheduler" "extender" (eq .Values.attach "second-scheduler") }}
{{- end -}}
{{- define "tessera.agentName" -}}
{{ include "tessera.name" . }}-agent
{{- end -}}
{{- define "tessera.webhookName" -}}
{{ include "tessera.name" . }}-webhook
{{- end -}}

{{- define "tessera.placerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "tessera.placerName" . }}
{{- end -}}
{{- define "tessera.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "tessera.agentName" . }}
{{- end -}}

{{/* Selectors are immutable, so these labels must never change. */}}
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
{{- define "tessera.webhookSelector" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: webhook
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

{{/*
kube-scheduler must have the version of the API server. Vendor suffixes are removed: v1.33.4+k3s1 and
v1.33.4-eks-b123 become v1.33.4.
*/}}
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
{{- fail "\n\nThe second scheduler needs a stock kube-scheduler image, but kube-system has no kube-scheduler pod to copy the image name from.\nSet it with --set scheduler.image.repository=REGISTRY/kube-scheduler (without a tag; the chart uses the version of the cluster).\nOr let the kube-scheduler of the cluster call Tessera: --set attach=cluster-scheduler (docs/install.md)." -}}
{{- end -}}
{{- $tag := .Values.scheduler.image.tag | default (regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{ $repository }}:{{ $tag }}
{{- end -}}

{{/* Resource names, the same as in src/alloc/names.h. */}}
{{- define "tessera.wholeResource" -}}
{{ .Values.resourceNames.whole | default (printf "%s/gpu" .Values.resourceNames.prefix) }}
{{- end -}}
{{- define "tessera.resourceList" -}}
{{- $prefix := .Values.resourceNames.prefix -}}
{{- list (printf "%s/gpu-mem" $prefix) (include "tessera.wholeResource" .) (printf "%s/gpu-count" $prefix) (printf "%s/gpu-core.percentage" $prefix) | toJson -}}
{{- end -}}

{{/*
The extender stanza of the kube-scheduler configuration. Must be the same as the output of
`tessera-extender --print-scheduler-config`; tests/chart compares them.
*/}}
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

{{/*
The API version of the MutatingAdmissionPolicy that sets schedulerName; empty without a policy. The
API is enabled by default since 1.36; 1.34 and 1.35 have it behind a feature gate. A webhook that was
asked for explicitly replaces the policy.
*/}}
{{- define "tessera.mutatingApi" -}}
{{- $wanted := toString .Values.schedulerNamePolicy.enabled -}}
{{- $webhook := eq (toString .Values.schedulerNameWebhook.enabled) "true" -}}
{{- if and (eq .Values.attach "second-scheduler") (ne $wanted "false") (not (and $webhook (eq $wanted "auto"))) -}}
{{- if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
admissionregistration.k8s.io/v1
{{- else if eq $wanted "true" -}}
{{- if semverCompare "<1.34.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "schedulerNamePolicy.enabled is true, but Kubernetes %s has no MutatingAdmissionPolicy: set it to auto; a webhook then sets schedulerName" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
admissionregistration.k8s.io/v1beta1
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Whether a webhook sets schedulerName. auto: on Kubernetes 1.30 to 1.35, which have no policy by default.
Before 1.30, the API server cannot select the pods that it sends.
*/}}
{{- define "tessera.webhook" -}}
{{- $wanted := toString .Values.schedulerNameWebhook.enabled -}}
{{- if and (eq .Values.attach "second-scheduler") (ne $wanted "false") (not (include "tessera.mutatingApi" .)) -}}
{{- if or (eq $wanted "true") (and (ne (toString .Values.schedulerNamePolicy.enabled) "false") (include "tessera.hasValidating" .)) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- define "tessera.setsSchedulerName" -}}
{{- if or (include "tessera.mutatingApi" .) (include "tessera.webhook" .) }}true{{ end -}}
{{- end -}}

{{/*
Which pods get schedulerName, as matchConditions of the policy and of the webhook. src/webhook/review.h
has the same rules; tests compare them.
*/}}
{{- define "tessera.schedulerNameConditions" -}}
- name: names-no-scheduler
  expression: object.spec.?schedulerName.orValue('default-scheduler') in ['', 'default-scheduler']
- name: is-unbound
  expression: object.spec.?nodeName.orValue('') == ''
- name: requests-tessera-resources
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
    c.?resources.?limits.orValue({}).exists(name, name in {{ include "tessera.resourceList" . | replace "\"" "'" }} &&
    quantity(string(c.resources.limits[name])).isGreaterThan(quantity('0'))))
{{- end -}}
{{- define "tessera.hasValidating" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- end -}}

{{/*
A component of an original system in the cluster; empty if there is none or if Helm cannot see the
cluster. Only objects that tenants cannot write count: workloads in kube-system, and the capacity that
kubelet reports for a device plugin of any name. A node with Tessera's agent has an inventory.
*/}}
{{- define "tessera.original" -}}
{{- $found := "" -}}
{{- range $kind := list "Deployment" "DaemonSet" -}}
{{- range (lookup "apps/v1" $kind "kube-system" "").items -}}
{{- if and (regexMatch "gpushare|gpu-?topology" .metadata.name) (ne (dig "metadata" "labels" "app.kubernetes.io/name" "" .) "tessera") -}}
{{- $found = printf "%s kube-system/%s" $kind .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- range $node := (lookup "v1" "Node" "" "").items -}}
{{- range $resource := list "gpu-mem" "gpu" "gpu-count" -}}
{{- $amount := dig "status" "capacity" (printf "aliyun.com/%s" $resource) "0" $node -}}
{{- if and (ne (toString $amount) "0") (not (dig "metadata" "annotations" "tessera.io/inventory" "" $node)) -}}
{{- $found = printf "the device plugin of node %s" $node.metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/*
What the policy for records does, and why: "deny: REASON". Once `auto` has chosen deny, it stays: an
upgrade does not open the records again because a component of the originals appears.
*/}}
{{- define "tessera.recordDecision" -}}
{{- if not (include "tessera.hasValidating" .) -}}
off: Kubernetes {{ .Capabilities.KubeVersion.Version }} has no ValidatingAdmissionPolicy
{{- else if ne .Values.recordPolicy.action "auto" -}}
{{ .Values.recordPolicy.action }}: recordPolicy.action is {{ .Values.recordPolicy.action }}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") -}}
audit: recordPolicy.action is auto, and Helm cannot see the cluster
{{- else -}}
{{- $binding := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "" (printf "%s-records" (include "tessera.name" .)) -}}
{{- $original := include "tessera.original" . -}}
{{- if has "Deny" (dig "spec" "validationActions" list $binding) -}}
deny: recordPolicy.action is auto, and other writers were already denied before
{{- else if $original -}}
audit: recordPolicy.action is auto, and the cluster still has a component of an original system ({{ $original }})
{{- else -}}
deny: recordPolicy.action is auto, and the cluster has no component of an original system (gpushare, GPU topology scheduler)
{{- end -}}
{{- end -}}
{{- end -}}
{{- define "tessera.recordAction" -}}
{{ include "tessera.recordDecision" . | splitList ": " | first }}
{{- end -}}

{{/* Whether the agent runs privileged, which it needs to call the driver without the NVIDIA runtime. */}}
{{- define "tessera.agentPrivileged" -}}
{{- if kindIs "bool" .Values.agent.privileged -}}
{{ .Values.agent.privileged }}
{{- else if or .Values.simulate.machine .Values.agent.runtimeClassName (eq .Values.agent.strategy "env") -}}
false
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/*
The directories of the driver on the host that the agent mounts. Never the whole host: a driver that is
installed on the host is in /usr, and the root would contain the Secrets of all pods and the keys of
kubelet.
*/}}
{{- define "tessera.driverDirectories" -}}
{{- $root := clean .Values.agent.driverRoot -}}
{{- $directories := list -}}
{{- range .Values.agent.driverDirectories | default (ternary (list "/usr") (list "/") (eq $root "/")) -}}
{{- $directories = append $directories (clean (printf "%s/%s" $root .)) -}}
{{- end -}}
{{- toJson $directories -}}
{{- end -}}

{{/*
The URL that the kube-scheduler of the cluster calls: the NodePort on its own machine (like the
original), or the address of the Service.
*/}}
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

{{/* The configuration of the webhook. */}}
{{- define "tessera.webhookSettings" -}}
{{- $w := .Values.schedulerNameWebhook -}}
listen: 0.0.0.0:{{ $w.port }}
health: 0.0.0.0:39996
log: {level: {{ .Values.log.level | quote }}, format: {{ .Values.log.format | quote }}}
schedulerName: {{ .Values.scheduler.name | quote }}
resources:
  prefix: {{ .Values.resourceNames.prefix | quote }}
  {{- with .Values.resourceNames.whole }}
  whole: {{ . | quote }}
  {{- end }}
{{- if $w.existingSecret }}
tls: {certificate: /etc/tessera-tls/tls.crt, key: /etc/tessera-tls/tls.key}
{{- else }}
certificates:
  service: {{ include "tessera.webhookName" . }}
  secret: {{ include "tessera.webhookName" . }}-tls
  configuration: {{ include "tessera.name" . }}-scheduler-name
  lifetime: {{ $w.certificates.lifetime }}
  settle: {{ $w.certificates.settle }}
  checkEvery: {{ $w.certificates.checkEvery }}
{{- end }}
{{- end -}}
