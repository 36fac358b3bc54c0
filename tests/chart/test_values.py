"""Values: what is misspelt or cannot go together is refused with its path or a sentence, and the reference is what the comments say."""

import importlib
import json
import re
import shlex
import sys

import pytest
import yaml
from chart.rendered import BROKERS, CHART, CONNECTOR_CLASS, MAJORS, PRODUCTION, VALUES, helm, refusal, template

sys.path.append(str(CHART))
reference = importlib.import_module("reference")


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_the_chart_has_nothing_to_complain_of(file, major):
    done = helm("lint", "--strict", CHART, "-f", file, major=major)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


MISSPELT = [
    ("worker.replcaCount=3", "replcaCount"),
    ("woker.replicas=3", "woker"),
    ("worker.replicas=0", "/worker/replicas"),
    ("worker.replicas=two", "/worker/replicas"),
    ("worker.image.pulPolicy=Always", "pulPolicy"),
    ("worker.image.pullPolicy=always", "/worker/image/pullPolicy"),
    ("worker.image.digest=1234", "/worker/image/digest"),
    ("worker.memoryMiB=2Gi", "/worker/memoryMiB"),
    ("worker.login.enabled=maybe", "/worker/login/enabled"),
    ("worker.service.type=NodePort", "/worker/service/type"),
    ("worker.logLevel=verbose", "/worker/logLevel"),
    ("worker.livenessProbe.failurethreshold=1", "failurethreshold"),
    ("worker.pdb.minAvail=1", "minAvail"),
    ("kafka.bootstrapservers=b:9092", "bootstrapservers"),
    ("kafka.securityProtocol=SSL_SASL", "/kafka/securityProtocol"),
    ("kafka.sasl.mechanism=GSSAPI", "/kafka/sasl/mechanism"),
    ("connectors.a.confg.x=1", "confg"),
    ("connectors.a.config.x=1,connectors.a.state=runing", "/connectors/a/state"),
    ("reconciler.everySeconds=600", "/reconciler/everySeconds"),
    ("sink.kind=Daemon", "/sink/kind"),
    ("sink.master=yarn", "/sink/master"),
    ("sink.s3.endpont=x", "endpont"),
    ("sink.s3.lockTable=x", "lockTable"),
    ("sink.s3.logStore=dynamodb", "/sink/s3/logStore"),
    ("ingress.enabled=yes", "/ingress/enabled"),
    ("tracing.sampleRatio=2", "/tracing/sampleRatio"),
    ("monitoring.podMonitor.sampleLimit=-1", "/monitoring/podMonitor/sampleLimit"),
    ("global.imageregistry=x", "imageregistry"),
    ("connectorConfigMaps={a,a}", "/connectorConfigMaps"),
    ("connectorSecrets={a,a}", "/connectorSecrets"),
    ("sink.secrets={a,a}", "/sink/secrets"),
]


@pytest.mark.parametrize(("given", "named"), MISSPELT)
def test_a_wrong_value_is_refused_with_its_path(given, named):
    done = helm("lint", CHART, "--set", BROKERS, "--set", given)

    assert done.returncode != 0
    assert named in done.stdout + done.stderr


def test_helm_3_names_the_path_too():
    done = helm("lint", CHART, "--set", BROKERS, "--set", "worker.replcaCount=3", major=3)

    assert done.returncode != 0
    assert "replcaCount" in done.stdout + done.stderr


