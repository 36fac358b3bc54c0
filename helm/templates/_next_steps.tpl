{{/* What the notes of a first look say: what runs, whose broker it is, and the next commands, each to be pasted. */}}
{{- define "dblog.notes.look" -}}
{{- $namespace := .Release.Namespace -}}
{{- $kubectl := printf "kubectl -n %s" $namespace -}}
{{- $sink := and .Values.sink.enabled (eq .Values.sink.kind "Deployment") -}}
dblog {{ .Chart.AppVersion }} is installed as {{ .Release.Name }}, for a first look. What runs:

  {{ include "dblog.broker" . }}   Kafka, one node{{ if .Values.broker.persistence.enabled }} with a volume of {{ .Values.broker.persistence.size }}{{ end }}
  {{ include "dblog.worker" . }}   the worker, which reads databases and writes to Kafka
{{- if .Values.demoRuns }}
  {{ include "dblog.shop" . }}   a shop on a MariaDB, and its writer {{ include "dblog.shop.writer" . }}
{{- end }}
{{- if .Values.sink.enabled }}
  {{ include "dblog.sink" . }}   the sink, which reads from Kafka and writes Delta tables to {{ .Values.sink.tablesPath }}
{{- end }}

The broker is for a first look: one node, no login, no TLS. Your own brokers are named in kafka.bootstrapServers; OWN-BROKER.md of the chart has the way there, and values-production.yaml the values.

{{- if not (or .Values.global.imageRegistry .Values.worker.image.registry) }}

The images {{ include "dblog.image" (list . .Values.worker.image) }} and {{ include "dblog.image" (list . .Values.sink.image) }} are those of `make images`: give them to the nodes (kind load docker-image, minikube image load), or name a registry that has them in global.imageRegistry.
{{- end }}

All of it is ready when this command ends. If it does not within two minutes, `{{ $kubectl }} get pods` shows which pod waits, and for what:

  {{ $kubectl }} rollout status statefulset/{{ include "dblog.worker" . }} --timeout=5m
{{- if .Values.demoRuns }}

The demo has a shop on a MariaDB ({{ include "dblog.shop" . }}), under {{ .Values.demo.changesPerSecond }} changes a second. How it writes; what of it is in Delta; and whether both are the same, while it goes on:

  {{ $kubectl }} logs deployment/{{ include "dblog.shop.writer" . }}
  until {{ $kubectl }} exec deployment/{{ include "dblog.sink" . }} -- sink-entrypoint show shop.orders --config /etc/dblog/config/sink.yaml; do sleep 5; done
  helm -n {{ $namespace }} test {{ .Release.Name }} --logs --timeout 10m
{{- else }}

The next three commands follow a database of yours. Say first which one, and by which account (a MariaDB here; README.md of connect-worker has the privileges, MySQL and PostgreSQL):

  DB_HOST=mariadb.example DB_PORT=3306 DB_NAME=shop DB_USER=dblog DB_PASSWORD=secret

1. Forward the port of the REST interface:

  {{ $kubectl }} port-forward service/{{ include "dblog.worker" . }} {{ .Values.worker.ports.rest }} > /dev/null &

2. Post a connector:

  curl -sS --fail-with-body --retry 30 --retry-delay 1 --retry-connrefused{{ if .Values.worker.tls.enabled }} --insecure{{ end }} -H 'Content-Type: application/json'
  {{- if .Values.worker.login.enabled }} \
    -u "$({{ $kubectl }} get secret {{ include "dblog.login.secret" . }} -o go-template={{ printf "'{{index .data %q | base64decode}}:{{index .data %q | base64decode}}'" .Values.worker.login.usernameKey .Values.worker.login.passwordKey }})"
  {{- end }} \
    {{ include "dblog.rest.scheme" . }}://localhost:{{ .Values.worker.ports.rest }}/connectors -d '{"name": "first", "config": {
      "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
      "database.hostname": "'"$DB_HOST"'", "database.port": "'"$DB_PORT"'",
      "database.user": "'"$DB_USER"'", "database.password": "'"$DB_PASSWORD"'",
      "database.server.id": "184054", "topic.prefix": "first", "database.include.list": "'"$DB_NAME"'",
      "schema.history.internal.kafka.bootstrap.servers": "{{ .Values.kafka.bootstrapServers }}",
      "schema.history.internal.kafka.topic": "schemahistory.first"}}'
{{ if $sink }}
3. The sink runs already. Wait until it does, and see what it has brought into Delta (a table of yours, in place of customers):
{{ else }}
3. Submit the sink (with the name of the chart that you have installed), and see what it has brought into Delta (a table of yours, in place of customers):

  helm -n {{ $namespace }} upgrade {{ .Release.Name }} ./helm --reuse-values --set sink.enabled=true
{{- end }}
  {{ $kubectl }} rollout status deployment/{{ include "dblog.sink" . }} --timeout=5m
  until {{ $kubectl }} exec deployment/{{ include "dblog.sink" . }} -- sink-entrypoint show "$DB_NAME.customers" --config /etc/dblog/config/sink.yaml; do sleep 5; done

`helm -n {{ $namespace }} test {{ .Release.Name }}` checks the interface.
{{- end }}
{{- end -}}
