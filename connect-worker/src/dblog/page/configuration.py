"""The views of configurations: shown with secrets hidden, edited with the server's answer beside each
field and the difference before it is applied, created from a pasted one.

A stored secret never reaches the page. A field that is left empty keeps it, and one that is typed
stays in the browser until it is applied: no answer repeats it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dblog.cluster.confighistory import ConfigVersion
from dblog.cluster.requests import RequestError, bad_request, not_found
from dblog.config.options import HIDDEN
from dblog.config.plugins import CONNECTORS, find_connector
from dblog.config.properties import parse_properties
from dblog.config.secret_values import secret_keys, shown_name
from dblog.errors import DblogError
from dblog.page.asked import Answered, Asked, connector_path, page_path, refused
from dblog.page.connector import common, done, facts_of
from dblog.page.effects import restore_effect
from dblog.page.fleet import Facts
from dblog.rest.access import shown_values, without_secrets
from dblog.rest.identity import principal_of
from dblog.rest.versions import version_of

_FIELD, _REMOVE = "f.", "remove."
_STATES = {"RUNNING": "runs at once", "PAUSED": "is paused, its task waits", "STOPPED": "is stopped, nothing runs"}
_TEXT_CHARS_MAX = 1_000_000
_EXAMPLES = {
    "MariaDB": {
        "name": "shop",
        "config": {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "mariadb.example.com",
            "database.port": "3306",
            "database.user": "dblog",
            "database.password": "${file:/etc/dblog/secrets.properties:password}",
            "database.server.id": "184054",
            "topic.prefix": "shop",
            "database.include.list": "inventory",
            "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
            "schema.history.internal.kafka.topic": "schemahistory.shop",
        },
    },
    "PostgreSQL": {
        "name": "shop",
        "config": {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "postgres.example.com",
            "database.port": "5432",
            "database.user": "dblog",
            "database.password": "${file:/etc/dblog/secrets.properties:password}",
            "database.dbname": "shop",
            "topic.prefix": "shop",
            "schema.include.list": "inventory",
            "publication.name": "dblog",
            "publication.autocreate.mode": "disabled",
        },
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a configuration, as it is edited."""

    key: str
    shown: str
    """The value, or HIDDEN for a secret."""
    is_secret: bool
    doc: str = ""
    errors: tuple[str, ...] = ()
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the difference. None stands for a key that is not there."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A configuration that the connector has had."""

    number: int
    at_s: float | None
    changes: tuple[Change, ...] | None
    """Difference to the version before. None for the oldest one that is known."""