MOUNTED = {"name": "from-elsewhere", "mountPath": "/etc/dblog/secrets/a"}
SINK = {"enabled": True, "topics": "a", "tablesPath": "s3a://b/t", "checkpointPath": "s3a://b/c", "s3": {"enabled": True}}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kafka": {}, "broker": {"enabled": False}}, "kafka.bootstrapServers is required"),
        ({"tracing": {"enabled": True}}, "tracing.endpoint is required by tracing.enabled"),
        ({"tracing": {"enabled": True, "endpoint": "collector:4318"}}, "tracing.endpoint is required by tracing.enabled"),
        ({"kafka": {"bootstrapServers": "b:1", "securityProtocol": "SASL_SSL"}}, "name its Secret in kafka.sasl.existingSecret"),
        ({"kafka": {"bootstrapServers": "b:1", "sasl": {"existingSecret": "s"}}}, "kafka.securityProtocol=PLAINTEXT uses none"),
        ({"kafka": {"bootstrapServers": "b:1", "tls": {"existingSecret": "s"}}}, "kafka.tls has certificates"),
        (
            {
                "kafka": {
                    "bootstrapServers": "b:1",
                    "securityProtocol": "SASL_SSL",
                    "sasl": {"mechanism": "OAUTHBEARER", "existingSecret": "s"},
                }
            },
            "needs kafka.sasl.oauth.tokenEndpointUrl",
        ),
        (
            {"kafka": {"bootstrapServers": "b:1", "securityProtocol": "SSL", "tls": {"existingSecret": "s", "certKey": "c"}}},
            "needs certKey and keyKey",
        ),
        ({"kafka": {"bootstrapServers": "b:1", "sasl": {"password": "x"}}}, "kafka.sasl.password stands in the values"),
        ({"worker": {"login": {"password": "x"}}}, "worker.login.password stands in the values"),
        ({"registry": {"existingSecret": "s"}}, "registry has a Secret and no url"),
        ({"worker": {"terminationGracePeriodSeconds": 39}}, "must be at least 20 more than worker.taskShutdownSeconds=20"),
        ({"worker": {"pdb": {"minAvailable": 2}}}, "would let no node be drained"),
        ({"worker": {"pdb": {"minAvailable": "100%"}}}, "would let no node be drained"),
        ({"worker": {"pdb": {"maxUnavailable": 0}}}, "would let no node be drained"),
        ({"worker": {"connectorsMax": 1}, "connectors": {name: {"config": {"a": "b"}} for name in "xy"}}, "worker.connectorsMax=1"),
        ({"worker": {"tls": {"enabled": True}}}, "worker.tls.existingSecret is required"),
        (
            {"connectors": {"shop": {"config": {"database.password": "sesame"}}}},
            'connectors.shop.config has a secret in "database.password"',
        ),
        (
            {"connectors": {"shop": {"config": {"database.password": "${dir:/etc/dblog/secrets/shop-db:password}"}}}},
            'connectors.shop.config reads the Secret shop-db in "database.password", which is not mounted; name it in connectorSecrets',
        ),
        (
            {
                "connectorSecrets": ["shop"],
                "connectors": {"shop": {"config": {"x": "${file:/etc/dblog/secrets/shop-tls/ca.properties:y}"}}},
            },
            "reads the Secret shop-tls",
        ),
        ({"connectors": {"shop": {"config": {"url": "https://a:b@c"}}}}, 'has a secret in "url"'),
        ({"worker": {"config": {"producer.sasl.password": "sesame"}}}, 'worker.config has a secret in "producer.sasl.password"'),
        ({"worker": {"config": {"key.converter.basic.auth.user.info": "a:sesame"}}}, "worker.config has a secret in"),
        ({"sink": {**SINK, "config": {"spark.hadoop.fs.s3a.secret.key": "sesame"}}}, 'sink.config has a secret in "spark.hadoop.fs.s3a'),
        ({"sink": {**SINK, "config": {"registry.auth": "a:sesame"}}}, "write ${file:/etc/dblog/secrets/SECRET/KEY}"),
        ({"connectors": {"shop": {"config": {"dblog.owner": "me"}}}}, "use reconciler.owner"),
        ({"ingress": {"enabled": True, "host": "h", "tlsSecret": "t"}, "worker": {"login": {"enabled": False}}}, "asks nobody for a login"),
        (
            {"httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}, "worker": {"login": {"enabled": False}}},
            "asks nobody for a login",
        ),
        ({"worker": {"service": {"type": "LoadBalancer"}, "login": {"enabled": False}}}, "asks nobody for a login"),
        ({"worker": {"service": {"type": "LoadBalancer"}}}, "needs worker.tls.enabled"),
        ({"ingress": {"enabled": True, "tlsSecret": "t"}}, "ingress.host is required"),
        ({"ingress": {"enabled": True, "host": "h"}}, "ingress.tlsSecret is required"),
        ({"sink": {**SINK, "tablesPath": ""}}, "sink.tablesPath is required"),
        ({"sink": {**SINK, "checkpointPath": ""}}, "sink.checkpointPath is required"),
        ({"sink": {**SINK, "topicsPattern": "x"}}, "one of the two"),
        ({"sink": {**SINK, "tablesPath": "/lake/t"}}, "a path in the pod, which goes with the pod"),
        ({"sink": {**SINK, "tablesPath": "/else/t", "persistence": {"enabled": True}}}, "is not on the volume"),
        ({"sink": {**SINK, "checkpointPath": "relative"}}, "is no absolute path and no URL"),
        ({"sink": {**SINK, "s3": {}}}, "set sink.s3.enabled=true"),
        ({"sink": {**SINK, "tablesPath": "s3://b/t"}}, "sink.tablesPath=s3://b/t: the image has a client for s3a: alone; write s3a://b/t"),
        ({"sink": {**SINK, "checkpointPath": "s3n://b/c"}}, "write s3a://b/c"),
        ({"sink": {**SINK, "kind": "SparkApplication", "dnsPolicy": "None"}}, "a SparkApplication has no field for it"),
        ({"sink": {**SINK, "kind": "SparkApplication", "resources": {"limits": {"cpu": 2}}}}, "sink.resources is set"),
        ({"sink": {**SINK, "kind": "SparkApplication", "ephemeralStorageRequest": "5Gi"}}, "sink.ephemeralStorageRequest is set"),
        ({"sink": {**SINK, "schedule": "0 * * * *"}}, "sink.schedule is of a Job"),
        ({"sink": {**SINK, "master": "k8s://x", "persistence": {"enabled": True}}}, "needs ReadWriteMany"),
    ],
)
def test_what_cannot_go_together_is_refused_with_a_sentence(values, sentence):
    message = refusal(**values)

    assert sentence in message
    assert "nil pointer" not in message
    assert "sesame" not in message


