{{/* The demo: a shop on a MariaDB under writes. */}}

{{- define "dblog.shop" -}}{{ include "dblog.fullname" . }}-shop{{- end -}}
{{- define "dblog.shop.host" -}}{{ include "dblog.shop" . }}.{{ .Release.Namespace }}.svc{{- end -}}
{{- define "dblog.shop.login" -}}{{ include "dblog.shop" . }}-login{{- end -}}
{{- define "dblog.shop.writer" -}}{{ include "dblog.shop" . }}-writer{{- end -}}

{{/* What a demo adds to a first look: the shop's connector, and a sink that judges a comparison soon. What is given wins. */}}
{{- define "dblog.defaults.demo" -}}
{{- $config := dict
      "connector.class" "io.debezium.connector.mariadb.MariaDbConnector"
      "database.hostname" (include "dblog.shop.host" .)
      "database.port" 3306
      "database.user" "dblog"
      "database.password" (printf "${dir:/etc/dblog/secrets/%s:password}" (include "dblog.shop.login" .))
      "database.server.id" 184054
      "topic.prefix" "shop"
      "database.include.list" "shop"
      "bigint.unsigned.handling.mode" "precise"
      "schema.history.internal.kafka.bootstrap.servers" .Values.kafka.bootstrapServers
      "schema.history.internal.kafka.topic" "schemahistory.shop" -}}
{{- $_ := set .Values "connectors" (merge (dict) .Values.connectors (dict "shop" (dict "state" "running" "config" $config))) -}}
{{- $_ := set .Values "connectorSecrets" (append .Values.connectorSecrets (include "dblog.shop.login" .)) -}}
{{- $_ := set .Values.sink "enabled" true -}}
{{- $_ := set .Values.sink "config" (merge (dict) (.Values.sink.config | default dict) (dict "chunks.wait.s" 5)) -}}
{{- $_ := set .Values.reconciler "everySeconds" (min (int .Values.reconciler.everySeconds) 10) -}}
{{- end -}}

{{/* A password that the chart makes once a release. Argument: [context, Secret, key]. */}}
{{- define "dblog.shop.password" -}}
{{- $ := index . 0 -}}
{{- $made := get $.Values.demo "made" | default dict -}}
{{- $key := printf "%s/%s" (index . 1) (index . 2) -}}
{{- if not (hasKey $made $key) -}}
{{- $found := lookup "v1" "Secret" $.Release.Namespace (index . 1) | default dict -}}
{{- $kept := get (get $found "data" | default dict) (index . 2) | default "" | b64dec -}}
{{- $_ := set $made $key ($kept | default (randAlphaNum 32)) -}}
{{- $_ := set $.Values.demo "made" $made -}}
{{- end -}}
{{- get $made $key -}}
{{- end -}}

{{/* What the server runs at each start: the account of the shop, and that of a connector with the privileges that it needs and no more. */}}
{{- define "dblog.shop.administrator" -}}
{{- $root := include "dblog.shop.password" (list . (include "dblog.shop" .) "root-password") -}}
{{- $shop := include "dblog.shop.password" (list . (include "dblog.shop" .) "password") -}}
{{- $dblog := include "dblog.shop.password" (list . (include "dblog.shop.login" .) "password") -}}
ALTER USER 'root'@'localhost' IDENTIFIED BY '{{ $root }}';
DROP USER IF EXISTS ''@'localhost';
CREATE USER IF NOT EXISTS 'shop'@'%' IDENTIFIED BY '{{ $shop }}';
ALTER USER 'shop'@'%' IDENTIFIED BY '{{ $shop }}';
GRANT ALL ON shop.* TO 'shop'@'%';
GRANT ALL ON demo_load.* TO 'shop'@'%';
CREATE USER IF NOT EXISTS 'dblog'@'%' IDENTIFIED BY '{{ $dblog }}';
ALTER USER 'dblog'@'%' IDENTIFIED BY '{{ $dblog }}';
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'dblog'@'%';
GRANT SELECT ON shop.* TO 'dblog'@'%';
GRANT CREATE, SELECT, INSERT, UPDATE ON dblog.* TO 'dblog'@'%';
{{- end -}}

{{/* What changes when the shop's accounts do. */}}
{{- define "dblog.shop.checksum" -}}
{{- include "dblog.shop.administrator" . | sha256sum | trunc 4 -}}
{{- end -}}

{{- define "dblog.shop.tables" -}}shop.countries,shop.customers,shop.everything,shop.order_items,shop.orders,shop.products{{- end -}}
