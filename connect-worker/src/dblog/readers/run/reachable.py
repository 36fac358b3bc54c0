"""Checks before a connector is created that its brokers and schema registry answer.

A task would wait for them for a long time, since an absent broker usually comes back; a mistyped
address does not. So the request is refused with the option and the address. The brokers of the
worker itself, and its registry if the configuration adds no login, are not asked: without them the
worker would not run.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dblog.config.clients import beside, connector_client
from dblog.config.framework import CONVERTER_PREFIXES
from dblog.config.named_files import files_in_memory
from dblog.config.options import Settings
from dblog.config.worker import WorkerConfig
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.kafka.converters import converter_of
from dblog.kafka.failures import FailuresHeard
from dblog.kafka.registry import LoginRefusedError, RegistryAccess, RegistryClient
from dblog.readers.signals.signal_file import SignalFileSettings
from dblog.readers.signals.signal_topic import SignalTopicSettings

_ASK_S = 1.0
_REFUSED_S = 2.0
"""Seconds to repeat the question to a broker that refuses the connection: one that restarts does so
for a moment.
"""

_BOOTSTRAP = "schema.history.internal.kafka.bootstrap.servers"


def check_reachable(settings: Settings, worker: WorkerConfig, *, limit_s: float) -> None:
    """Raise ConfigError that names every address without an answer in time, by its option."""
    errors: dict[str, list[str]] = {}
    raised: list[BaseException] = []

    def note(check: Callable[[Settings, WorkerConfig, float], dict[str, str]]) -> None:
        try:
            found = check(settings, worker, limit_s)
        except ConfigError as e:
            found = {name: "; ".join(texts) for name, texts in e.errors.items()}
        except BaseException as e:  # noqa: BLE001  raised again by the caller's thread
            raised.append(e)
            return
        for key, text in found.items():
            errors.setdefault(key, []).append(text)

    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(note, check), name="reachable", daemon=True
        )  # log lines name the connector
        for check in (_brokers, _registries, _signal_file)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    if errors:
        raise ConfigError(errors)


def history_client(settings: Settings, worker: WorkerConfig) -> dict[str, Any]:
    """Return librdkafka's settings for the connection of the schema history.

    Files that the connector names are still to be read (``files_in_memory``).
    """
    workers = worker.client_settings("producer")
    # A connector whose history Debezium does not have keeps it on the worker's brokers.
    if _BOOTSTRAP not in settings:
        return workers
    own = connector_client(settings.originals, "schema.history.internal.producer.")
    return beside(workers, {**own, "bootstrap.servers": settings.text_or_none(_BOOTSTRAP) or workers["bootstrap.servers"]})


def signal_topic(settings: Settings, worker: WorkerConfig) -> SignalTopicSettings | None:
    """Return the settings for signals from a topic; None if that channel is not enabled."""
    if "kafka" not in settings.items_of("signal.enabled.channels"):
        return None
    workers, prefix = worker.client_settings("consumer"), settings.text("topic.prefix")
    own = connector_client(settings.originals, "signal.consumer.")
    servers = settings.text_or_none("signal.kafka.bootstrap.servers") or own.get("bootstrap.servers") or workers["bootstrap.servers"]
    return SignalTopicSettings(
        client=beside(workers, {**own, "bootstrap.servers": servers}),
        topic=settings.text_or_none("signal.kafka.topic") or f"{prefix}-signal",
        group=settings.text("signal.kafka.groupId"),
        key=prefix,
    )


def signal_file(settings: Settings, worker: WorkerConfig) -> SignalFileSettings | None:
    """Return the settings for signals from a file; None if that channel is not enabled.

    Raise ConfigError if the worker's properties name no folder for such files.
    """
    if "file" not in settings.items_of("signal.enabled.channels"):
        return None
    folder = worker.settings.text_or_none("dblog.signal.files.folder")
    if not folder:
        text = "the channel file needs the worker's dblog.signal.files.folder, the folder of such files; its owner has named none"
        raise ConfigError({"signal.enabled.channels": [text]})
    return SignalFileSettings(
        path=Path(folder) / settings.text("signal.file"), interval_s=settings.integer("signal.poll.interval.ms") / 1000
    )


def _signal_file(settings: Settings, worker: WorkerConfig, _limit_s: float) -> dict[str, str]:
    signal_file(settings, worker)
    return {}


def _brokers(settings: Settings, worker: WorkerConfig, limit_s: float) -> dict[str, str]:
    client = history_client(settings, worker)
    if client == worker.client_settings("producer"):
        return {}
    heard = FailuresHeard()
    connection: dict[str, Any] = {**client, "log_level": FailuresHeard.LEVEL}
    began_s = time.monotonic()
    try:
        with files_in_memory(connection) as ready:
            admin = AdminClient(ready, logger=heard)
    except KafkaException as e:
        return {_BOOTSTRAP: f"The connection of the schema history cannot be made: {e.args[0].str()}"}
    while True:
        try:
            admin.list_topics(timeout=_ASK_S)
        except KafkaException as e:
            admin.poll(0)  # passes the log lines to ``heard``
            waited_s = time.monotonic() - began_s
            reason = heard.reason()
            if waited_s >= limit_s or (reason is not None and waited_s >= _REFUSED_S):
                reason = reason or e.args[0].str()
                return {
                    _BOOTSTRAP: f"No broker of the schema history answers at {client['bootstrap.servers']}: {reason}. "
                    f"Check {_BOOTSTRAP}, and schema.history.internal.producer.* where the brokers want a login or TLS"
                }
        else:
            return {}


def _registries(settings: Settings, worker: WorkerConfig, limit_s: float) -> dict[str, str]:
    errors: dict[str, str] = {}
    asked: list[tuple[RegistryAccess, str | None]] = []
    for is_key, part in ((True, "key"), (False, "value")):
        try:
            converter = converter_of(worker.settings.originals, settings.originals, is_key=is_key, own_registry=worker.own_registry)
        except ConfigError as e:
            errors |= {name: "; ".join(texts) for name, texts in e.errors.items()}
            continue
        registry = converter.registry
        if registry is None or _is_own(registry.access, worker):
            continue
        access = registry.access
        # Key and value may go to one registry with different logins.
        answers = [answer for other, answer in asked if other == access] or [_registry_error(registry, limit_s)]
        asked.append((access, answers[0]))
        if answers[0] is not None:
            errors[_registry_key(settings, part)] = answers[0]
    return errors


def _registry_key(settings: Settings, part: str) -> str:
    """Return the key that names the registry: the converter's own, or that of one inside it."""
    keys = [f"{prefix}schema.registry.url" for prefix in CONVERTER_PREFIXES if prefix.startswith(f"{part}.")]
    return next((key for key in keys if settings.originals.get(key)), f"{part}.converter.schema.registry.url")


def _is_own(access: RegistryAccess, worker: WorkerConfig) -> bool:
    """Return True if it is this worker's registry, reached the way that its own tasks
    always can.
    """
    return access.urls == (worker.own_registry.url,) and access.login is None and access.token in (None, "", worker.own_registry.token)


def _registry_error(registry: RegistryClient, limit_s: float) -> str | None:
    try:
        registry.ask_whether_there(limit_s=limit_s)
    except LoginRefusedError as e:
        return (
            f"{e}. Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info=user:password of the converter, here or in the worker's properties; "
            "without the first, the second is not read, and the login is the one in schema.registry.url"
        )
    except (DefiniteError, TransientError) as e:
        return f"{e}. Check the schema.registry.url of the converter, here or in the worker's properties"
    return None