def test_an_old_kubernetes_is_refused_and_a_clouds_suffix_is_not():
    assert template("--set", BROKERS, kubernetes="1.28.9-eks-1").returncode != 0
    assert template("--set", BROKERS, kubernetes="1.29.1-eks-1").returncode == 0


def test_schema_and_readme_are_what_the_comments_say():
    values = (CHART / "values.yaml").read_text()

    for path, made in reference.made(values, (CHART / "README.md").read_text()).items():
        assert path.read_text() == made, f"{path.name} is not what values.yaml says: run make chart"


def test_every_value_has_a_description_and_every_level_takes_no_unknown_key():
    found = reference.values((CHART / "values.yaml").read_text())
    assert [".".join(value.path) for value in found if not value.is_group and not value.doc] == []

    def closed(part, path=""):
        for name, inner in part.get("properties", {}).items():
            if "properties" in inner:
                assert inner["additionalProperties"] is False, f"{path}{name}"
                closed(inner, f"{path}{name}.")

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    closed(schema)
    leaves = {value.path for value in found}
    assert {("worker", "image", "digest"), ("global", "imageRegistry"), ("sink", "s3", "logStore")} <= leaves


def test_a_value_that_was_changed_by_hand_in_the_readme_is_found():
    values, readme = (CHART / "values.yaml").read_text(), (CHART / "README.md").read_text()
    changed = readme.replace("`worker.connectorsMax` | `8`", "`worker.connectorsMax` | `9`")

    assert changed != readme
    assert reference.made(values, changed)[reference.README] == readme


