{{/* The files of connectors: one a connector, as JSON. Each has its share of the worker's memory as its queue, unless it states another. */}}
{{- define "dblog.connectors.files" -}}
{{- $queue := div (mul (int64 .Values.worker.memoryMiB) 262144) (int64 .Values.worker.connectorsMax) -}}
{{- range $name, $connector := .Values.connectors }}
{{- $config := dict -}}
{{- range $key, $value := $connector.config -}}{{- $_ := set $config $key (include "dblog.text" $value) -}}{{- end -}}
{{- if not (hasKey $config "max.queue.size.in.bytes") -}}{{- $_ := set $config "max.queue.size.in.bytes" (toString $queue) -}}{{- end -}}
{{- $file := dict "name" $name "config" $config -}}
{{- with $connector.state -}}{{- $_ := set $file "state" . -}}{{- end }}
{{ printf "%s.json" $name | quote }}: {{ toJson $file | quote }}
{{- end }}
{{- end -}}

{{/* Options of whoever calls the REST interface. */}}
{{- define "dblog.caller.args" -}}
- "--url"
- {{ include "dblog.rest.url" . | quote }}
{{- if .Values.worker.login.enabled }}
- "--login"
- "/etc/dblog/own/rest"
{{- end }}
{{- if and .Values.worker.tls.enabled .Values.worker.tls.caKey }}
- "--ca"
- "/etc/dblog/own/rest/ca.crt"
{{- end }}
{{- end -}}