async def show(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the view of a configuration."""
    values = common(asked, "config")
    found: Facts = values["each"]
    # In threads, here and below: names are compared with those of passwords, and a configuration may have 5000.
    config = await asyncio.to_thread(without_secrets, _stored(asked, found.name))
    return {**values, "config": sorted(config.items()), "hidden": HIDDEN}


async def history(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the list of a connector's configurations, newest first."""
    values = common(asked, "config")
    found: Facts = values["each"]
    shown = await asyncio.to_thread(_shown_versions, asked.services.herder.configs.versions(found.name))
    return {**values, "versions": shown, "redirect": "", "said": "", "trigger": ""}


def _shown_versions(versions: Sequence[ConfigVersion]) -> list[Version]:
    configs = [each.config for each in versions]
    return [
        Version(
            number=each.offset,
            at_s=each.at_ms / 1000 or None,
            changes=tuple(changes_of(configs[at + 1], configs[at])) if at + 1 < len(versions) else None,
        )
        for at, each in enumerate(versions)
    ]


async def confirm_restore(asked: Asked) -> Mapping[str, Any]:
    """Return the confirmation of going back to a version, with the keys that would change."""
    found = facts_of(asked)
    version = version_of(asked.services, found.name, asked.segment("version"))
    changes = await asyncio.to_thread(changes_of, _stored(asked, found.name), version.config)
    return {"effect": restore_effect(found, changes), "url": page_path(found.name, f"/config/history/{version.offset}/restore")}


async def restore(asked: Asked) -> Mapping[str, Any]:
    """Go back to a version. The worker checks it as any other configuration."""
    name, version = asked.segment("connector"), asked.segment("version")
    answer = await asked.call("POST", connector_path(name, f"/config/versions/{quote(version, safe='')}/restore"))
    if not answer.is_good:
        raise refused(answer)
    return {**done(f"{name} has its configuration of version {version} again."), "redirect": page_path(name, "/config/history")}


async def edit(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the form with the stored configuration."""
    values = common(asked, "config")
    found: Facts = values["each"]
    stored = _stored(asked, found.name)
    return {**values, **await asyncio.to_thread(form_of, stored, stored, {})}


def _stored(asked: Asked, name: str) -> dict[str, str]:
    config = asked.services.herder.configs.connector_configs().get(name)
    if config is None:
        raise not_found(f"There is no connector {name}")
    return dict(config)


async def apply(asked: Asked) -> Mapping[str, Any]:
    """Check the edited configuration; with ``step`` apply, store it if it is valid."""
    values = common(asked, "config")
    found: Facts = values["each"]
    stored, fields = _stored(asked, found.name), await asked.fields()
    wanted = await asyncio.to_thread(edited, stored, fields)
    answer = await _checked(asked, wanted)
    errors = errors_of(answer)
    changes = await asyncio.to_thread(changes_of, stored, wanted)
    form = await asyncio.to_thread(form_of, stored, wanted, errors, remarks=answer.headers.get("warning", ""))
    form = {**values, **form, "changes": changes, "is_checked": True}
    if errors or fields.get("step") != "apply" or not changes:
        return form
    body = {key: wanted.get(key) for key in {*stored, *wanted} if stored.get(key) != wanted.get(key)}
    stored_answer = await asked.call("PATCH", connector_path(found.name, "/config"), body)
    if not stored_answer.is_good:
        return {**form, "refusal": stored_answer.message or f"The worker answered {stored_answer.status}"}
    said = done(f"The configuration of {found.name} was changed, {len(changes)} {'key' if len(changes) == 1 else 'keys'}.")
    return {**form, **said, "redirect": page_path(found.name, "/config"), "changes": []}


def edited(stored: Mapping[str, str], fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration that a form asks for. Raise RequestError 400.

    A field that is missing, a secret that was left empty, and a value that came back as it is shown,
    keep what is stored.
    """
    wanted = dict(stored)
    secret, shown = _secrets(stored), shown_values(stored)
    keys = {name: key for key, name in _form_names(stored).items()}
    for name, value in fields.items():
        if name.startswith(_FIELD):
            key, text = _key_of(name.removeprefix(_FIELD), keys), str(value)
            if key is None or (key in secret and not text) or text == shown.get(key):
                continue
            if HIDDEN in text:
                if key not in stored:
                    continue  # it is among the further keys, as it was typed
                if HIDDEN in shown[key]:
                    raise bad_request(
                        f"The value of {shown_name(key)} still has {HIDDEN} in place of its secret: type the whole value, or leave it as it was"
                    )
            wanted[key] = text
    wanted |= _more(str(fields.get("more") or ""))
    for name, value in fields.items():
        if name.startswith(_REMOVE) and value and (key := _key_of(name.removeprefix(_REMOVE), keys)) is not None:
            wanted.pop(key, None)
    return wanted


def _form_names(stored: Iterable[str], wanted: Iterable[str] = ()) -> dict[str, str]:
    """Return the name of each key in the form: the key with its secret hidden, numbered where several
    are shown alike, the stored ones first.
    """
    names: dict[str, str] = {}
    alike: Counter[str] = Counter()
    for key in dict.fromkeys((*sorted(stored), *sorted(wanted))):
        shown = shown_name(key)
        alike[shown] += 1
        names[key] = shown if alike[shown] == 1 else f"{shown} ({alike[shown]})"
    return names


def _key_of(name: str, keys: Mapping[str, str]) -> str | None:
    """Return the key that a field of the form stands for; None for one that is among the further keys."""
    return keys.get(name, None if HIDDEN in name else name)


def _more(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    try:
        return parse_properties(text)
    except DblogError as e:
        raise bad_request(f"The keys to add are lines of key=value: {e}") from e


def _secrets(config: Mapping[str, str]) -> frozenset[str]:
    plugin = find_connector(config.get("connector.class"))
    return frozenset(secret_keys(plugin.options if plugin is not None else (), config))


def changes_of(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[Change]:
    """Return the difference, with secrets hidden."""
    before, after = shown_values(stored), shown_values(wanted)
    names = _form_names(stored, wanted)
    return [Change(names[key], before.get(key), after.get(key)) for key in sorted(names) if stored.get(key) != wanted.get(key)]


def form_of(stored: Mapping[str, str], wanted: Mapping[str, str], errors: Mapping[str, list[str]], *, remarks: str = "") -> dict[str, Any]:
    """Return the values of the form for an edited configuration, with secrets hidden.

    ``errors`` are the messages of a check by key, ``remarks`` the text of its Warning header.
    """
    plugin = find_connector(wanted.get("connector.class"))
    docs = {option.name: option.doc for option in plugin.options} if plugin is not None else {}
    secret, shown, before = _secrets(wanted) | _secrets(stored), shown_values(wanted), shown_values(stored)
    names = _form_names(stored, wanted)
    keys = sorted({*stored, *wanted}, key=lambda key: (not errors.get(key), key))
    fields = [
        Field(
            key=names[key],
            shown=HIDDEN if key in secret else shown.get(key, before.get(key, "")),
            is_secret=key in secret,
            doc=docs.get(key, ""),
            errors=tuple(errors.get(key, ())),
            removed=key not in wanted,
        )
        for key in keys
    ]
    others = {shown_name(key): texts for key, texts in errors.items() if key not in keys}
    return {
        "fields": fields,
        "others": others,
        "remarks": remarks,
        "changes": [],
        "is_checked": False,
        "refusal": "",
        "redirect": "",
        "said": "",
        "trigger": "",
    }


async def _checked(asked: Asked, config: Mapping[str, str]) -> Answered:
    """Have the worker check a configuration, on its database too. Raise RequestError for a refusal."""
    name = config.get("connector.class", "").strip()
    if not name:
        raise bad_request("connector.class is missing: " + ", ".join(plugin.class_name for plugin in CONNECTORS))
    answer = await asked.call("PUT", f"/connector-plugins/{quote(name, safe='')}/config/validate", dict(config))
    if not answer.is_good:
        raise refused(answer)
    return answer


def errors_of(answer: Answered) -> dict[str, list[str]]:
    """Return the messages of a check by key."""
    found = {}
    for each in answer.body["configs"]:
        value = each["value"]
        if value["errors"]:
            found[str(value["name"])] = [str(text) for text in value["errors"]]
    return found


async def new(asked: Asked) -> Mapping[str, Any]:
    """Return the values of the form for a new connector."""
    return {
        "title": "New connector",
        "active": "new",
        "examples": {name: json.dumps(each, indent=2) for name, each in _EXAMPLES.items()},
        "states": _STATES,
        "caller_name": principal_of(asked.request).name,
        **_NOTHING_CHECKED,
    }


_NOTHING_CHECKED: dict[str, Any] = {
    "checked": [],
    "others": {},
    "errors": {},
    "is_checked": False,
    "name": "",
    "remarks": "",
    "refusal": "",
    "redirect": "",
    "said": "",
    "trigger": "",
}


async def create(asked: Asked) -> Mapping[str, Any]:
    """Check a pasted configuration; with ``step`` create, create the connector if it is valid."""
    fields = await asked.fields()
    values = {**_NOTHING_CHECKED, "states": _STATES}
    try:
        name, config = pasted(str(fields.get("text") or ""), str(fields.get("name") or ""))
        answer = await _checked(asked, {**config, "name": name})
    except RequestError as e:
        return {**values, "refusal": e.message}
    errors = errors_of(answer)
    shown = await asyncio.to_thread(shown_values, config)
    keys = sorted(config, key=lambda key: (not errors.get(key), key))
    values |= {
        "checked": [Field(key=shown_name(key), shown=shown[key], is_secret=False, errors=tuple(errors.get(key, ()))) for key in keys],
        "others": {shown_name(key): texts for key, texts in errors.items() if key not in config},
        "errors": {shown_name(key): texts for key, texts in errors.items()},
        "is_checked": True,
        "name": name,
        "remarks": answer.headers.get("warning", ""),
    }
    if errors or fields.get("step") != "create":
        return values
    state = str(fields.get("state") or "RUNNING")
    created = await asked.call("POST", "/connectors", {"name": name, "config": config, "initial_state": state})
    if not created.is_good:
        return {**values, "refusal": created.message or f"The worker answered {created.status}"}
    return {**values, **done(f"{name} was created."), "redirect": page_path(name)}


def pasted(text: str, name: str) -> tuple[str, dict[str, str]]:
    """Return name and configuration of a pasted text. Raise RequestError 400.

    It may be the JSON that Kafka Connect takes, the configuration alone, or a properties file. A
    name that is typed wins.
    """
    if not text.strip():
        raise bad_request("Paste a configuration: the JSON that Kafka Connect takes, or lines of key=value")
    if len(text) > _TEXT_CHARS_MAX:
        raise bad_request(f"The text has {len(text)} characters, and at most {_TEXT_CHARS_MAX} are allowed")
    config: Mapping[str, Any]
    if text.lstrip().startswith("{"):
        try:
            body = json.loads(text)
        except ValueError as e:
            raise bad_request(f"The text begins like JSON but is not valid: {e}") from e
        except RecursionError as e:
            raise bad_request("The text begins like JSON but is not valid: it has too many levels") from e
        inner = body.get("config")
        config = inner if isinstance(inner, dict) else body
        given = str(body.get("name") or config.get("name") or "")
    else:
        try:
            config = parse_properties(text)
        except DblogError as e:
            raise bad_request(f"The text is neither JSON nor lines of key=value: {e}") from e
        given = config.get("name", "")
    found = name.strip() or given.strip()
    if not found:
        raise bad_request("The connector has no name: type one, or paste one with the configuration")
    if nested := next((key for key, value in config.items() if isinstance(value, dict | list)), None):
        raise bad_request(f"The value of {nested} is not a text; a configuration has one text for each key")
    return found, {key: _text(value) for key, value in config.items() if key != "name" and value is not None}


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
