{{/* Where secrets come from and how they reach a pod. A pod reads them as files; none is in an environment variable, a ConfigMap or an annotation. */}}

{{/* Name of the Secret with the login of the REST interface. */}}
{{- define "dblog.login.secret" -}}
{{- default (printf "%s-rest-login" (include "dblog.fullname" .)) .Values.worker.login.existingSecret -}}
{{- end -}}

{{/* The password that the chart makes: once a release, for an upgrade finds the Secret that is there. Kept in the values of this rendering, since each call of
     randAlphaNum gives another one. */}}
{{- define "dblog.login.password" -}}
{{- $login := .Values.worker.login -}}
{{- if not (hasKey $login "made") -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace (include "dblog.login.secret" .) | default dict -}}
{{- $kept := get (get $found "data" | default dict) $login.passwordKey | default "" | b64dec -}}
{{- $_ := set $login "made" ($login.password | default $kept | default (randAlphaNum 32)) -}}
{{- end -}}
{{- $login.made -}}
{{- end -}}

{{/* What changes when the chart's own Secrets do: four digits of a hash, from which no password can be found. */}}
{{- define "dblog.secrets.checksum" -}}
{{- $text := "" -}}
{{- if and .Values.worker.login.enabled (not .Values.worker.login.existingSecret) -}}
{{- $text = printf "%s:%s" .Values.worker.login.username (include "dblog.login.password" .) -}}
{{- end -}}
{{- $text = printf "%s:%s:%s" $text .Values.kafka.sasl.username .Values.kafka.sasl.password -}}
{{- $text | sha256sum | trunc 4 -}}
{{- end -}}

{{- define "dblog.sasl" -}}
{{- if hasPrefix "SASL_" .Values.kafka.securityProtocol -}}true{{- end -}}
{{- end -}}
{{- define "dblog.kafka.secret" -}}
{{- default (printf "%s-kafka" (include "dblog.fullname" .)) .Values.kafka.sasl.existingSecret -}}
{{- end -}}

{{/* Items of a projected Secret. Argument: dict of secret and items (list of [key, path]). */}}
{{- define "dblog.projected" -}}
- secret:
    name: {{ .secret | quote }}
    items:
      {{- range .items }}
      - key: {{ index . 0 | quote }}
        path: {{ index . 1 | quote }}
      {{- end }}
{{- end -}}

{{/* Sources with the login and certificates for Kafka, and for a registry of others. */}}
{{- define "dblog.own.clients" -}}
{{- $kafka := .Values.kafka -}}
{{- if include "dblog.sasl" . }}
{{ include "dblog.projected" (dict "secret" (include "dblog.kafka.secret" .) "items" (list (list $kafka.sasl.usernameKey "kafka/username") (list $kafka.sasl.passwordKey "kafka/password"))) }}
{{- end }}
{{- if $kafka.tls.existingSecret }}
{{- $items := list -}}
{{- with $kafka.tls.caKey }}{{- $items = append $items (list . "kafka/ca.crt") -}}{{- end }}
{{- with $kafka.tls.certKey }}{{- $items = append $items (list . "kafka/tls.crt") -}}{{- end }}
{{- with $kafka.tls.keyKey }}{{- $items = append $items (list . "kafka/tls.key") -}}{{- end }}
{{ include "dblog.projected" (dict "secret" $kafka.tls.existingSecret "items" $items) }}
{{- end }}
{{- $registry := .Values.registry -}}
{{- if $registry.existingSecret }}
{{ include "dblog.projected" (dict "secret" $registry.existingSecret "items" (list (list $registry.usernameKey "registry/username") (list $registry.passwordKey "registry/password"))) }}
{{- end }}
{{- if $registry.tls.existingSecret }}
{{- $items := list -}}
{{- with $registry.tls.caKey }}{{- $items = append $items (list . "registry/ca.crt") -}}{{- end }}
{{- with $registry.tls.certKey }}{{- $items = append $items (list . "registry/tls.crt") -}}{{- end }}
{{- with $registry.tls.keyKey }}{{- $items = append $items (list . "registry/tls.key") -}}{{- end }}
{{ include "dblog.projected" (dict "secret" $registry.tls.existingSecret "items" $items) }}
{{- end }}
{{- end -}}

{{/* Sources of the worker's own volume. */}}
{{- define "dblog.own.worker" -}}
{{ include "dblog.own.clients" . }}
{{- if .Values.worker.login.enabled }}
{{ include "dblog.projected" (dict "secret" (include "dblog.login.secret" .) "items" (list (list .Values.worker.login.usersKey "rest/users.properties"))) }}
{{- end }}
{{- with .Values.worker.tls }}
{{- if .enabled }}
{{ include "dblog.projected" (dict "secret" .existingSecret "items" (list (list .certKey "rest/tls.crt") (list .keyKey "rest/tls.key"))) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Sources of the volume of whoever calls the REST interface. */}}
{{- define "dblog.own.caller" -}}
{{- if .Values.worker.login.enabled }}
{{ include "dblog.projected" (dict "secret" (include "dblog.login.secret" .) "items" (list (list .Values.worker.login.usernameKey "rest/username") (list .Values.worker.login.passwordKey "rest/password"))) }}
{{- end }}
{{- with .Values.worker.tls }}
{{- if and .enabled .caKey }}
{{ include "dblog.projected" (dict "secret" .existingSecret "items" (list (list .caKey "rest/ca.crt"))) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volumes of Secrets that users name, each with a folder of its own. Argument: list of names. */}}
{{- define "dblog.secretVolumes" -}}
{{- range $number, $name := . }}
- name: {{ printf "secret-%d" $number | quote }}
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ $name | quote }}
{{- end }}
{{- end -}}
{{- define "dblog.secretMounts" -}}
{{- range $number, $name := . }}
- name: {{ printf "secret-%d" $number | quote }}
  mountPath: {{ printf "/etc/dblog/secrets/%s" $name | quote }}
  readOnly: true
{{- end }}
{{- end -}}
