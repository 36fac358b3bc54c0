"""Checks whether a connector's configuration can be accepted: its options, its secrets, and the
database that it names.

The check of the database is passed in, because only the composition root knows the dialects. It may
take as long as the database does, so this runs in REST's worker threads and never in the herder's.
No resolved secret leaves this module: texts have them replaced.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from dblog.abort import Abort
from dblog.cluster.config_size import require_bounded, require_few
from dblog.cluster.remarks import Remarks, ordinary, remarks_on, written_out
from dblog.cluster.requests import RequestError, bad_request
from dblog.config.clients import check_connector_clients
from dblog.config.connector import check_connector
from dblog.config.hosts import check_hosts
from dblog.config.infos import config_infos
from dblog.config.named_files import hidden_from_log
from dblog.config.options import Checked, Properties, Settings
from dblog.config.overrides import OverridePolicy
from dblog.config.placeholders import refused_placeholders
from dblog.config.plugins import CONNECTORS, Plugin, find_connector
from dblog.config.providers import Provider, Resolution, resolve
from dblog.config.secret_values import shown_name
from dblog.config.secrets import secrets_of
from dblog.config.unknown_keys import unknown_keys
from dblog.config.worker import WorkerConfig
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.observe.hidden import Hidden, forms_of
from dblog.readers.reserved_topics import check_topics
from dblog.transforms.configuration import Configured, configured

DatabaseCheck = Callable[[str, Settings, float, Abort], Sequence[str] | None]
"""Connects to the database and checks it. Returns warnings.

Arguments are the flavor, the settings, a limit in seconds, and an ``Abort`` that cuts connections.
Raises ConfigError to name options, else DefiniteError or TransientError.
"""

ReachableCheck = Callable[[Settings, WorkerConfig, float], None]
"""Asks brokers and registry. Raises ConfigError naming the options of those that do not answer.

Arguments are the connector's settings, the worker's configuration, and a limit in seconds.
"""

_UNNAMED = "unnamed"
_REACHABLE_LIMIT_S = 10.0
_LIMIT_KEY = "connection.validation.timeout.ms"
_LIMIT_MAX_S = 60.0
"""Default and maximum of connection.validation.timeout.ms, so that a posted configuration cannot
keep a thread for longer.
"""
_CUT_AGAIN_S = 0.25
_CUT_LIMIT_S = 20.0
"""Time to wait after an abort. A name service may be slow to fail, and cannot be cut off."""

_QUOTED_CHARS_MAX = 100
"""Characters of a value in an error."""

_DATABASE_KEY = "database.hostname"
"""The option under which Debezium reports the database's answer."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Outcome of a validation: the endpoint's answer, all error messages by option, and remarks."""

    infos: dict[str, Any]
    errors: dict[str, list[str]]
    remarks: Remarks

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of all remarks."""
        return self.remarks.texts