def test_the_names_that_users_of_charts_know_are_there():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    assert {"nameOverride", "fullnameOverride", "commonLabels", "commonAnnotations", "extraDeploy", "diagnosticMode", "global"} <= set(
        defaults
    )
    known = {
        "image",
        "podAnnotations",
        "podLabels",
        "extraEnvVars",
        "extraEnvVarsCM",
        "extraEnvVarsSecret",
        "extraVolumes",
        "extraVolumeMounts",
    }
    for part in ("worker", "sink"):
        assert known | {
            "affinity",
            "nodeSelector",
            "tolerations",
            "initContainers",
            "sidecars",
            "lifecycle",
            "hostAliases",
            "dnsConfig",
        } <= set(defaults[part])


def test_a_placeholder_and_inline_secrets_that_are_allowed_are_taken():
    config = {"connector.class": CONNECTOR_CLASS, "database.password": "${file:/etc/dblog/secrets/a/b.properties:c}"}
    given = {"kafka": {"bootstrapServers": "b:1"}, "connectorSecrets": ["a"], "connectors": {"a": {"config": config}}}

    assert template(values=given).returncode == 0
    assert template(values={**given, "connectorSecrets": [], "worker": {"extraVolumeMounts": [MOUNTED]}}).returncode == 0
    config["database.password"] = "sesame"
    assert template(values={**given, "allowInlineSecrets": True}).returncode == 0


def test_another_client_of_s3_may_have_its_own_scheme():
    sink = {**SINK, "tablesPath": "s3://b/t", "checkpointPath": "s3://b/c"}
    config = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    done = template(values={"kafka": {"bootstrapServers": "b:1"}, "sink": {**sink, "config": config}})

    assert done.returncode == 0, done.stderr


def test_what_only_has_the_name_of_a_secret_is_taken():
    worker = {
        "config": {
            "dblog.rest.config.secrets": "nobody",
            "key.converter.basic.auth.credentials.source": "USER_INFO",
            "producer.sasl.oauthbearer.token.endpoint.url": "https://id.example/t",
            "producer.sasl.password": "${dir:/etc/dblog/secrets/a:b}",
        }
    }
    sink = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.Provider",
        "spark.kubernetes.executor.secretKeyRef.KEY": "name:key",
        "registry.auth": "${file:/etc/dblog/secrets/a/user}:${file:/etc/dblog/secrets/a/password}",
    }
    done = template(values={"kafka": {"bootstrapServers": "b:1"}, "worker": worker, "sink": {**SINK, "config": sink}})

    assert done.returncode == 0, done.stderr


def test_the_chart_names_its_images_and_changes():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["kubeVersion"].endswith("-0")
    images = {image["image"] for image in yaml.safe_load(chart["annotations"]["artifacthub.io/images"])}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    others = [values[part]["image"] for part in ("broker", "demo")]
    assert images == {
        f"dblog-worker:{chart['appVersion']}",
        f"dblog-sink:{chart['appVersion']}",
        *(f"{image['registry']}/{image['repository']}@{image['digest']}" for image in others),
    }
    assert yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert f"## {chart['version']}" in (CHART / "CHANGELOG.md").read_text()


def test_the_commands_of_the_readme_install_and_name_what_is_installed():
    readme = (CHART / "README.md").read_text()
    installs = re.findall(r"^    (helm install \S+ \./helm .*)$", readme, re.MULTILINE)
    assert len(installs) == 3
    for install in installs:
        words = [{"./helm": str(CHART), "values-production.yaml": str(PRODUCTION)}.get(word, word) for word in shlex.split(install)[1:]]
        done = helm(*words, "--dry-run=client")
        assert done.returncode == 0, done.stderr
    first = helm(*[str(CHART) if word == "./helm" else word for word in shlex.split(installs[0])[1:]], "--dry-run=client")
    items = [item for item in yaml.safe_load_all(first.stdout.split("MANIFEST:")[1].split("NOTES:")[0]) if item]
    made = {f"{item['kind'].lower()}/{item['metadata']['name']}": item for item in items}

    assert set(re.findall(r"(?:statefulset|deployment)/[\w-]+", readme)) <= set(made)
    assert set(re.findall(r"\.data\.(\w+)", readme)) <= set(made["secret/dblog-rest-login"]["data"])
    assert "service/dblog-worker" in made
