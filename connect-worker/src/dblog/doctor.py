"""``dblog doctor``: checks a connector's configuration, database and account without a worker.

It reports what is missing, settings with which the connector may come to harm, and privileges of
the account that it does not need. A finding about the database names the section of the page on
preparing it (``dialects/guide.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dblog.abort import Abort
from dblog.apply.wanted import YAML_SUFFIXES, UnusableError, read_file
from dblog.cluster.requests import RequestError
from dblog.cluster.validation import DatabaseCheck, Validator, connector_of, limit_of
from dblog.config.connector import parse_connector
from dblog.config.hosts import OPTION as ALLOWED_HOSTS
from dblog.config.options import Settings, split_list
from dblog.config.properties import parse_properties, read_properties
from dblog.config.worker_file import resolve_worker_file
from dblog.dialects.guide import Topic, cited
from dblog.dialects.registry import kind_of
from dblog.errors import DblogError, DefiniteError

_TLS_KEYS = ("database.ssl.mode:", "database.sslmode:")


def read_connector(path: Path) -> dict[str, str]:
    """Read a connector's configuration from a file in JSON, YAML or properties form.

    The file has the form that ``connectors apply`` reads. JSON is recognised by its brace, because
    a file may have any name; YAML by its suffix, because properties may look like YAML. Raise
    DefiniteError if the file cannot be read.
    """
    if path.suffix in YAML_SUFFIXES:
        try:
            return dict(read_file(path).config)
        except UnusableError as e:
            raise DefiniteError(f"the file {path} {e}") from e
    try:
        text = path.read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text) if text.lstrip().startswith("{") else parse_properties(text)
    except (OSError, ValueError) as e:
        raise DefiniteError(
            f"the file {path} cannot be read as a connector's configuration ({type(e).__name__}); give JSON, YAML or properties"
        ) from e
    inner: Any = found.get("config")
    config = inner if isinstance(inner, dict) else found
    named = {"name": found["name"]} if isinstance(found.get("name"), str) else {"name": path.stem}
    return {**named, **{key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}}


def examined(config: Mapping[str, str], worker_file: Path | None, check_database: DatabaseCheck) -> Iterator[tuple[bool, str]]:
    """Yield each finding as (is an error, text). No text contains a secret."""
    written = read_properties(worker_file) if worker_file is not None else {}
    file = resolve_worker_file(written)
    hosts = split_list(file.texts.get(ALLOWED_HOSTS, ""))
    validator = Validator(providers=file.providers, hidden=file.hidden, check_database=check_database, allowed_hosts=hosts)
    try:
        outcome = validator.validate(config)
        if not outcome.errors:
            yield from ((False, _with_section(text, connector_of(config).flavor)) for text in outcome.warnings)
        errors = [(name, text) for name, texts in outcome.errors.items() for text in texts]
        yield from ((True, f"{name}: {text}") for name, text in errors)
        resolved, hide = validator.resolved(config)
        plugin = connector_of(config)
        settings = parse_connector(plugin.options, resolved)
    except (RequestError, DblogError) as e:
        yield True, str(e)
        return
    if not errors:
        yield from ((False, hide(text)) for text in _advice(plugin.flavor, settings, limit_of(resolved)))
    try:
        more = kind_of(plugin.flavor).superfluous(settings, limit_s=limit_of(resolved), abort=Abort())
    except DblogError as e:
        yield True, hide(f"the account's privileges cannot be listed: {e}")
        return
    if more:
        said = cited("the account has privileges that the connector does not need", plugin.flavor, Topic.ACCOUNT)
        yield False, f"{said}; to take them away, run there in this order:\n" + "\n".join(more)


def _advice(flavor: str, settings: Settings, limit_s: float) -> list[str]:
    try:
        return kind_of(flavor).advise(settings, limit_s=limit_s, abort=Abort())
    except DblogError as e:
        return [f"the server's settings cannot be looked at: {e}"]


def _with_section(text: str, flavor: str) -> str:
    """Return a remark about the connection's TLS with the section that helps."""
    return cited(text, flavor, Topic.TLS) if text.startswith(_TLS_KEYS) else text
