{{/* The broker of a first look: its file, and what waits for it. */}}

{{/* The broker's server.properties. Other pods talk to CLIENTS alone; what the node says to itself stays inside its pod. */}}
{{- define "dblog.broker.properties" -}}
{{- $lines := dict
      "process.roles" "broker,controller"
      "node.id" 1
      "listeners" "CLIENTS://:9092,BROKER://localhost:9094,CONTROLLER://localhost:9093"
      "advertised.listeners" (printf "CLIENTS://%s,BROKER://localhost:9094" (include "dblog.broker.address" .))
      "listener.security.protocol.map" "CLIENTS:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"
      "inter.broker.listener.name" "BROKER"
      "controller.listener.names" "CONTROLLER"
      "controller.quorum.bootstrap.servers" "localhost:9093"
      "log.dirs" "/var/lib/dblog-broker/data"
      "default.replication.factor" 1
      "min.insync.replicas" 1
      "offsets.topic.replication.factor" 1
      "offsets.topic.num.partitions" 4
      "transaction.state.log.replication.factor" 1
      "transaction.state.log.min.isr" 1
      "transaction.state.log.num.partitions" 4
      "share.coordinator.state.topic.replication.factor" 1
      "share.coordinator.state.topic.min.isr" 1
      "group.initial.rebalance.delay.ms" 0 -}}
{{- $lines = merge (dict) (.Values.broker.config | default dict) $lines -}}
{{- range $key := keys $lines | sortAlpha }}
{{ $key }}={{ include "dblog.property" (get $lines $key) }}
{{- end }}
{{- end -}}

{{- define "dblog.broker.log4j2" -}}
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
{{- end -}}

{{/* The cluster's id: 16 bytes in base64url, the same ones at each install of this release, so that a volume that stayed is taken again. */}}
{{- define "dblog.broker.cluster" -}}
{{- printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 16 | b64enc | trimSuffix "==" -}}
{{- end -}}

{{/* The first container of pods that need the broker of a first look: their own log would not say why it does not run. Argument: [context, component]. */}}
{{- define "dblog.waitForBroker" -}}
{{- $ := index . 0 -}}
{{- $values := index . 1 -}}
{{- if and $.Values.firstLook (not $.Values.diagnosticMode.enabled) -}}
{{- $pod := printf "kubectl -n %s describe pod %s-0" $.Release.Namespace (include "dblog.broker" $) -}}
- name: wait-for-broker
  image: {{ include "dblog.image" (list $ $values.image) | quote }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  terminationMessagePolicy: FallbackToLogsOnError
  command: ["python3", "-P", "-c", {{ $.Files.Get "files/wait_for_broker.py" | toJson }}]
  args:
    - {{ include "dblog.broker.address" $ | quote }}
    - {{ printf "`%s` says why it does not run. Without a volume: the cluster has no default storage class (kubectl get storageclass); name one in broker.persistence.storageClass, or set broker.persistence.enabled=false. Without its image: name a copy that the nodes can pull in broker.image. With neither wanted: name your own brokers in kafka.bootstrapServers" $pod | quote }}
  resources:
    requests: {cpu: 10m, memory: 32Mi, ephemeral-storage: 8Mi}
    limits: {memory: 64Mi}
  securityContext:
    {{- toYaml $values.containerSecurityContext | nindent 4 }}
{{- end -}}
{{- end -}}
