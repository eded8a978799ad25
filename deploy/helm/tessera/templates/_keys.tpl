{{/*
Expressions for admission policies, made from files/keys.json: the table of the annotations, labels and
conditions that Tessera writes.
*/}}

{{/*
Whether the string k is one of the keys that a program writes. `path` is nodes.annotations, pods.labels
and so on; without `writer`, the keys of all programs.
*/}}
{{- define "tessera.isKey" -}}
{{- $table := .root.Files.Get "files/keys.json" | fromJson -}}
{{- $exact := list -}}
{{- $tests := list -}}
{{- $parts := splitList "." .path -}}
{{- range $key, $writers := dig (first $parts) (last $parts) dict $table -}}
{{- if or (not $.writer) (has $.writer $writers) -}}
{{- if hasSuffix "*" $key -}}
{{- $tests = append $tests (printf "k.startsWith('%s')" (trimSuffix "*" $key)) -}}
{{- else -}}
{{- $exact = append $exact $key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $exact -}}
{{- $tests = prepend $tests (printf "k in %s" (toJson $exact | replace "\"" "'")) -}}
{{- end -}}
({{ $tests | join " || " | default "false" }})
{{- end -}}

{{/*
The keys k whose values differ between the maps `now` and `before`, without those for which `except` is
true. It is cheap for unchanged keys: a pod with many thousands of annotations must not exhaust the budget
of a policy, or the agent could not repair its record.
*/}}
{{- define "tessera.changedKeys" -}}
({{ .now }}.filter(k, !(k in {{ .before }} && {{ .now }}[k] == {{ .before }}[k]) && !{{ .except }}) + {{ .before }}.filter(k, !(k in {{ .now }}) && !{{ .except }}))
{{- end -}}

{{/*
Variables for a policy that restricts an account to its own keys. `foreign` lists every change of a Node
or pod that the table does not allow to `writer`. It compares all fields, also those of later versions
of Kubernetes. The API server itself keeps the status in a write to the object, and spec in a write to its
status.
*/}}
{{- define "tessera.foreignChanges" -}}
{{- $node := dict "root" .root "writer" .writer "path" "nodes.annotations" -}}
{{- $pod := dict "root" .root "writer" .writer "path" "pods.annotations" -}}
{{- $nodeLabel := dict "root" .root "writer" .writer "path" "nodes.labels" -}}
{{- $podLabel := dict "root" .root "writer" .writer "path" "pods.labels" -}}
{{- $condition := dict "root" .root "writer" .writer "path" "nodes.conditions" -}}
- name: onNode
  expression: request.resource.resource == 'nodes'
- name: written
  expression: "object == null ? oldObject : object"
- name: was
  expression: "oldObject == null ? object : oldObject"
- name: annotations
  expression: variables.written.metadata.?annotations.orValue({})
- name: annotationsBefore
  expression: variables.was.metadata.?annotations.orValue({})
- name: labels
  expression: variables.written.metadata.?labels.orValue({})
- name: labelsBefore
  expression: variables.was.metadata.?labels.orValue({})
- name: status
  expression: variables.written.?status.orValue({})
- name: statusBefore
  expression: variables.was.?status.orValue({})
- name: conditions
  expression: variables.status.?conditions.orValue([])
- name: conditionsBefore
  expression: variables.statusBefore.?conditions.orValue([])
- name: foreignAnnotations
  expression: >-
    {{ include "tessera.changedKeys" (dict "now" "variables.annotations" "before" "variables.annotationsBefore" "except" (printf "(variables.onNode ? %s : %s)" (include "tessera.isKey" $node) (include "tessera.isKey" $pod))) }}
- name: foreignLabels
  expression: >-
    {{ include "tessera.changedKeys" (dict "now" "variables.labels" "before" "variables.labelsBefore" "except" (printf "(variables.onNode ? %s : %s)" (include "tessera.isKey" $nodeLabel) (include "tessera.isKey" $podLabel))) }}
- name: foreignFields
  expression: >-
    {{ include "tessera.changedKeys" (dict "now" "variables.written" "before" "variables.was" "except" "(k in ['metadata', 'status'])") }} +
    {{ include "tessera.changedKeys" (dict "now" "variables.written.metadata" "before" "variables.was.metadata" "except" "(k in ['annotations', 'labels', 'managedFields', 'resourceVersion'])") }} +
    {{ include "tessera.changedKeys" (dict "now" "variables.status" "before" "variables.statusBefore" "except" "(k == 'conditions')") }}
- name: foreignConditions
  expression: >-
    (variables.conditions + variables.conditionsBefore).map(c, c.type).filter(k, !{{ include "tessera.isKey" $condition }} &&
    variables.conditions.filter(c, c.type == k) != variables.conditionsBefore.filter(c, c.type == k))
- name: foreign
  expression: >-
    variables.foreignAnnotations.map(k, 'the annotation ' + k) + variables.foreignLabels.map(k, 'the label ' + k) +
    variables.foreignFields.map(k, 'the field ' + k) + variables.foreignConditions.map(k, 'the condition ' + k)
{{- end -}}