class Validator:
    """Validates configurations against this worker's plugins and providers."""

    def __init__(
        self,
        *,
        providers: Mapping[str, Provider],
        hidden: Mapping[str, str] | None = None,
        check_database: DatabaseCheck | None,
        check_reachable: Callable[[Settings, float], None] | None = None,
        override_policy: OverridePolicy | None = None,
        allowed_hosts: Sequence[str] = (),
        worker_topics: Mapping[str, str] | None = None,
    ) -> None:
        """Create the validator.

        ``worker_topics`` maps topics that no connector may write to the worker's options that name
        them.
        """
        self._providers = providers
        self._hidden = dict(hidden or {})
        self._check_database = check_database
        self._check_reachable = check_reachable
        self._override_policy = override_policy or OverridePolicy()
        self._allowed_hosts = allowed_hosts
        self._worker_topics = worker_topics or {}
        # Checks that only compute run one at a time. In parallel they would not be faster, and each
        # would slow the threads that answer requests.
        self._computing = threading.Lock()

    def validate(self, properties: Properties) -> Validation:
        """Return the outcome for a configuration.

        Raise RequestError 400 if its class is unknown.
        """
        with _named(properties):
            return self._validated(properties)

    def _validated(self, properties: Properties) -> Validation:
        require_bounded(properties)
        plugin = connector_of(properties)
        read = plugin.read_keys(properties)
        shown = refused_placeholders(plugin.options, read)
        resolution = resolve({name: text for name, text in read.items() if name not in shown}, self._providers)
        require_few(secrets_of(resolution, properties, plugin.options))
        with self._computing:
            transforms = configured(
                {**read, **{name: text for name, text in resolution.values.items() if name not in shown}}, shown=resolution.placeholders
            )
            checked, errors, unknown = self._checked_here(plugin, read, resolution, shown, transforms)
            hide_own = hide = hider(resolution, properties, plugin)
            usual = [hide_own(text) for text in ordinary(plugin, properties)]
            found = [text for text in map(hide_own, remarks_on(plugin, properties)) if text not in usual]
            # a form that is being filled in: everything else is checked
            if errors.keys() == {"name"} and "name" not in properties:
                checked = check_connector(plugin.options, {**resolution.values, "name": _UNNAMED}, shown=resolution.placeholders)
        if not checked.errors and errors.keys() <= {"name"}:
            errors |= check_topics(Settings(checked.values, resolution.values), self._worker_topics)
        if not checked.errors and errors.keys() <= {"name"}:
            # Answers of servers may quote the worker's own logins, so these are hidden as well.
            # Messages found so far quote only the request.
            hide = hider(resolution, properties, plugin, of_worker=self._hidden)
            with hidden_from_log(hide):
                answered, by_database = self._asked_outside(plugin, Settings(checked.values, resolution.values))
            errors |= answered
            found += map(hide, by_database)
            usual += written_out(plugin, properties, self._providers)
        with self._computing:
            # An option name made from a value, such as topic.creation.<group>.include, may contain
            # the value of a placeholder.
            errors = {name if name in properties else hide(name): texts for name, texts in errors.items()}
            errors = {name: [_shortened(hide(text), hide(properties.get(name) or "")) for text in texts] for name, texts in errors.items()}
            options = (*transforms.options, *plugin.options)
            infos = config_infos(str(properties["connector.class"]).strip(), options, read, errors, unknown=unknown)
        return Validation(infos, errors, Remarks(doubts=tuple(found), ordinary=tuple(usual)))

    def _checked_here(
        self, plugin: Plugin, properties: Properties, resolution: Resolution, shown: Mapping[str, list[str]], transforms: Configured
    ) -> tuple[Checked, dict[str, list[str]], dict[str, str | None]]:
        """Return values, messages and unknown names as far as they are known without asking a
        server.

        ``shown`` are the messages about placeholders that are not resolved.
        """
        # Nulls stay in, because the checks report them.
        resolved: dict[str, str | None] = {name: properties[name] if name in shown else resolution.values.get(name) for name in properties}
        checked = check_connector(plugin.options, resolved, shown=resolution.placeholders)
        errors = {name: list(texts) for name, texts in checked.errors.items() if name not in resolution.errors}
        for name, texts in resolution.errors.items():
            errors.setdefault(name, []).extend(texts)
        errors |= shown
        for refused in (
            {name: list(texts) for name, texts in transforms.errors.items()},
            check_connector_clients(resolution.values, self._override_policy),
            check_hosts(resolution.values, self._allowed_hosts),
        ):
            for name, texts in refused.items():
                errors.setdefault(name, []).extend(texts)
        unknown = unknown_keys((*plugin.options, *transforms.options), properties)
        for name, meant in unknown.items():
            # The value may be missing because its name is misspelt.
            if meant in errors and meant not in properties:
                errors[meant] = [f"{text} (there is {shown_name(name)}, which is not a key; is {meant} meant?)" for text in errors[meant]]
        return checked, errors, unknown

    def require_valid(self, properties: Properties) -> Remarks:
        """Return the remarks on a valid configuration.

        Raise RequestError 400 with Connect's text otherwise.
        """
        outcome = self.validate(properties)
        errors = outcome.errors
        count = sum(len(texts) for texts in errors.values())
        if count:
            lines = [f"Connector configuration is invalid and contains the following {count} error(s):"]
            lines += [text for texts in errors.values() for text in texts]
            lines.append("You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`")
            raise bad_request("\n".join(lines))
        return outcome.remarks

    def resolved(self, properties: Properties, *, asked: Sequence[str] = ()) -> tuple[dict[str, str], Callable[[str], str]]:
        """Return the configuration with its secrets, and a function that removes them from texts.

        ``asked`` are other texts of the request.
        """
        plugin = connector_of(properties)
        with _named(properties):
            resolution = resolve(plugin.read_keys(properties), self._providers)
        if resolution.errors:
            raise ConfigError({name: list(texts) for name, texts in resolution.errors.items()})
        values = {name: value for name in properties if (value := resolution.values.get(name)) is not None}
        return values, hider(resolution, properties, plugin, of_worker=self._hidden, asked=asked)

    def _asked_outside(self, plugin: Plugin, settings: Settings) -> tuple[dict[str, list[str]], Sequence[str]]:
        """Return errors and warnings of database, brokers and registry, asked in parallel."""
        found: list[dict[str, list[str]]] = []
        raised: list[BaseException] = []

        def ask() -> None:
            try:
                found.append(self._reachable_errors(settings))
            except BaseException as e:  # noqa: BLE001  raised again by the request's thread
                raised.append(e)

        asking = threading.Thread(target=contextvars.copy_context().run, args=(ask,), name="reachable", daemon=True)
        asking.start()
        errors: dict[str, list[str]] = {}
        warnings: Sequence[str] = ()
        if self._check_database is not None:
            errors, warnings = self._asked_database(self._check_database, plugin, settings)
        asking.join()
        if raised:
            raise raised[0]
        for more in found:
            for name, texts in more.items():
                errors.setdefault(name, []).extend(texts)
        return errors, warnings

    def _reachable_errors(self, settings: Settings) -> dict[str, list[str]]:
        if self._check_reachable is None:
            return {}
        try:
            self._check_reachable(settings, min(_REACHABLE_LIMIT_S, settings.integer("connection.validation.timeout.ms") / 1000))
        except ConfigError as e:
            return {name: list(texts) for name, texts in e.errors.items()}
        return {}

    @staticmethod
    def _asked_database(check: DatabaseCheck, plugin: Plugin, settings: Settings) -> tuple[dict[str, list[str]], Sequence[str]]:
        try:
            warnings = within_limit(
                lambda limit_s, abort: check(plugin.flavor, settings, limit_s, abort),
                limit_of(settings.originals),
                late="the database did not answer",
                remedy="check that database.hostname and database.port lead to it, and that nothing between drops packets",
            )
        except ConfigError as e:
            return {name: list(texts) for name, texts in e.errors.items()}, ()
        except (DefiniteError, TransientError) as e:
            return {_DATABASE_KEY: [f"Error while validating connector config: {e}"]}, ()
        return {}, warnings or ()


