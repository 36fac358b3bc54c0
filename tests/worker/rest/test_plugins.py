"""`/connector-plugins`: the list, the keys and the validation answer (KIP-769 and the validation of Kafka's REST API)."""

from support.worker import connector_config

MYSQL = "io.debezium.connector.mysql.MySqlConnector"
FRAMEWORK = """name, connector.class, connector.plugin.version, tasks.max, tasks.max.enforce,
key.converter, key.converter.plugin.version, value.converter, value.converter.plugin.version,
header.converter, header.converter.plugin.version, transforms, predicates, config.action.reload,
errors.retry.timeout, errors.retry.delay.max.ms, errors.tolerance, errors.log.enable, errors.log.include.messages,
topic.creation.groups, exactly.once.support, transaction.boundary, transaction.boundary.interval.ms, offsets.storage.topic"""
FRAMEWORK_NAMES = [name.strip() for name in FRAMEWORK.replace("\n", " ").split(",")]


def validate(worker, config, plugin="MySqlConnector"):
    return worker.client.put(f"/connector-plugins/{plugin}/config/validate", json=config)


def errors_of(answer):
    return {entry["value"]["name"]: entry["value"]["errors"] for entry in answer.json()["configs"] if entry["value"]["errors"]}


def test_the_connectors_are_listed(worker):
    assert worker.client.get("/connector-plugins").json() == [
        {"class": "io.debezium.connector.mariadb.MariaDbConnector", "type": "source", "version": "3.6.3.Final"},
        {"class": MYSQL, "type": "source", "version": "3.6.3.Final"},
        {"class": "io.debezium.connector.postgresql.PostgresConnector", "type": "source", "version": "3.6.3.Final"},
    ]


def test_all_plugins_are_listed_by_type(worker):
    types = [plugin["type"] for plugin in worker.client.get("/connector-plugins?connectorsOnly=false").json()]

    assert list(dict.fromkeys(types)) == ["source", "transformation", "predicate", "converter", "header_converter"]


def test_a_plugins_keys_come_before_the_frameworks(worker):
    keys = [entry["name"] for entry in worker.client.get("/connector-plugins/MySql/config").json()]

    assert keys[0] == "topic.prefix"
    assert keys[-len(FRAMEWORK_NAMES) :] == FRAMEWORK_NAMES
    converter = worker.client.get("/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config").json()
    assert converter[0]["name"] == "schemas.enable"
    answer = worker.client.get("/connector-plugins/Nope/config")
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown plugin Nope.")
    assert worker.client.get("/connector-plugins/MySql/config?version=1.0").status_code == 400


def test_transforms_and_predicates_are_plugins_with_keys_of_their_own(worker):
    plugins = worker.client.get("/connector-plugins?connectorsOnly=false").json()
    replace = {"class": "org.apache.kafka.connect.transforms.ReplaceField$Value", "type": "transformation", "version": "4.3.0"}

    assert replace in plugins
    assert {"class": "io.debezium.transforms.Filter", "type": "transformation", "version": "3.6.3.Final"} in plugins
    keys = worker.client.get(f"/connector-plugins/{replace['class']}/config").json()
    assert [entry["name"] for entry in keys] == ["exclude", "include", "renames", "replace.null.with.default"]
    assert worker.client.get("/connector-plugins/TopicNameMatches/config").json()[0]["name"] == "pattern"


def test_the_keys_of_an_alias_are_shown_in_a_group_of_their_own_and_checked(worker):
    config = connector_config(
        name="a",
        transforms="unwrap",
        **{
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "gone",
        },
    )
    body = validate(worker, config).json()
    shown = {entry["value"]["name"]: entry for entry in body["configs"]}

    assert "Transforms: unwrap" in body["groups"]
    assert shown["transforms.unwrap.type"]["definition"]["order"] == 1
    assert "org.apache.kafka.connect.transforms.RegexRouter" in shown["transforms.unwrap.type"]["value"]["recommended_values"]
    wrong = shown["transforms.unwrap.delete.tombstone.handling.mode"]["value"]["errors"]
    assert wrong[0].startswith(
        "Invalid value gone for configuration transforms.unwrap.delete.tombstone.handling.mode: String must be one of"
    )
    refused = worker.client.post("/connectors", json={"name": "a", "config": config})
    assert (refused.status_code, wrong[0] in refused.json()["message"]) == (400, True)


def test_validate_shows_every_key_with_the_frameworks_first(worker):
    answer = validate(worker, connector_config(name="a"))

    body = answer.json()
    assert answer.status_code == 200
    assert (body["name"], body["error_count"]) == (MYSQL, 0)
    assert [entry["definition"]["name"] for entry in body["configs"]][: len(FRAMEWORK_NAMES)] == FRAMEWORK_NAMES
    assert body["groups"][:7] == [
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    ]


