{{/* The sink's configuration, as a flat YAML map. Secrets are placeholders of files; they are resolved in the driver, and executors get them from there. */}}
{{- define "dblog.sink.yaml" -}}
{{- $sink := .Values.sink -}}
{{- $lines := dict -}}
{{- $_ := set $lines "name" (default .Release.Name $sink.name) -}}
{{- with $sink.topics -}}{{- $_ := set $lines "topics" . -}}{{- end -}}
{{- with $sink.topicsPattern -}}{{- $_ := set $lines "topics.pattern" . -}}{{- end -}}
{{- $_ := set $lines "kafka.bootstrap.servers" .Values.kafka.bootstrapServers -}}
{{- $_ := set $lines "registry.url" (default (include "dblog.readonly.url" .) .Values.registry.url) -}}
{{- if .Values.registry.existingSecret -}}
{{- $_ := set $lines "registry.auth" "${file:/etc/dblog/own/registry/username}:${file:/etc/dblog/own/registry/password}" -}}
{{- end -}}
{{- $_ := set $lines "target.path" $sink.tablesPath -}}
{{- $_ := set $lines "checkpoint.path" $sink.checkpointPath -}}
{{- $_ := set $lines "metrics.listen" (toString $sink.metricsPort) -}}
{{- $_ := set $lines "log.format" $sink.logFormat -}}
{{- $_ := set $lines "log.level" $sink.logLevel -}}
{{- if .Values.tracing.enabled -}}{{- $_ := set $lines "tracing.enabled" "true" -}}{{- end -}}
{{- if eq $sink.kind "Job" -}}{{- $_ := set $lines "trigger.once" "true" -}}{{- end -}}
{{- $kafka := .Values.kafka -}}
{{- $_ := set $lines "kafka.security.protocol" $kafka.securityProtocol -}}
{{- if include "dblog.sasl" . -}}
{{- $_ := set $lines "kafka.sasl.mechanism" $kafka.sasl.mechanism -}}
{{- if eq $kafka.sasl.mechanism "OAUTHBEARER" -}}
{{- $scope := "" -}}{{- with $kafka.sasl.oauth.scope -}}{{- $scope = printf " scope=\"%s\"" . -}}{{- end -}}
{{- $_ := set $lines "kafka.sasl.jaas.config" (printf "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"${file:/etc/dblog/own/kafka/username}\" clientSecret=\"${file:/etc/dblog/own/kafka/password}\"%s;" $scope) -}}
{{- $_ := set $lines "kafka.sasl.oauthbearer.token.endpoint.url" $kafka.sasl.oauth.tokenEndpointUrl -}}
{{- $_ := set $lines "kafka.sasl.login.callback.handler.class" "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler" -}}
{{- else -}}
{{- $module := ternary "org.apache.kafka.common.security.plain.PlainLoginModule" "org.apache.kafka.common.security.scram.ScramLoginModule" (eq $kafka.sasl.mechanism "PLAIN") -}}
{{- $_ := set $lines "kafka.sasl.jaas.config" (printf "%s required username=\"${file:/etc/dblog/own/kafka/username}\" password=\"${file:/etc/dblog/own/kafka/password}\";" $module) -}}
{{- end -}}
{{- end -}}
{{- if hasSuffix "SSL" $kafka.securityProtocol -}}
{{- $_ := set $lines "kafka.ssl.endpoint.identification.algorithm" (ternary "https" "" $kafka.tls.verifyHostname) -}}
{{- if $kafka.tls.existingSecret -}}
{{- if $kafka.tls.caKey -}}
{{- $_ := set $lines "kafka.ssl.truststore.type" "PEM" -}}
{{- $_ := set $lines "kafka.ssl.truststore.certificates" "${file:/etc/dblog/own/kafka/ca.crt}" -}}
{{- end -}}
{{- if $kafka.tls.certKey -}}
{{- $_ := set $lines "kafka.ssl.keystore.type" "PEM" -}}
{{- $_ := set $lines "kafka.ssl.keystore.certificate.chain" "${file:/etc/dblog/own/kafka/tls.crt}" -}}
{{- $_ := set $lines "kafka.ssl.keystore.key" "${file:/etc/dblog/own/kafka/tls.key}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $sink.s3.enabled -}}
{{- with $sink.s3.endpoint -}}{{- $_ := set $lines "spark.hadoop.fs.s3a.endpoint" . -}}{{- end -}}
{{- with $sink.s3.region -}}{{- $_ := set $lines "spark.hadoop.fs.s3a.endpoint.region" . -}}{{- end -}}
{{- if $sink.s3.pathStyleAccess -}}{{- $_ := set $lines "spark.hadoop.fs.s3a.path.style.access" "true" -}}{{- end -}}
{{- if $sink.s3.existingSecret -}}
{{- $_ := set $lines "spark.hadoop.fs.s3a.access.key" "${file:/etc/dblog/own/s3/access-key}" -}}
{{- $_ := set $lines "spark.hadoop.fs.s3a.secret.key" "${file:/etc/dblog/own/s3/secret-key}" -}}
{{- else -}}
{{- /* Hadoop's own list, and in it the token that a cloud puts into pods of an account (IRSA). */ -}}
{{- $_ := set $lines "spark.hadoop.fs.s3a.aws.credentials.provider" (join "," (list
      "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider" "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
      "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
      "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
      "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider")) -}}
{{- end -}}
{{- if eq $sink.s3.logStore "conditional" -}}
{{- $_ := set $lines "spark.delta.logStore.s3a.impl" "dblog.sink.S3ConditionalLogStore" -}}
{{- else -}}
{{- $_ := set $lines "storage.single.driver" "true" -}}
{{- end -}}
{{- end -}}
{{- $_ := set $lines "spark.driver.memory" (printf "%sm" (include "dblog.sink.heap" .)) -}}
{{- if ne $sink.kind "SparkApplication" -}}{{- $_ := set $lines "spark.master" $sink.master -}}{{- end -}}
{{- if or (hasPrefix "k8s://" $sink.master) (eq $sink.kind "SparkApplication") -}}
{{- if and $sink.persistence.enabled -}}{{- $_ := set $lines "storage.shared.mount" "true" -}}{{- end -}}
{{- end -}}
{{- if and (hasPrefix "k8s://" $sink.master) (ne $sink.kind "SparkApplication") -}}
{{- $_ := set $lines "spark.kubernetes.namespace" .Release.Namespace -}}
{{- $_ := set $lines "spark.kubernetes.container.image" (include "dblog.image" (list . $sink.image)) -}}
{{- $_ := set $lines "spark.kubernetes.container.image.pullPolicy" $sink.image.pullPolicy -}}
{{- with concat .Values.global.imagePullSecrets $sink.image.pullSecrets | uniq -}}{{- $_ := set $lines "spark.kubernetes.container.image.pullSecrets" (join "," .) -}}{{- end -}}
{{- $_ := set $lines "spark.kubernetes.driver.pod.name" "${env:DBLOG_POD_NAME}" -}}
{{- /* Executors read and write the tables, so they have the driver's identity in the cloud; its token of Kubernetes they have not (executor.yaml). */ -}}
{{- $_ := set $lines "spark.kubernetes.authenticate.executor.serviceAccountName" (include "dblog.sink.serviceAccount" .) -}}
{{- $_ := set $lines "spark.kubernetes.executor.podNamePrefix" (include "dblog.sink" .) -}}
{{- $_ := set $lines "spark.kubernetes.executor.podTemplateFile" "/etc/dblog/config/executor.yaml" -}}
{{- /* The driver's ports take objects of Java from whoever reaches them, unless an executor proves that it knows the secret that Spark makes. */ -}}
{{- $_ := set $lines "spark.authenticate" "true" -}}
{{- $_ := set $lines "spark.network.crypto.enabled" "true" -}}
{{- $_ := set $lines "spark.driver.host" "${env:DBLOG_POD_IP}" -}}
{{- $_ := set $lines "spark.driver.bindAddress" "0.0.0.0" -}}
{{- $_ := set $lines "spark.driver.port" "7078" -}}
{{- $_ := set $lines "spark.blockManager.port" "7079" -}}
{{- $_ := set $lines "spark.executor.instances" (toString $sink.executor.instances) -}}
{{- $_ := set $lines "spark.executor.cores" (toString $sink.executor.cores) -}}
{{- with $sink.executor.cpuRequest -}}{{- $_ := set $lines "spark.kubernetes.executor.request.cores" . -}}{{- end -}}
{{- $_ := set $lines "spark.executor.memory" (printf "%vm" (int64 $sink.executor.memoryMiB)) -}}
{{- if $sink.persistence.enabled -}}
{{- $_ := set $lines "spark.kubernetes.executor.volumes.persistentVolumeClaim.lake.options.claimName" (include "dblog.sink.claim" .) -}}
{{- $_ := set $lines "spark.kubernetes.executor.volumes.persistentVolumeClaim.lake.mount.path" $sink.persistence.mountPath -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := $sink.config -}}{{- $_ := set $lines $key $value -}}{{- end -}}
{{ toYaml $lines }}
{{- end -}}

{{/* The driver's heap in MiB: beside it are Python, the stacks and buffers of threads, and compiled code, and a pod over its limit is killed without a word. */}}
{{- define "dblog.sink.heap" -}}{{ div (mul (int64 .Values.sink.memoryMiB) 60) 100 }}{{- end -}}

{{- define "dblog.sink.claim" -}}
{{- default (printf "%s-lake" (include "dblog.sink" .)) .Values.sink.persistence.existingClaim -}}
{{- end -}}

{{/* What Spark makes executors from: the driver's limits, and none of its rights. */}}
{{- define "dblog.sink.executor" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "dblog.podLabels" (list . "sink-executor" .Values.sink.podLabels) | nindent 4 }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    {{- toYaml .Values.sink.podSecurityContext | nindent 4 }}
  {{- include "dblog.placement" (omit .Values.sink "dnsPolicy") | nindent 2 }}
  containers:
    - name: executor
      {{- with include "dblog.sink.kafkaEnv" . | trim }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.sink.containerSecurityContext | nindent 8 }}
      volumeMounts:
        {{- /* By this name it is where Spark spills; or else Spark adds a volume of its own, without a limit. */}}
        - name: spark-local-dir-1
          mountPath: /tmp
  volumes:
    - name: spark-local-dir-1
      emptyDir:
        sizeLimit: {{ .Values.sink.tmpSizeLimit | quote }}
{{- end -}}

{{/* Sources of the sink's own volume. */}}
{{- define "dblog.own.sink" -}}
{{ include "dblog.own.clients" . }}
{{- with .Values.sink.s3 }}
{{- if and .enabled .existingSecret }}
{{ include "dblog.projected" (dict "secret" .existingSecret "items" (list (list .accessKeyKey "s3/access-key") (list .secretKeyKey "s3/secret-key"))) }}
{{- end }}
{{- end }}
{{- end -}}
