{{/* The worker's file. Secrets are placeholders of files in /etc/dblog/own; connectors have those in /etc/dblog/secrets. */}}
{{- define "dblog.worker.properties" -}}
{{- $worker := .Values.worker -}}
{{- $prefix := include "dblog.topics.prefix" . -}}
{{- $lines := dict -}}
{{- $_ := set $lines "bootstrap.servers" .Values.kafka.bootstrapServers -}}
{{- $_ := set $lines "group.id" (include "dblog.group" .) -}}
{{- $_ := set $lines "client.id" "${env:DBLOG_POD_NAME}" -}}
{{- range $kind := list "config" "offset" "status" -}}
{{- $_ := set $lines (printf "%s.storage.topic" $kind) (printf "%s-%s" $prefix (ternary "offsets" $kind (eq $kind "offset"))) -}}
{{- $_ := set $lines (printf "%s.storage.replication.factor" $kind) $worker.topics.replicationFactor -}}
{{- end -}}
{{- $_ := set $lines "dblog.registry.topic" $worker.topics.registry -}}
{{- $_ := set $lines "dblog.registry.replication.factor" $worker.topics.replicationFactor -}}
{{- $_ := set $lines "key.converter" $worker.keyConverter -}}
{{- $_ := set $lines "value.converter" $worker.valueConverter -}}
{{- $_ := set $lines "listeners" (printf "%s://:%v" (include "dblog.rest.scheme" .) $worker.ports.rest) -}}
{{- $_ := set $lines "rest.advertised.host.name" "${env:DBLOG_ADVERTISED_HOST}" -}}
{{- $_ := set $lines "rest.advertised.port" $worker.ports.rest -}}
{{- /* Whom a standby hands requests and their logins on to: the pods of this StatefulSet, whatever address the group names. */ -}}
{{- $_ := set $lines "dblog.rest.workers.allowed.hosts" (printf "*.%s.%s.svc.%s:%v" (include "dblog.headless" .) .Release.Namespace .Values.clusterDomain $worker.ports.rest) -}}
{{- $_ := set $lines "dblog.rest.readonly.listener" (printf "http://:%v" $worker.ports.readonly) -}}
{{- if $worker.tls.enabled -}}
{{- $_ := set $lines "listeners.https.ssl.certificate.location" "/etc/dblog/own/rest/tls.crt" -}}
{{- $_ := set $lines "listeners.https.ssl.key.location" "/etc/dblog/own/rest/tls.key" -}}
{{- end -}}
{{- if $worker.login.enabled -}}
{{- $_ := set $lines "rest.extension.classes" "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension" -}}
{{- $_ := set $lines "dblog.rest.login.config" "/etc/dblog/config/jaas.conf" -}}
{{- end -}}
{{- if not $worker.login.enabled -}}
{{- $_ := set $lines "dblog.rest.without.login" "all" -}}
{{- end -}}
{{- $_ := set $lines "session.timeout.ms" (mul $worker.sessionTimeoutSeconds 1000) -}}
{{- $_ := set $lines "task.shutdown.graceful.timeout.ms" (mul $worker.taskShutdownSeconds 1000) -}}
{{- $_ := set $lines "dblog.log.format" $worker.logFormat -}}
{{- $_ := set $lines "dblog.log.level" $worker.logLevel -}}
{{- $levels := list -}}
{{- range $logger, $level := $worker.logLevels -}}{{- $levels = append $levels (printf "%s=%s" $logger $level) -}}{{- end -}}
{{- with $levels -}}{{- $_ := set $lines "dblog.log.levels" (join "," .) -}}{{- end -}}
{{- if .Values.tracing.enabled -}}{{- $_ := set $lines "dblog.tracing.enabled" "true" -}}{{- end -}}
{{- $_ := set $lines "config.providers" "own,dir,file,env" -}}
{{- $_ := set $lines "dblog.config.providers.own" "own" -}}
{{- $_ := set $lines "config.providers.own.class" "org.apache.kafka.common.config.provider.DirectoryConfigProvider" -}}
{{- $_ := set $lines "config.providers.own.param.allowed.paths" "/etc/dblog/own" -}}
{{- $_ := set $lines "config.providers.dir.class" "org.apache.kafka.common.config.provider.DirectoryConfigProvider" -}}
{{- $_ := set $lines "config.providers.dir.param.allowed.paths" "/etc/dblog/secrets" -}}
{{- $_ := set $lines "config.providers.file.class" "org.apache.kafka.common.config.provider.FileConfigProvider" -}}
{{- $_ := set $lines "config.providers.file.param.allowed.paths" "/etc/dblog/secrets" -}}
{{- $_ := set $lines "config.providers.env.class" "org.apache.kafka.common.config.provider.EnvVarConfigProvider" -}}
{{- $_ := set $lines "config.providers.env.param.allowlist.pattern" "DBLOG_POD_NAME|DBLOG_ADVERTISED_HOST" -}}
{{- $kafka := .Values.kafka -}}
{{- $_ := set $lines "security.protocol" $kafka.securityProtocol -}}
{{- if include "dblog.sasl" . -}}
{{- $_ := set $lines "sasl.mechanism" $kafka.sasl.mechanism -}}
{{- if eq $kafka.sasl.mechanism "OAUTHBEARER" -}}
{{- $_ := set $lines "sasl.oauthbearer.method" "oidc" -}}
{{- $_ := set $lines "sasl.oauthbearer.client.id" "${own:/etc/dblog/own/kafka:username}" -}}
{{- $_ := set $lines "sasl.oauthbearer.client.secret" "${own:/etc/dblog/own/kafka:password}" -}}
{{- $_ := set $lines "sasl.oauthbearer.token.endpoint.url" $kafka.sasl.oauth.tokenEndpointUrl -}}
{{- with $kafka.sasl.oauth.scope -}}{{- $_ := set $lines "sasl.oauthbearer.scope" . -}}{{- end -}}
{{- else -}}
{{- $_ := set $lines "sasl.username" "${own:/etc/dblog/own/kafka:username}" -}}
{{- $_ := set $lines "sasl.password" "${own:/etc/dblog/own/kafka:password}" -}}
{{- end -}}
{{- end -}}
{{- if hasSuffix "SSL" $kafka.securityProtocol -}}
{{- $_ := set $lines "ssl.endpoint.identification.algorithm" (ternary "https" "none" $kafka.tls.verifyHostname) -}}
{{- if $kafka.tls.existingSecret -}}
{{- if $kafka.tls.caKey -}}{{- $_ := set $lines "ssl.ca.location" "/etc/dblog/own/kafka/ca.crt" -}}{{- end -}}
{{- if $kafka.tls.certKey -}}{{- $_ := set $lines "ssl.certificate.location" "/etc/dblog/own/kafka/tls.crt" -}}{{- end -}}
{{- if $kafka.tls.keyKey -}}{{- $_ := set $lines "ssl.key.location" "/etc/dblog/own/kafka/tls.key" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $registry := .Values.registry -}}
{{- if $registry.url -}}
{{- $_ := set $lines "dblog.registry.enable" "false" -}}
{{- range $converter := list "key.converter" "value.converter" -}}
{{- $_ := set $lines (printf "%s.schema.registry.url" $converter) $registry.url -}}
{{- if $registry.existingSecret -}}
{{- $_ := set $lines (printf "%s.basic.auth.credentials.source" $converter) "USER_INFO" -}}
{{- $_ := set $lines (printf "%s.basic.auth.user.info" $converter) "${own:/etc/dblog/own/registry:username}:${own:/etc/dblog/own/registry:password}" -}}
{{- end -}}
{{- if $registry.tls.existingSecret -}}
{{- if $registry.tls.caKey -}}
{{- $_ := set $lines (printf "%s.schema.registry.ssl.truststore.location" $converter) "/etc/dblog/own/registry/ca.crt" -}}
{{- $_ := set $lines (printf "%s.schema.registry.ssl.truststore.type" $converter) "PEM" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $lines = merge (dict) $worker.config $lines -}}
{{- with get $lines "dblog.rest.allowed.hosts" -}}{{- $_ := set $lines "dblog.rest.allowed.hosts" (printf "%s,%s" . (include "dblog.own.hosts" $)) -}}{{- end -}}
{{- range $key := keys $lines | sortAlpha }}
{{ $key }}={{ include "dblog.property" (get $lines $key) }}
{{- end }}
{{- end -}}

{{/* Names under which the release's own pods reach the worker: its Services, in each length that a search list completes, the pod, and the machine itself. */}}
{{- define "dblog.own.hosts" -}}
{{- $hosts := list -}}
{{- range $name := list (include "dblog.worker" .) (include "dblog.readonly" .) | uniq -}}
{{- range $suffix := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.%s" $.Release.Namespace $.Values.clusterDomain) -}}
{{- $hosts = append $hosts (printf "%s%s" $name $suffix) -}}
{{- end -}}
{{- end -}}
{{- join "," (concat $hosts (list "${env:DBLOG_ADVERTISED_HOST}" "localhost" "127.0.0.1")) -}}
{{- end -}}
