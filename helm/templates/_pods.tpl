{{/* Parts of pods that several have. */}}

{{/* Where a pod may run, and under which names it finds others. Argument: the values of a component. */}}
{{- define "dblog.placement" -}}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .dnsPolicy }}
dnsPolicy: {{ . | quote }}
{{- end }}
{{- with .dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where traces go, as variables of a container; they come in front of the user's own, which win. */}}
{{- define "dblog.tracing.env" -}}
{{- with .Values.tracing -}}
{{- if .enabled }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
- name: OTEL_TRACES_SAMPLER
  value: "parentbased_traceidratio"
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .sampleRatio | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* envFrom of a container. Argument: the values of a component. */}}
{{- define "dblog.envFrom" -}}
{{- if or .extraEnvVarsCM .extraEnvVarsSecret }}
envFrom:
  {{- with .extraEnvVarsCM }}
  - configMapRef:
      name: {{ . | quote }}
  {{- end }}
  {{- with .extraEnvVarsSecret }}
  - secretRef:
      name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Requests, and a limit of memory that is the request; what the user gives wins. Argument: dict of memoryMiB, cpu, disk, resources. */}}
{{- define "dblog.resources" -}}
{{- $memory := printf "%vMi" (int64 .memoryMiB) -}}
{{- $base := dict "requests" (dict "cpu" (toString .cpu) "memory" $memory "ephemeral-storage" .disk) "limits" (dict "memory" $memory) -}}
{{- toYaml (mergeOverwrite $base (deepCopy .resources)) -}}
{{- end -}}

{{/* Over zones and over hosts, as far as there are any. Argument: [context, component, constraints of the user]. */}}
{{- define "dblog.spread" -}}
{{- $ := index . 0 -}}
{{- $selector := dict "matchLabels" (include "dblog.selector" (list $ (index . 1)) | fromYaml) -}}
{{- $constraints := index . 2 -}}
{{- if not $constraints -}}
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" $key "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- end -}}
{{- end -}}
{{- $all := list -}}
{{- range $constraints -}}
{{- $all = append $all (merge (deepCopy .) (dict "labelSelector" $selector)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* The probe of a port and path. Argument: dict of probe, path, port. */}}
{{- define "dblog.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
periodSeconds: {{ .probe.periodSeconds }}
timeoutSeconds: {{ .probe.timeoutSeconds | default 5 }}
failureThreshold: {{ .probe.failureThreshold }}
{{- end -}}