def _named(properties: Properties) -> AbstractContextManager[Any]:
    """Add the connector's name to log lines written in this context and in threads it starts."""
    name = properties.get("name")
    return structlog.contextvars.bound_contextvars(**({"connector": name} if name else {}))


T = TypeVar("T")


def limit_of(properties: Mapping[str, str]) -> float:
    """Return the time limit of a connector's checks in seconds, from its configuration."""
    text = properties.get(_LIMIT_KEY, "").strip()
    return min(int(text[-18:]) / 1000, _LIMIT_MAX_S) if text.isascii() and text.isdigit() else _LIMIT_MAX_S


def within_limit(work: Callable[[float, Abort], T], limit_s: float, *, late: str, remedy: str) -> T:
    """Run work that waits for other systems, and cut it off after the limit.

    Work that hangs then raises TransientError with ``late`` and ``remedy``. Return when the work's
    thread has ended, so that repeated requests leave no threads and sockets.
    """
    done: list[T] = []
    raised: list[BaseException] = []
    abort = Abort()

    def run() -> None:
        try:
            done.append(work(limit_s, abort))
        except BaseException as e:  # noqa: BLE001  raised again by the caller's thread
            raised.append(e)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="within-limit", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        given_up_s = time.monotonic() + _CUT_LIMIT_S
        while thread.is_alive() and time.monotonic() < given_up_s:
            abort.call()
            thread.join(_CUT_AGAIN_S)
        raise TransientError(f"{late} within {limit_s * 1000:.0f} ms ({_LIMIT_KEY}); {remedy}")
    if raised:
        raise raised[0]
    return done[0]


def connector_of(properties: Properties) -> Plugin:
    """Return the plugin that a configuration names. Raise Connect's 400 if there is none."""
    name = properties.get("connector.class")
    if name is None or not name.strip():
        raise bad_request("Connector config contains no connector type")
    plugin = find_connector(name)
    if plugin is None:
        raise unknown_class(name)
    return plugin


def unknown_class(name: str) -> RequestError:
    """Return the 400 for a class that this worker lacks."""
    known = ", ".join(
        f"PluginDesc{{klass=class {plugin.class_name}, name='{plugin.class_name}', version='{plugin.version}', "
        f"encodedVersion={plugin.version}, type={plugin.type}, typeName='{plugin.type}', location='dblog'}}"
        for plugin in CONNECTORS
    )
    return bad_request(
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: {known}"
    )


def hider(
    resolution: Resolution,
    properties: Mapping[str, str | None],
    plugin: Plugin,
    *,
    of_worker: Mapping[str, str] | None = None,
    asked: Iterable[str] = (),
) -> Callable[[str], str]:
    """Return a function that removes all secrets of a configuration and of the worker's file from a
    text.

    Values of providers become placeholders, others ``[hidden]``. Secrets of the worker that stand
    in the configuration or in ``asked`` stay. An error quotes what was posted; if part of a long
    list were hidden there, the caller could learn the worker's passwords by posting lists.
    """
    posted = "\n".join((*asked, *(part for name, text in properties.items() for part in (name, text or "")))).casefold()
    foreign = {
        secret: shown for secret, shown in (of_worker or {}).items() if not any(form.casefold() in posted for form in forms_of(secret))
    }
    return Hidden({**foreign, **secrets_of(resolution, properties, plugin.options)}).out_of


def _shortened(text: str, value: str) -> str:
    """Return the text with the quoted value shortened.

    Both have no secrets left, so none is cut in two.
    """
    return text.replace(value, f"{value[:_QUOTED_CHARS_MAX]}...") if len(value) > _QUOTED_CHARS_MAX else text