def test_a_definition_has_both_orders(worker):
    entries = {entry["value"]["name"]: entry for entry in validate(worker, connector_config(name="a", tasks_max="abc")).json()["configs"]}

    tasks_max = entries["tasks.max"]
    assert tasks_max["value"] == {
        "name": "tasks.max",
        "value": "abc",
        "recommended_values": [],
        "errors": ["Invalid value abc for configuration tasks.max: Not a number of type INT"],
        "visible": True,
    }
    definition = tasks_max["definition"]
    assert definition.pop("documentation")
    assert definition == {
        "name": "tasks.max",
        "type": "INT",
        "required": False,
        "default_value": "1",
        "importance": "HIGH",
        "group": "Common",
        "order": 4,
        "order_in_group": 4,
        "width": "SHORT",
        "display_name": "Tasks max",
        "dependents": [],
    }


def test_errors_are_counted_and_answered_with_200(worker):
    answer = validate(worker, {"connector.class": MYSQL, "name": "a"})

    assert answer.status_code == 200
    errors = errors_of(answer)
    assert errors["topic.prefix"] == ["The 'topic.prefix' value is invalid: A value is required"]
    assert answer.json()["error_count"] == sum(map(len, errors.values()))


def test_passwords_are_hidden_and_unknown_keys_left_out(worker):
    answer = validate(worker, connector_config(name="a", my_own="x", **{"producer.override.ssl.key.password": "hush-hush"}))

    assert "sesame-open" not in answer.text
    assert "hush-hush" not in answer.text
    names = [entry["value"]["name"] for entry in answer.json()["configs"]]
    assert "my.own" not in names
    assert "producer.override.ssl.key.password" in names


def test_what_this_worker_does_not_do_is_refused_by_name(worker):
    config = connector_config(
        name="a",
        transforms="unwrap",
        **{
            "transforms.unwrap.type": "io.debezium.transforms.tracing.ActivateTracingSpan",
            "exactly.once.support": "required",
            "snapshot.mode": "custom",
            "column.mask.with.many.chars": "shop.customers.email",
            "message.key.columns": "shop.t",
        },
    )

    errors = errors_of(validate(worker, config))

    assert set(errors) == {
        "transforms.unwrap.type",
        "exactly.once.support",
        "snapshot.mode",
        "column.mask.with.many.chars",
        "message.key.columns",
    }
    assert errors["exactly.once.support"] == [
        "Invalid value required for configuration exactly.once.support: This worker does not have exactly-once source support enabled."
    ]


def test_topic_creation_is_checked_before_the_connector_is_made(worker):
    errors = errors_of(validate(worker, connector_config(name="a", **{"topic.creation.default.partitions": "many"})))

    assert errors == {
        "topic.creation.default.replication.factor": [
            'Missing required configuration "topic.creation.default.replication.factor" which has no default value.'
        ],
        "topic.creation.default.partitions": [
            "Invalid value many for configuration topic.creation.default.partitions: Not a number of type INT"
        ],
    }


def test_the_class_must_match_the_path(worker):
    answer = validate(worker, connector_config(name="a"), plugin="MariaDbConnector")

    assert answer.status_code == 400
    assert answer.json()["message"] == f"Included connector type {MYSQL} does not match request type MariaDbConnector"
    assert validate(worker, connector_config(name="a"), plugin=MYSQL).status_code == 200
    assert validate(worker, {"name": "a"}).status_code == 400
    assert validate(worker, {"name": "a", "connector.class": "Nope"}, plugin="Nope").status_code == 400


def test_validate_names_unknown_keys_without_calling_the_configuration_invalid(worker):
    answer = validate(worker, {**connector_config(name="a"), "databse.include.list": "inventory", "databas.password": "canary"})

    body = answer.json()
    entries = {entry["value"]["name"]: entry for entry in body["configs"]}
    assert body["error_count"] == 0
    assert entries["databse.include.list"]["value"]["recommended_values"] == ["database.include.list"]
    assert entries["databas.password"]["value"]["recommended_values"] == ["database.password"]
    assert "canary" not in answer.text


def test_brokers_of_the_history_that_do_not_answer_are_found_before_the_connector_is_made_beside_the_errors_of_the_database(worker, name):
    away = {"schema.history.internal.kafka.bootstrap.servers": "127.0.0.1:9", "dummy.reachable": "true", "database.hostname": "strict"}

    refused = worker.client.post("/connectors", json={"name": name, "config": connector_config() | away})
    errors = errors_of(validate(worker, connector_config(name=name) | away))

    assert refused.status_code == 400
    assert "No broker of the schema history answers at 127.0.0.1:9" in refused.json()["message"]
    assert "GRANT REPLICATION SLAVE" in refused.json()["message"]
    assert set(errors) == {"schema.history.internal.kafka.bootstrap.servers", "database.user"}
    assert worker.client.get(f"/connectors/{name}").status_code == 404
