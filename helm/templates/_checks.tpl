{{/* Combinations that the schema cannot refuse, each with a sentence. Included by the first object that is rendered. */}}
{{- define "dblog.checks" -}}
{{- $kafka := .Values.kafka -}}
{{- $worker := .Values.worker -}}
{{- $sink := .Values.sink -}}
{{- if not $kafka.bootstrapServers -}}
{{- fail "kafka.bootstrapServers is required: the brokers to start from, such as broker-1:9092,broker-2:9092; or broker.enabled=true, and the chart runs one for a first look" -}}
{{- end -}}
{{- include "dblog.checks.demo" . -}}
{{- if .Values.firstLook -}}{{- include "dblog.checks.look" . -}}{{- else -}}{{- include "dblog.checks.brokers" . -}}{{- end -}}
{{- include "dblog.checks.names" . -}}
{{- range $path, $text := dict "kafka.sasl.username" $kafka.sasl.username "kafka.sasl.password" $kafka.sasl.password "worker.login.password" $worker.login.password -}}
{{- if and $text (not $.Values.allowInlineSecrets) -}}
{{- fail (printf "%s stands in the values, where whoever may read the release reads it; name a Secret in existingSecret beside it, or set allowInlineSecrets=true" $path) -}}
{{- end -}}
{{- end -}}
{{- if include "dblog.sasl" . -}}
{{- if and (not $kafka.sasl.existingSecret) (not (and $kafka.sasl.username $kafka.sasl.password)) -}}
{{- fail (printf "kafka.securityProtocol=%s needs a login: name its Secret in kafka.sasl.existingSecret" $kafka.securityProtocol) -}}
{{- end -}}
{{- if and (eq $kafka.sasl.mechanism "OAUTHBEARER") (not $kafka.sasl.oauth.tokenEndpointUrl) -}}
{{- fail "kafka.sasl.mechanism=OAUTHBEARER needs kafka.sasl.oauth.tokenEndpointUrl, the address that gives tokens" -}}
{{- end -}}
{{- else if or $kafka.sasl.existingSecret $kafka.sasl.username -}}
{{- fail (printf "kafka.sasl has a login, and kafka.securityProtocol=%s uses none; set it to SASL_SSL or SASL_PLAINTEXT" $kafka.securityProtocol) -}}
{{- end -}}
{{- if and $kafka.tls.existingSecret (not (hasSuffix "SSL" $kafka.securityProtocol)) -}}
{{- fail (printf "kafka.tls has certificates, and kafka.securityProtocol=%s uses none; set it to SSL or SASL_SSL" $kafka.securityProtocol) -}}
{{- end -}}
{{- range $name, $tls := dict "kafka.tls" $kafka.tls "registry.tls" .Values.registry.tls -}}
{{- if ne (empty $tls.certKey) (empty $tls.keyKey) -}}
{{- fail (printf "%s needs certKey and keyKey for a client's certificate, or neither" $name) -}}
{{- end -}}
{{- if and (or $tls.certKey $tls.keyKey) (not $tls.existingSecret) -}}
{{- fail (printf "%s.certKey is set without %s.existingSecret, the Secret that has it" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.registry.existingSecret .Values.registry.tls.existingSecret) (not .Values.registry.url) -}}
{{- fail "registry has a Secret and no url: set registry.url, or leave registry empty for the registry that the worker serves" -}}
{{- end -}}
{{- if .Values.registry.tls.certKey -}}
{{- fail "registry.tls.certKey: the worker shows no client's certificate to a registry yet; use a login (registry.existingSecret)" -}}
{{- end -}}
{{- if lt (int $worker.terminationGracePeriodSeconds) (int (add $worker.taskShutdownSeconds 20)) -}}
{{- fail (printf "worker.terminationGracePeriodSeconds=%v must be at least 20 more than worker.taskShutdownSeconds=%v, or tasks are killed before they store their offsets, or the worker before it has reported them and left its group" $worker.terminationGracePeriodSeconds $worker.taskShutdownSeconds) -}}
{{- end -}}
{{- with $worker.pdb -}}
{{- if and .enabled .minAvailable (not (hasSuffix "%" (toString .minAvailable))) (ge (int .minAvailable) (int $worker.replicas)) -}}
{{- fail (printf "worker.pdb.minAvailable=%v with worker.replicas=%v would let no node be drained; set it lower, or use maxUnavailable" .minAvailable $worker.replicas) -}}
{{- end -}}
{{- if and .enabled (eq (toString .minAvailable) "100%") -}}
{{- fail "worker.pdb.minAvailable=100% would let no node be drained; set it lower, or use maxUnavailable" -}}
{{- end -}}
{{- if and .enabled (eq (toString .maxUnavailable) "0") (not .minAvailable) -}}
{{- fail "worker.pdb.maxUnavailable=0 would let no node be drained; set it to 1" -}}
{{- end -}}
{{- end -}}
{{- if gt (len .Values.connectors) (int $worker.connectorsMax) -}}
{{- fail (printf "connectors has %d, and worker.connectorsMax=%v: raise it, and worker.memoryMiB with it, since each has its share of the queues" (len .Values.connectors) $worker.connectorsMax) -}}
{{- end -}}
{{- if and $worker.tls.enabled (not $worker.tls.existingSecret) -}}
{{- fail "worker.tls.existingSecret is required by worker.tls.enabled: the Secret with the certificate of the REST interface" -}}
{{- end -}}
{{- include "dblog.checks.connectors" . -}}
{{- include "dblog.checks.secrets" (dict "context" . "path" "worker.config" "config" $worker.config "providers" "own|file|dir|env" "remedy" "name its Secret in connectorSecrets and write ${dir:/etc/dblog/secrets/SECRET:KEY}") -}}
{{- include "dblog.checks.secrets" (dict "context" . "path" "sink.config" "config" $sink.config "providers" "file|env" "remedy" "name its Secret in sink.secrets and write ${file:/etc/dblog/secrets/SECRET/KEY}") -}}
{{- if eq $worker.service.type "LoadBalancer" -}}
{{- if and (not $worker.login.enabled) (not $worker.service.allowWithoutLogin) -}}
{{- fail "worker.service.type=LoadBalancer opens the REST interface, and worker.login.enabled=false asks nobody for a login; enable the login, or set worker.service.allowWithoutLogin=true" -}}
{{- end -}}
{{- if and (not $worker.tls.enabled) (not $worker.service.allowPlain) -}}
{{- fail "worker.service.type=LoadBalancer needs worker.tls.enabled, or logins travel as they are: set worker.tls, or worker.service.allowPlain=true where the load balancer itself speaks TLS" -}}
{{- end -}}
{{- end -}}
{{- range $name, $way := dict "ingress" .Values.ingress "httpRoute" .Values.httpRoute -}}
{{- if and $way.enabled (not $worker.login.enabled) (not $way.allowWithoutLogin) -}}
{{- fail (printf "%s.enabled opens the REST interface, and worker.login.enabled=false asks nobody for a login; enable the login, or set %s.allowWithoutLogin=true" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- if not .Values.ingress.host -}}{{- fail "ingress.host is required: the name under which the REST interface is reached" -}}{{- end -}}
{{- if and (not .Values.ingress.tlsSecret) (not .Values.ingress.allowPlain) -}}
{{- fail "ingress.tlsSecret is required, or logins travel as they are: name the Secret with the host's certificate, or set ingress.allowPlain=true" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is required: the Gateway that the route belongs to" -}}
{{- end -}}
{{- if $sink.enabled -}}{{- include "dblog.checks.sink" . -}}{{- end -}}
{{- $monitoring := .Values.monitoring -}}
{{- $tracing := .Values.tracing -}}
{{- if and $tracing.enabled (not (regexMatch "^https?://[^/@\\s]+" $tracing.endpoint)) -}}
{{- fail "tracing.endpoint is required by tracing.enabled: the collector's address for OTLP over HTTP, such as http://collector.monitoring:4318" -}}
{{- end -}}
{{- if and $monitoring.prometheusRule.enabled (not (.Files.Get "monitoring/alerts.yaml")) -}}
{{- fail "monitoring.prometheusRule.enabled: this package of the chart has no monitoring/alerts.yaml; install a released one" -}}
{{- end -}}
{{- if and $monitoring.dashboards.enabled (not (.Files.Glob "monitoring/dashboards/*.json")) -}}
{{- fail "monitoring.dashboards.enabled: this package of the chart has no monitoring/dashboards; install a released one" -}}
{{- end -}}
{{- end -}}

{{/* A first look: nothing in the values is of brokers that are not named, and an upgrade does not leave a release's own brokers for an empty one. */}}
{{- define "dblog.checks.look" -}}
{{- $kafka := .Values.kafka -}}
{{- $named := list -}}
{{- if ne $kafka.securityProtocol "PLAINTEXT" -}}{{- $named = append $named (printf "kafka.securityProtocol=%s" $kafka.securityProtocol) -}}{{- end -}}
{{- if or $kafka.sasl.existingSecret $kafka.sasl.username -}}{{- $named = append $named "kafka.sasl" -}}{{- end -}}
{{- if $kafka.tls.existingSecret -}}{{- $named = append $named "kafka.tls" -}}{{- end -}}
{{- if gt (int .Values.worker.topics.replicationFactor) 1 -}}{{- $named = append $named (printf "worker.topics.replicationFactor=%v" .Values.worker.topics.replicationFactor) -}}{{- end -}}
{{- with $named -}}
{{- fail (printf "%s is of brokers of your own, and kafka.bootstrapServers names none: name them. Without them the chart runs one broker of its own, for a first look" (join " and " .)) -}}
{{- end -}}
{{- if .Release.IsUpgrade -}}
{{- $file := get (get (lookup "v1" "ConfigMap" .Release.Namespace (include "dblog.worker" .) | default dict) "data" | default dict) "worker.properties" | default "" -}}
{{- $before := regexFind "(?m)^bootstrap[.]servers=.*$" $file | trimPrefix "bootstrap.servers=" -}}
{{- if and $before (ne $before (include "dblog.broker.address" .)) -}}
{{- fail (printf "the release %s uses the brokers %s, and these values name none: an empty broker of the chart's own would take their place, and every connector and offset would be gone. Give the values of before too (--reuse-values, or -f with your file), or kafka.bootstrapServers=%s" .Release.Name $before $before) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A demo is of a first look, which has everything that it needs. */}}
{{- define "dblog.checks.demo" -}}
{{- if get (get .Values "demo" | default dict) "enabled" -}}
{{- if not .Values.firstLook -}}
{{- fail (printf "demo.enabled belongs to a first look, on the broker of the chart, and kafka.bootstrapServers=%s names brokers of your own: leave one of the two out" .Values.kafka.bootstrapServers) -}}
{{- end -}}
{{- if not .Values.demoRuns -}}
{{- fail "demo.enabled has a connector of its own called shop, and so have the values: give yours another name" -}}
{{- end -}}
{{- if ne .Values.sink.kind "Deployment" -}}
{{- fail (printf "demo.enabled compares source and lake while the sink runs, and sink.kind=%s: leave it out (Deployment)" .Values.sink.kind) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Brokers of one's own: no half of a first look is left. */}}
{{- define "dblog.checks.brokers" -}}
{{- if and (eq (int .Values.worker.topics.replicationFactor) 1) (not .Values.worker.topics.allowOneReplica) -}}
{{- fail (printf "worker.topics.replicationFactor=1 on the brokers %s: the loss of one broker would be the loss of every connector and offset. Leave it out (3), or set worker.topics.allowOneReplica=true where there is one broker" .Values.kafka.bootstrapServers) -}}
{{- end -}}
{{- end -}}

{{/* Names that Kubernetes or Kafka would refuse in the middle of an install, or after it. */}}
{{- define "dblog.checks.names" -}}
{{- $name := include "dblog.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}
{{- fail (printf "the name %s would be part of Services' names, which Kubernetes refuses: they have lower-case letters, digits and hyphens, and begin with a letter. Choose another name for the release, or set fullnameOverride" $name) -}}
{{- end -}}
{{- $prefix := include "dblog.topics.prefix" . -}}
{{- if gt (len $prefix) 241 -}}
{{- fail (printf "the name of the topic %s-offsets would have %d characters, and Kafka takes 249: shorten worker.topics.prefix, or worker.groupId" $prefix (add (len $prefix) 8)) -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9._-]+$" $prefix) -}}
{{- fail (printf "Kafka takes no topic %q: names of topics have letters, digits, dots, hyphens and underscores; change worker.topics.prefix, or worker.groupId" (printf "%s-offsets" $prefix)) -}}
{{- end -}}
{{- range $connector, $_ := .Values.connectors -}}
{{- if gt (len $connector) 200 -}}
{{- fail (printf "the connector's name %s... has %d characters, and it becomes the name of a file: take 200 at most" (trunc 40 $connector) (len $connector)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Secrets of a configuration, which ends in a ConfigMap, are placeholders. Argument: dict of context, path, config, providers (as a pattern), remedy. */}}
{{- define "dblog.checks.secrets" -}}
{{- $secret := "(?i)(passw|passphrase|pwd$|secret|jaas|token$|credential|(api|access|private|shared|account)[._-]?key$|key\\.pem|keystore\\.key$|user\\.info|registry\\.auth$)" -}}
{{- /* Keys of which the pattern knows too much: where a secret comes from, and what is done with secrets. */ -}}
{{- $plain := "(?i)(credentials?\\.(source|provider)|token\\.(endpoint|provider)|passw.*\\.(handling|mode)$|\\.config\\.secrets$|^spark\\.kubernetes\\..*secret)" -}}
{{- range $key, $value := .config -}}
{{- $text := toString $value -}}
{{- $named := and (regexMatch $secret $key) (not (regexMatch $plain $key)) -}}
{{- $in := regexMatch "://[^/@\\s]*:[^/@\\s$][^/@\\s]*@" $text -}}
{{- if and (or (and $named $text (not (regexMatch (printf "\\$\\{(%s):[^}]+\\}" $.providers) $text))) $in) (not $.context.Values.allowInlineSecrets) -}}
{{- fail (printf "%s has a secret in %q; %s, or set allowInlineSecrets=true" $.path $key $.remedy) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dblog.checks.connectors" -}}
{{- $mounted := list -}}
{{- range .Values.worker.extraVolumeMounts -}}{{- $mounted = append $mounted (trimSuffix "/" .mountPath) -}}{{- end -}}
{{- range .Values.connectorSecrets -}}{{- $mounted = append $mounted (printf "/etc/dblog/secrets/%s" .) -}}{{- end -}}
{{- range $name, $connector := .Values.connectors -}}
{{- $path := printf "connectors.%s.config" $name -}}
{{- include "dblog.checks.secrets" (dict "context" $ "path" $path "config" $connector.config "providers" "file|dir" "remedy" "name its Secret in connectorSecrets and write ${dir:/etc/dblog/secrets/SECRET:KEY}") -}}
{{- range $key, $value := $connector.config -}}
{{- range regexFindAll "\\$\\{(?:dir|file):/etc/dblog/secrets/[^/:}]+" (toString $value) -1 -}}
{{- if not (has (regexFind "/.*" .) $mounted) -}}
{{- fail (printf "%s reads the Secret %s in %q, which is not mounted; name it in connectorSecrets" $path (base .) $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasKey $connector.config "dblog.owner" -}}
{{- fail (printf "connectors.%s.config has dblog.owner, which the chart sets; use reconciler.owner" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dblog.checks.sink" -}}
{{- $sink := .Values.sink -}}
{{- if not $sink.tablesPath -}}{{- fail "sink.tablesPath is required: where the tables are, such as /lake/tables or s3a://bucket/lake" -}}{{- end -}}
{{- if not $sink.checkpointPath -}}{{- fail "sink.checkpointPath is required: where the checkpoint is, such as /lake/checkpoint or s3a://bucket/checkpoint" -}}{{- end -}}
{{- if eq (empty $sink.topics) (empty $sink.topicsPattern) -}}{{- fail "sink needs topics or topicsPattern: one of the two" -}}{{- end -}}
{{- range $name, $path := dict "tablesPath" $sink.tablesPath "checkpointPath" $sink.checkpointPath -}}
{{- if and (regexMatch "^s3n?:" $path) (not (hasKey $sink.config (printf "spark.hadoop.fs.%s.impl" (first (splitList ":" $path))))) -}}
{{- fail (printf "sink.%s=%s: the image has a client for s3a: alone; write s3a://%s" $name $path (regexReplaceAll "^[^:]+:/*" $path "")) -}}
{{- end -}}
{{- if hasPrefix "/" $path -}}
{{- if not $sink.persistence.enabled -}}
{{- fail (printf "sink.%s=%s is a path in the pod, which goes with the pod: set sink.persistence.enabled=true, or a URL such as s3a://bucket/lake" $name $path) -}}
{{- end -}}
{{- if not (hasPrefix (printf "%s/" (trimSuffix "/" $sink.persistence.mountPath)) $path) -}}
{{- fail (printf "sink.%s=%s is not on the volume, which is mounted at sink.persistence.mountPath=%s" $name $path $sink.persistence.mountPath) -}}
{{- end -}}
{{- else if not (regexMatch "^[A-Za-z][A-Za-z0-9+.-]*:" $path) -}}
{{- fail (printf "sink.%s=%s is no absolute path and no URL" $name $path) -}}
{{- end -}}
{{- end -}}
{{- $executors := or (hasPrefix "k8s://" $sink.master) (eq $sink.kind "SparkApplication") -}}
{{- if and $executors $sink.persistence.enabled (not $sink.persistence.existingClaim) (not (has "ReadWriteMany" $sink.persistence.accessModes)) -}}
{{- fail "sink.persistence.accessModes needs ReadWriteMany with executors as pods: each mounts the volume" -}}
{{- end -}}
{{- if and (hasPrefix "s3a:" $sink.tablesPath) (not $sink.s3.enabled) (not (hasKey $sink.config "spark.hadoop.fs.s3a.endpoint")) (not (hasKey $sink.config "storage.single.driver")) (not (hasKey $sink.config "spark.delta.logStore.s3a.impl")) -}}
{{- fail "sink.tablesPath is in S3: set sink.s3.enabled=true, with sink.s3.existingSecret or the identity of the pod" -}}
{{- end -}}
{{- if eq $sink.kind "SparkApplication" -}}
{{- range $name, $other := dict "dnsPolicy" (ne $sink.dnsPolicy "") "resources" (not (empty $sink.resources)) "ephemeralStorageRequest" (ne (toString $sink.ephemeralStorageRequest) "1Gi") -}}
{{- if $other -}}{{- fail (printf "sink.%s is set, and a SparkApplication has no field for it: leave it out (memory and CPU are sink.memoryMiB, sink.cpuRequest and sink.executor), or use sink.kind=Deployment" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $sink.schedule (ne $sink.kind "Job") -}}{{- fail (printf "sink.schedule is of a Job, and sink.kind=%s" $sink.kind) -}}{{- end -}}
{{- if and (ne (toString $sink.metricsPort) "") (le (int $sink.metricsPort) 1024) -}}{{- fail (printf "sink.metricsPort=%v needs rights that the pod has not; use one above 1024" $sink.metricsPort) -}}{{- end -}}
{{- end -}}
