{{/* Containers of the test pod. */}}

{{/* It checks the REST interface with the login. */}}
{{- define "dblog.test.check" -}}
{{- $worker := .Values.worker -}}
- name: check
  image: {{ include "dblog.image" (list . $worker.image) | quote }}
  imagePullPolicy: {{ $worker.image.pullPolicy }}
  args:
    - "connectors"
    - "check"
    {{- include "dblog.caller.args" . | nindent 4 }}
  resources:
    {{- toYaml .Values.tests.resources | nindent 4 }}
  securityContext:
    {{- toYaml $worker.containerSecurityContext | nindent 4 }}
  volumeMounts:
    {{- if include "dblog.own.caller" . | trim }}
    - name: own
      mountPath: /etc/dblog/own
      readOnly: true
    {{- end }}
    - name: tmp
      mountPath: /tmp
{{- end -}}

{{/* It compares the shop and its lake, and its last line is the answer. */}}
{{- define "dblog.test.identical" -}}
{{- $worker := .Values.worker -}}
- name: identical
  image: {{ include "dblog.image" (list . $worker.image) | quote }}
  imagePullPolicy: {{ $worker.image.pullPolicy }}
  command: ["tini", "--", "python3", "-m", "demo.identical"]
  args:
    - "shop"
    - {{ include "dblog.shop.tables" . | quote }}
    - {{ include "dblog.rest.url" . | quote }}
    - "http://{{ include "dblog.sink" . }}.{{ .Release.Namespace }}.svc:{{ .Values.sink.metricsPort }}/metrics"
    {{- range slice (include "dblog.caller.args" . | fromYamlArray) 2 }}
    - {{ . | quote }}
    {{- end }}
  env:
    - name: PYTHONPATH
      value: /opt/dblog/share/demo
  resources:
    {{- toYaml .Values.tests.resources | nindent 4 }}
  securityContext:
    {{- toYaml $worker.containerSecurityContext | nindent 4 }}
  volumeMounts:
    {{- if include "dblog.own.caller" . | trim }}
    - name: own
      mountPath: /etc/dblog/own
      readOnly: true
    {{- end }}
    - name: tmp
      mountPath: /tmp
{{- end -}}
