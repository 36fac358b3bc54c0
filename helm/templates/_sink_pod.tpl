{{/* The pod of the sink's driver, of a Deployment or a Job. Argument: dict of context and restartPolicy. */}}
{{- define "dblog.sink.pod" -}}
{{- $ := .context -}}
{{- $sink := $.Values.sink -}}
{{- $executors := hasPrefix "k8s://" $sink.master -}}
metadata:
  labels:
    {{- include "dblog.podLabels" (list $ "sink" $sink.podLabels) | nindent 4 }}
  annotations:
    {{- include "dblog.sink.annotations" $ | nindent 4 }}
    kubectl.kubernetes.io/default-container: "sink"
spec:
  serviceAccountName: {{ include "dblog.sink.serviceAccount" $ | quote }}
  automountServiceAccountToken: {{ $executors }}
  enableServiceLinks: false
  {{- include "dblog.pullSecrets" (list $ $sink.image) | nindent 2 }}
  securityContext:
    {{- toYaml $sink.podSecurityContext | nindent 4 }}
  terminationGracePeriodSeconds: {{ $sink.terminationGracePeriodSeconds }}
  restartPolicy: {{ .restartPolicy }}
  {{- include "dblog.placement" $sink | nindent 2 }}
  {{- $waits := include "dblog.waitForBroker" (list $ $sink) }}
  {{- if or $waits $sink.initContainers }}
  initContainers:
    {{- with $waits }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $sink.initContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    - name: sink
      image: {{ include "dblog.image" (list $ $sink.image) | quote }}
      imagePullPolicy: {{ $sink.image.pullPolicy }}
      {{- if $.Values.firstLook }}
      terminationMessagePolicy: FallbackToLogsOnError
      {{- end }}
      {{- if $.Values.diagnosticMode.enabled }}
      command: {{ toJson $.Values.diagnosticMode.command }}
      args: {{ toJson $.Values.diagnosticMode.args }}
      {{- else }}
      args: ["submit", "--config", "/etc/dblog/config/sink.yaml", "--", "--master", {{ $sink.master | quote }}]
      {{- end }}
      env:
        - name: DBLOG_POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: DBLOG_POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- include "dblog.sink.env" $ | indent 8 }}
      {{- include "dblog.envFrom" $sink | nindent 6 }}
      ports:
        - name: metrics
          containerPort: {{ $sink.metricsPort }}
          protocol: TCP
        {{- if $executors }}
        - name: driver
          containerPort: 7078
          protocol: TCP
        - name: blocks
          containerPort: 7079
          protocol: TCP
        {{- end }}
      {{- if and (not $.Values.diagnosticMode.enabled) (eq .restartPolicy "Always") }}
      startupProbe:
        {{- include "dblog.probe" (dict "probe" $sink.startupProbe "path" "/metrics" "port" "metrics") | nindent 8 }}
      livenessProbe:
        {{- include "dblog.probe" (dict "probe" (dict "periodSeconds" 20 "timeoutSeconds" 10 "failureThreshold" 6) "path" "/metrics" "port" "metrics") | nindent 8 }}
      readinessProbe:
        {{- include "dblog.probe" (dict "probe" (dict "periodSeconds" 10 "timeoutSeconds" 10 "failureThreshold" 3) "path" "/metrics" "port" "metrics") | nindent 8 }}
      {{- end }}
      {{- with $sink.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- include "dblog.resources" (dict "memoryMiB" $sink.memoryMiB "cpu" $sink.cpuRequest "disk" $sink.ephemeralStorageRequest "resources" $sink.resources) | nindent 8 }}
      securityContext:
        {{- toYaml $sink.containerSecurityContext | nindent 8 }}
      volumeMounts:
        {{- include "dblog.sink.mounts" $ | nindent 8 }}
    {{- with $sink.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "dblog.sink.volumes" $ | nindent 4 }}
{{- end -}}

{{/* Annotations of the driver's pod: what changes in it replaces the pod. */}}
{{- define "dblog.sink.annotations" -}}
checksum/config: {{ include "dblog.sink.yaml" . | sha256sum | quote }}
checksum/secrets: {{ include "dblog.secrets.checksum" . | quote }}
{{- range $key, $value := merge (dict) .Values.sink.podAnnotations .Values.commonAnnotations }}
{{ $key | quote }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Variables of the driver: of its clients, and the user's. */}}
{{- define "dblog.sink.env" -}}
{{- include "dblog.sink.kafkaEnv" . }}
{{- if .Values.registry.tls.existingSecret }}
- name: SSL_CERT_FILE
  value: /etc/dblog/own/registry/ca.crt
{{- end }}
{{- with include "dblog.tracing.env" . | trim }}
{{ . }}
{{- end }}
{{- with .Values.sink.extraEnvVars }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Variables of whoever talks to Kafka, so also of executors: its Java clients ask only addresses on this list for tokens. */}}
{{- define "dblog.sink.kafkaEnv" -}}
{{- if and (include "dblog.sasl" .) (eq .Values.kafka.sasl.mechanism "OAUTHBEARER") }}
- name: JDK_JAVA_OPTIONS
  value: {{ printf "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=%s" .Values.kafka.sasl.oauth.tokenEndpointUrl | quote }}
{{- end }}
{{- end -}}

{{- define "dblog.sink.mounts" -}}
- name: config
  mountPath: /etc/dblog/config
  readOnly: true
{{- if include "dblog.own.sink" . | trim }}
- name: own
  mountPath: /etc/dblog/own
  readOnly: true
{{- end }}
{{- include "dblog.secretMounts" .Values.sink.secrets }}
{{- if ne .Values.sink.kind "SparkApplication" }}
- name: tmp
  mountPath: /tmp
{{- end }}
{{- if .Values.sink.persistence.enabled }}
- name: lake
  mountPath: {{ .Values.sink.persistence.mountPath | quote }}
{{- end }}
{{- with .Values.sink.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dblog.sink.volumes" -}}
- name: config
  configMap:
    name: {{ include "dblog.sink" . | quote }}
    defaultMode: 0444
{{- with include "dblog.own.sink" . | trim }}
- name: own
  projected:
    defaultMode: 0440
    sources:
      {{- . | nindent 6 }}
{{- end }}
{{- include "dblog.secretVolumes" .Values.sink.secrets }}
{{- if ne .Values.sink.kind "SparkApplication" }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.sink.tmpSizeLimit | quote }}
{{- end }}
{{- if .Values.sink.persistence.enabled }}
- name: lake
  persistentVolumeClaim:
    claimName: {{ include "dblog.sink.claim" . | quote }}
{{- end }}
{{- with .Values.sink.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
