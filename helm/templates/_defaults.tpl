{{/* Values that are empty because they depend on whose brokers these are. Every file of objects begins with it: Helm renders the files in any order, and
     all of them with the same values, in which what is found once stays. */}}
{{- define "dblog.defaults" -}}
{{- if not (hasKey .Values "firstLook") -}}
{{- $worker := .Values.worker -}}
{{- $sink := .Values.sink -}}
{{- /* An upgrade with --reuse-values has the values of the chart before, which may know neither. */ -}}
{{- $broker := get .Values "broker" | default dict -}}
{{- $look := and (get $broker "enabled") (not .Values.kafka.bootstrapServers) -}}
{{- $_ := set .Values "firstLook" (not (empty $look)) -}}
{{- if $look -}}
{{- $_ := set .Values.kafka "bootstrapServers" (include "dblog.broker.address" .) -}}
{{- include "dblog.defaults.sink" . -}}
{{- end -}}
{{- $demo := get .Values "demo" | default dict -}}
{{- $_ := set .Values "demoRuns" (not (empty (and $look (get $demo "enabled") (not (hasKey .Values.connectors "shop"))))) -}}
{{- if .Values.demoRuns -}}{{- include "dblog.defaults.demo" . -}}{{- end -}}
{{- /* Each with what it is in a first look, and otherwise. */ -}}
{{- include "dblog.default" (list . $worker "replicas" 1 2) -}}
{{- include "dblog.default" (list . $worker "memoryMiB" 1024 2048) -}}
{{- include "dblog.default" (list . $worker "cpuRequest" "100m" "500m") -}}
{{- include "dblog.default" (list . $worker.topics "replicationFactor" 1 3) -}}
{{- include "dblog.default" (list . $sink "memoryMiB" 3072 4096) -}}
{{- include "dblog.default" (list . $sink "cpuRequest" "250m" "1") -}}
{{- include "dblog.default" (list . $sink.persistence "size" "10Gi" "100Gi") -}}
{{- end -}}
{{- end -}}

{{/* Sets a value that is empty. Argument: [context, the map, its key, what it is in a first look, what otherwise]. */}}
{{- define "dblog.default" -}}
{{- $values := index . 1 -}}
{{- $key := index . 2 -}}
{{- if eq (toString (get $values $key)) "" -}}
{{- $_ := set $values $key (ternary (index . 3) (index . 4) (index . 0).Values.firstLook) -}}
{{- end -}}
{{- end -}}

{{/* The sink of a first look: every table of every connector, on a volume of its own, soon. What is given wins. */}}
{{- define "dblog.defaults.sink" -}}
{{- $sink := .Values.sink -}}
{{- $persistence := $sink.persistence -}}
{{- $mount := trimSuffix "/" $persistence.mountPath -}}
{{- if not (or $sink.tablesPath $sink.checkpointPath) -}}
{{- $_ := set $persistence "enabled" true -}}
{{- $_ := set $sink "tablesPath" (printf "%s/tables" $mount) -}}
{{- $_ := set $sink "checkpointPath" (printf "%s/checkpoint" $mount) -}}
{{- end -}}
{{- if not (or $sink.topics $sink.topicsPattern) -}}
{{- /* prefix.database.table and prefix.schema.table, and none of the worker's own topics, whose names begin with its group's. */ -}}
{{- $_ := set $sink "topicsPattern" (printf `(?!\Q%s\E-)[^.]+\.[^.]+\.[^.]+|__dblog-chunks\..*` (include "dblog.topics.prefix" .)) -}}
{{- end -}}
{{- /* Spark looks for new topics every five minutes, and shuffles for two hundred cores. */ -}}
{{- $_ := set $sink "config" (merge (dict) ($sink.config | default dict) (dict "kafka.metadata.max.age.ms" 5000 "trigger.interval.s" 1 "spark.sql.shuffle.partitions" 2)) -}}
{{- end -}}
