{{/* Names, labels and images. */}}

{{- define "dblog.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of every object's name. At most 40 characters: names of pods, with what is added to them, are labels too. */}}
{{- define "dblog.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "dblog.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "dblog.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dblog.worker" -}}{{ include "dblog.fullname" . }}-worker{{- end -}}
{{- define "dblog.headless" -}}{{ include "dblog.fullname" . }}-worker-headless{{- end -}}
{{- define "dblog.connectors" -}}{{ include "dblog.fullname" . }}-connectors{{- end -}}
{{- define "dblog.sink" -}}{{ include "dblog.fullname" . }}-sink{{- end -}}
{{- define "dblog.broker" -}}{{ include "dblog.fullname" . }}-broker{{- end -}}
{{- define "dblog.broker.host" -}}{{ include "dblog.broker" . }}.{{ .Release.Namespace }}.svc{{- end -}}
{{- define "dblog.broker.address" -}}{{ include "dblog.broker.host" . }}:9092{{- end -}}

{{/* Labels that pods are found by; they never change. Argument: [context, component]. */}}
{{- define "dblog.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "dblog.name" $ | quote }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end -}}

{{/* Components whose pods are asked for their metrics alone, and by each other. */}}
{{- define "dblog.others" -}}
["connectors", "sink", "sink-executor", "test"{{ if .Values.firstLook }}, "broker"{{ end }}{{ if .Values.demoRuns }}, "shop", "shop-writer"{{ end }}]
{{- end -}}

{{/* All labels of an object. Argument: [context, component]. */}}
{{- define "dblog.labels" -}}
{{- $ := index . 0 -}}
{{ include "dblog.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service | quote }}
app.kubernetes.io/part-of: "dblog"
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | quote }}
{{- range $key, $value := $.Values.commonLabels }}
{{ $key | quote }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Labels of a pod: without the chart's version, whose change alone replaces no pod. Argument: [context, component, labels of the user]. */}}
{{- define "dblog.podLabels" -}}
{{- $ := index . 0 -}}
{{ include "dblog.selector" (list $ (index . 1)) }}
app.kubernetes.io/part-of: "dblog"
{{- range $key, $value := merge (dict) (index . 2) $.Values.commonLabels }}
{{ $key | quote }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Name, namespace, labels and annotations of an object. Argument: dict with context, component, name, and annotations of its own (optional). */}}
{{- define "dblog.metadata" -}}
{{- $ := .context -}}
name: {{ .name | quote }}
namespace: {{ $.Release.Namespace | quote }}
labels:
  {{- include "dblog.labels" (list $ .component) | nindent 2 }}
  {{- range $key, $value := .labels }}
  {{ $key | quote }}: {{ $value | quote }}
  {{- end }}
{{- $annotations := merge (dict) (default (dict) .annotations) $.Values.commonAnnotations }}
{{- if $annotations }}
annotations:
  {{- range $key, $value := $annotations }}
  {{ $key | quote }}: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* An image: the digest wins over the tag, the global registry over its own. Argument: [context, image]. */}}
{{- define "dblog.image" -}}
{{- $ := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := default $image.registry $.Values.global.imageRegistry -}}
{{- $name := $image.repository -}}
{{- if $registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" $registry) $name -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default $.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Secrets to pull with. Argument: [context, image]. */}}
{{- define "dblog.pullSecrets" -}}
{{- $ := index . 0 -}}
{{- $image := index . 1 -}}
{{- with concat $.Values.global.imagePullSecrets $image.pullSecrets | uniq }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "dblog.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dblog.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "dblog.sink.serviceAccount" -}}
{{- if .Values.sink.serviceAccount.create -}}
{{- default (include "dblog.sink" .) .Values.sink.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.sink.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Names whose connectors and topics are this release's. */}}
{{- define "dblog.group" -}}
{{- default (printf "%s.%s" .Release.Namespace .Release.Name) .Values.worker.groupId -}}
{{- end -}}
{{/* Prefix of the worker's own topics. */}}
{{- define "dblog.topics.prefix" -}}
{{- default (include "dblog.group" .) .Values.worker.topics.prefix -}}
{{- end -}}
{{/* Whether there is a Deployment of connectors: also without any, where what was removed is to be deleted. */}}
{{- define "dblog.reconciles" -}}
{{- if or .Values.connectors .Values.connectorConfigMaps .Values.reconciler.prune -}}true{{- end -}}
{{- end -}}
{{- define "dblog.owner" -}}
{{- default (printf "%s/%s" .Release.Namespace .Release.Name) .Values.reconciler.owner -}}
{{- end -}}

{{/* The text of a scalar. Helm reads every number as a float, which prints 5000000 as 5e+06. */}}
{{- define "dblog.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* A value of a .properties file: backslashes are doubled, and a line break would begin another key. */}}
{{- define "dblog.property" -}}
{{- include "dblog.text" . | replace "\\" "\\\\" | replace "\n" "\\n" -}}
{{- end -}}

{{- define "dblog.rest.scheme" -}}{{ ternary "https" "http" .Values.worker.tls.enabled }}{{- end -}}
{{- define "dblog.rest.url" -}}
{{ include "dblog.rest.scheme" . }}://{{ include "dblog.worker" . }}.{{ .Release.Namespace }}.svc:{{ .Values.worker.ports.rest }}
{{- end -}}
{{/* The Service that has the read-only port: a load balancer would show it to everybody. */}}
{{- define "dblog.readonly" -}}
{{ include "dblog.worker" . }}{{ ternary "" "-readonly" (eq .Values.worker.service.type "ClusterIP") }}
{{- end -}}
{{- define "dblog.readonly.url" -}}
http://{{ include "dblog.readonly" . }}.{{ .Release.Namespace }}.svc:{{ .Values.worker.ports.readonly }}
{{- end -}}
